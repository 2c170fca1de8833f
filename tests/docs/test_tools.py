"""The tools that judge the code are judged themselves."""

import json
from pathlib import Path

import pytest
from tools import coverage_floor


def report(path: Path, *, lifecycle_branches: int) -> str:
    """What `coverage json` would write for three rooms of 100 lines and 20 branches each."""

    def summary(branches: int) -> dict[str, dict[str, float]]:
        counts = {"num_statements": 100, "covered_lines": 99, "num_branches": 20}
        return {"summary": counts | {"covered_branches": branches, "percent_covered": 99.5}}

    files = {
        "src/paraudio/admission/_queue.py": summary(20),
        "src/paraudio/journal/_ring.py": summary(19),
        "src/paraudio/lifecycle/_pool.py": summary(lifecycle_branches),
        "src/paraudio/http/_app.py": summary(0),
    }
    path.write_text(json.dumps({"files": files}), encoding="utf-8")
    return str(path)


def test_enough_coverage_of_the_inner_rooms_passes(tmp_path: Path) -> None:
    assert coverage_floor.main(report(tmp_path / "c.json", lifecycle_branches=19)) == 0


def test_branches_below_the_floor_fail_though_the_lines_are_above(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coverage_floor.main(report(tmp_path / "c.json", lifecycle_branches=18)) == 1
    low = [line for line in capsys.readouterr().out.splitlines() if "below" in line]
    assert low == ["coverage lifecycle  branches  90.00 %  below 95"]


def test_a_room_without_any_code_fails(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"files": {}}')
    assert coverage_floor.main(str(tmp_path / "c.json")) == 1
