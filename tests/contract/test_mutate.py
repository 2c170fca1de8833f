"""The mutation runner is judged itself: what it changes, and whom it lets live."""

from pathlib import Path

import pytest
from tools import mutate

SOURCE = '''"""A room."""


def clamp(value: int, top: int) -> int:
    """Text is no code: 1 < 2."""
    if value > top and not value == 0:
        return min(value, top)
    return value + 1
'''
FILE = Path("src", "paraudio", "admission", "_room.py")

TEST = """
from paraudio.admission._room import clamp


def test_it():
    assert clamp(5, 3) == 3
    assert clamp(1, 3) == 2
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).write_text(SOURCE, encoding="utf-8")
    for folder in (tmp_path / FILE.parent, tmp_path / FILE.parents[1]):
        (folder / "__init__.py").touch()
    (tmp_path / "tests" / "admission").mkdir(parents=True)
    (tmp_path / "tests" / "admission" / "test_room.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    return tmp_path


def test_each_mutant_is_one_change_of_code_and_never_of_text(project: Path) -> None:
    found = [(each.where, each.before, each.after) for each in mutate.mutants(project, FILE)]
    condition = "value > top and (not value == 0)"
    assert found == [
        ("clamp", f"if {condition}", f"if not ({condition})"),
        ("clamp", condition, "value > top or not value == 0"),
        ("clamp", "value > top", "value >= top"),
        ("clamp", "value > top", "value <= top"),
        ("clamp", "not value == 0", "value == 0"),
        ("clamp", "value == 0", "value != 0"),
        ("clamp", "0", "1"),
        ("clamp", "0", "-1"),
        ("clamp", "min", "max"),
        ("clamp", "value + 1", "value - 1"),
        ("clamp", "1", "2"),
        ("clamp", "1", "0"),
    ]


@pytest.mark.process
def test_a_mutant_that_a_test_notices_is_killed_and_the_rest_lives(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workshop = mutate.Workshop(project, tmp_path_factory.mktemp("shop"), 1)
    suites = [["tests/admission"]]
    assert workshop.measure(suites)
    killers = {each.after: workshop.try_out(each, suites) for each in mutate.mutants(project, FILE)}
    assert killers["max"] == "fast"
    assert killers["value - 1"] == "fast"
    assert killers["value >= top"] == "nobody", "no test has both alike"
    assert (project / FILE).read_text(encoding="utf-8") == SOURCE
