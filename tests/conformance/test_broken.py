"""It can fail: each of these servers is broken in one way, and the cells that it breaks say so."""

import pytest
from tests.conformance.breaks import BREAKS, Break
from tests.conformance.inside import serving

from paraudio.conformance import Report, Verdict, _runner, conform

UNITS_S = (0.12, 0.5, 2.0)
"""From fast to slow: a situation that a slow machine lets pass by shows in the next."""
SOUND = "fail/publication_failure_before_commit"
"""A cell that none of them breaks."""


async def judged(*only: str, unit_s: float = UNITS_S[0], **broken: object) -> Report:
    async with serving(**broken) as url:  # type: ignore[arg-type]  # passed on as they are
        return await conform(url, only=only, unit_s=unit_s)


def flaws(broken: Break, report: Report) -> list[object]:
    """Where a report is not what the broken server should get."""
    verdicts = {result.cell: result.verdict for result in report.results}
    found: list[object] = [] if verdicts.pop(SOUND) is Verdict.PASS else [SOUND]
    found += [cell for cell in broken.cells if verdicts[cell] is not Verdict.FAIL]
    if not any(broken.says in result.reason for result in report.results):
        found += [broken.says, *report.results]
    return found


@pytest.mark.parametrize("broken", BREAKS, ids=lambda each: each.name.replace(" ", "_"))
async def test_a_broken_server_fails_in_the_cells_that_it_breaks(
    broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.do(monkeypatch)
    # What shows as too slow would be tried three times before it fails; so here are the tries.
    monkeypatch.setattr(_runner, "_TRIES", 1)
    found: list[object] = []
    for unit_s in UNITS_S:
        found = flaws(broken, await judged(*broken.cells, SOUND, unit_s=unit_s))
        if not found:
            return
    assert found == []


async def test_the_same_server_passes_in_those_cells_when_it_is_whole() -> None:
    cells = {cell for broken in BREAKS for cell in broken.cells}
    report = await judged(*cells)
    assert [each for each in report.results if each.verdict is not Verdict.PASS] == []
    assert {each.cell for each in report.results} == cells


async def test_a_revision_that_stands_still_is_noticed() -> None:
    report = await judged("beyond/g06_atomic_status", SOUND, revision=lambda: 7)
    [status] = [each for each in report.results if each.cell != SOUND]
    assert status.verdict is Verdict.FAIL
    assert "revision 7 did not" in status.reason


async def test_without_management_nothing_applies_and_nothing_fails() -> None:
    report = await judged(ui_management=False)
    assert report.policy == "unknown"
    assert {each.verdict for each in report.results} == {Verdict.NOT_APPLICABLE}
    [reason] = [each.reason for each in report.results if each.cell == "ops/ready/inference"]
    assert reason.startswith("models cannot be managed here: 403: ")
