"""Every cell of the contract is judged, or has a reason why it is not."""

import tomllib
from importlib import resources
from pathlib import Path

import pytest

from paraudio.conformance import _cells, cells
from paraudio.conformance._reasons import REASONS
from paraudio.conformance.scenarios import SCENARIOS

DATA = Path(__file__).parents[2] / "docs" / "contract"
JUDGED = [cell for scenario in SCENARIOS for cell in scenario.cells]


def test_the_cells_are_those_of_the_contract() -> None:
    files = sorted(DATA.glob("*.toml"))
    found = [cell for file in files for cell in tomllib.loads(file.read_text())["cells"]]
    assert sorted(cell.id for cell in cells()) == sorted(found)
    assert len(found) == len(set(found))


def test_every_cell_is_judged_or_has_a_reason_and_never_both() -> None:
    known = {cell.id for cell in cells()}
    assert set(JUDGED) | REASONS.keys() == known
    assert set(JUDGED) & REASONS.keys() == set()


def test_scenarios_have_names_of_their_own() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))


def test_an_installed_package_reads_its_own_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contract").mkdir()
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    assert _cells._folder() == tmp_path / "contract"


def test_the_wheel_takes_every_part_of_the_contract() -> None:
    project = tomllib.loads((DATA.parents[1] / "pyproject.toml").read_text())
    forced = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    taken = {name: f"paraudio/conformance/contract/{Path(name).name}" for name in forced}
    assert forced == taken
    assert {Path(name).stem for name in forced} == {*_cells._PARTS}
    assert {file.stem for file in DATA.glob("*.toml")} == {*_cells._PARTS}
