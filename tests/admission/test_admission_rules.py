"""The pure rules: no queue, no clock, no event loop."""

from math import inf

import pytest

from paraudio.admission import Claim, effective_bound_s
from paraudio.admission._rules import fails_fast, grantable, is_full


@pytest.mark.parametrize(
    ("request_ms", "model_ms", "server_ms", "seconds"),
    [
        (None, None, 300_000, 300.0),
        (0, None, 300_000, 300.0),
        (500, None, 300_000, 0.5),
        (500, 200, 300_000, 0.2),
        (100, 200, 300_000, 0.1),
        (900_000, None, 300_000, 300.0),
        (None, 0, 300_000, inf),
        (0, 0, 300_000, inf),
        (250, 0, 300_000, 0.25),
        (None, None, 0, inf),
        (250, None, 0, 0.25),
        (None, 400, 0, 0.4),
        (None, 400_000, 300_000, 400.0),
    ],
)
def test_a_request_shortens_its_wait_and_never_lengthens_it(
    request_ms: int | None, model_ms: int | None, server_ms: int, seconds: float
) -> None:
    assert effective_bound_s(request_ms, model_ms, server_ms) == seconds


@pytest.mark.parametrize(
    ("claim", "free", "slots", "expected"),
    [
        (Claim.REQUEST, 0, 4, False),
        (Claim.REQUEST, 1, 4, True),
        (Claim.REQUEST, 4, 4, True),
        (Claim.MANAGER, 0, 4, False),
        (Claim.MANAGER, 3, 4, False),
        (Claim.MANAGER, 4, 4, True),
        (Claim.MANAGER, 0, 1, False),
        (Claim.MANAGER, 1, 1, True),
    ],
)
def test_a_request_needs_a_slot_and_a_manager_all(
    claim: Claim, free: int, slots: int, expected: bool
) -> None:
    assert grantable(claim, free, slots) is expected


@pytest.mark.parametrize(
    ("bound_s", "held_since", "expected"),
    [
        (5.0, [4.0], True),  # a single occupant, also a manager, held for 6 s
        (5.0, [5.0], False),  # exactly as long as the bound is not longer
        (5.0, [4.0, 1.0], True),
        (5.0, [4.0, 9.0], False),  # one healthy occupant
        (inf, [-1e9], False),  # no bound never fails fast
    ],
)
def test_waiting_is_pointless_once_every_occupant_held_longer_than_the_bound(
    bound_s: float, held_since: list[float], expected: bool
) -> None:
    assert fails_fast(bound_s, 10.0, held_since) is expected


@pytest.mark.parametrize(
    ("limit", "queued", "expected"),
    [(0, 10_000, False), (1, 0, False), (1, 1, True), (3, 2, False), (3, 3, True), (3, 9, True)],
)
def test_a_limit_of_zero_is_no_limit(limit: int, queued: int, expected: bool) -> None:
    assert is_full(limit, queued) is expected
