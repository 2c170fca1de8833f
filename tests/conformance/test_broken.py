"""It can fail: each of these servers is broken in one way, and the cells that it breaks say so."""

import pytest
from tests.conformance.breaks import BREAKS, Break
from tests.conformance.inside import serving

from paraudio.conformance import Report, Verdict, _runner, conform

UNIT_S = 0.12
SOUND = "fail/publication_failure_before_commit"
"""A cell that none of them breaks."""


async def judged(*only: str, **broken: object) -> Report:
    async with serving(**broken) as url:  # type: ignore[arg-type]  # passed on as they are
        return await conform(url, only=only, unit_s=UNIT_S)


@pytest.mark.parametrize("broken", BREAKS, ids=lambda each: each.name.replace(" ", "_"))
async def test_a_broken_server_fails_in_the_cells_that_it_breaks(
    broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.do(monkeypatch)
    # Slower tries are for slow machines; what is broken here stays so.
    monkeypatch.setattr(_runner, "_TRIES", 1)
    report = await judged(*broken.cells, SOUND)
    verdicts = {result.cell: result.verdict for result in report.results}
    assert verdicts.pop(SOUND) is Verdict.PASS
    assert verdicts == dict.fromkeys(broken.cells, Verdict.FAIL)
    assert any(broken.says in result.reason for result in report.results), report.results


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
    assert reason == "models cannot be managed here: 403"
