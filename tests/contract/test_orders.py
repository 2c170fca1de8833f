"""Orders of arrivals: all the short ones, and a sample of the longer; the tool has all of them."""

import pytest
from tests.contract.orders import SAMPLES, SITUATIONS, Case, expect, play, sample
from tests.contract.reference import Arrival, Pace, World


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("length", SAMPLES)
def test_the_runtime_grants_ends_and_leaves_what_the_reference_says(
    situation: str, length: int
) -> None:
    for number, case in enumerate(sample(situation, length)):
        assert play(case, seed=number) == expect(case), case


def test_the_order_of_tasks_changes_nothing() -> None:
    for case in (
        Case("a_loading_b_ready", 2, 0, ("stream a", "change a", "disconnect", "request a")),
        Case("a_full_queued_b_ready", 1, 1700, ("bulk b+a", "request b", "unload a", "idle")),
    ):
        outcomes = [play(case, seed=seed) for seed in range(20)]
        assert outcomes == [expect(case)] * 20


def test_the_reference_says_what_the_rules_say() -> None:
    """One story with everything in it, worked out by hand."""
    world = World({"m": (Pace(load=10, run=5, unload=7), "/old", 1, False)})
    outcome = world.run(
        [
            Arrival("driver", "request", "m", 0),
            Arrival("waiter", "request", "m", 1),
            Arrival("manager", "change", "m", 2, path="/new", slots=2),
            Arrival("younger", "request", "m", 3),
            Arrival("", "idle", at=4),
            Arrival("hasty", "unload", "m", 5),
            Arrival("", "disconnect", at=6),
        ]
    )
    drained = 10 + 5 + 5
    changed = drained + (10 + 7) + 7 + 10
    assert outcome.grants["m"] == [
        ("driver", 0),
        ("waiter", 15),
        ("manager", drained),
        ("younger", changed),
    ]
    assert outcome.ends == {
        "hasty": ("cancelled", 6),
        "driver": ("done", 15),
        "waiter": ("done", drained),
        "manager": ("done", changed),
        "younger": ("done", changed + 5),
    }
    assert outcome.models["m"] == (True, "/new", 2)
