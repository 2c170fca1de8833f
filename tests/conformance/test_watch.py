"""What is wrong with a picture of the models, on its own and beside the one before it."""

import pytest

from paraudio.conformance._watch import Judge

GOOD = {
    "state": "ready",
    "loaded": True,
    "slots": 2,
    "active_slots": 1,
    "queued_requests": 0,
    "queued_managers": 0,
    "max_parallel_slots": 16,
    "path": "/one",
    "task": "tts",
    "mode": "offline",
    "config": 1,
}


@pytest.mark.parametrize(
    "change",
    [
        {"state": "loading"},
        {"state": "unloading"},
        {"state": "asleep"},
        {"loaded": False},
        {"loaded": "yes"},
        {"max_parallel_slots": None},
        {"active_slots": 3},
        {"queued_requests": -1},
        {"queued_managers": None},
    ],
)
def test_a_picture_that_cannot_be_is_noticed(change: dict[str, object]) -> None:
    judge = Judge()
    judge.judge(1, {"m": {**GOOD, **change}})
    assert judge.problems


@pytest.mark.parametrize(
    ("first", "second", "row"),
    [
        (2, 1, GOOD),
        (1, 1, {**GOOD, "active_slots": 0}),
        (1, 2, {**GOOD, "path": "/two"}),
        (1, None, GOOD),
        (1, True, GOOD),
    ],
)
def test_two_pictures_that_do_not_go_together_are_noticed(
    first: int, second: object, row: dict[str, object]
) -> None:
    judge = Judge()
    judge.judge(first, {"m": GOOD})
    judge.judge(second, {"m": row})
    assert len(judge.problems) == 1


def test_pictures_that_go_together_are_fine() -> None:
    judge = Judge()
    judge.judge(1, {"m": GOOD})
    judge.judge(1, {"m": GOOD})
    judge.judge(2, {"m": {**GOOD, "active_slots": 0}})
    judge.judge(3, {"m": {**GOOD, "path": "/two", "config": 2}, "n": GOOD})
    assert judge.problems == []
