"""The mutation runner is judged itself: what it changes, and whom it lets live."""

import ast
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

import pytest
from tools import trial
from tools.mutate import Trial, Workshop
from tools.mutations import mutants
from tools.outcomes import Outcomes, placed

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
    (tmp_path / "tools").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    return tmp_path


def test_each_mutant_is_one_change_of_code_and_never_of_text(project: Path) -> None:
    found = [(each.where, each.before, each.after) for each in mutants(project, FILE)]
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
        ("clamp", "return min(value, top)", "return None"),
        ("clamp", "min", "max"),
        ("clamp", "return value + 1", "return None"),
        ("clamp", "value + 1", "value - 1"),
        ("clamp", "1", "2"),
        ("clamp", "1", "0"),
    ]


BLOCKS = """
def play(lock, note, calls):
    with lock:
        try:
            calls.begin(note, lock, loud=True)
        except OSError:
            note("lost")
        finally:
            calls.end()
"""


def test_blocks_calls_and_words_are_broken_too(project: Path) -> None:
    (project / FILE).write_text(BLOCKS, encoding="utf-8")
    found = [(each.kind, each.before, each.after) for each in mutants(project, FILE)]
    begin = "calls.begin(note, lock, loud=True)"
    assert found == [
        ("blocks", "with lock:", "if True"),
        ("blocks", "try, finally: calls.end()", "try"),
        ("statements", begin, "pass"),
        ("calls", begin, "calls.begin(lock, note, loud=True)"),
        ("calls", begin, "calls.begin(note, lock)"),
        ("values", "True", "False"),
        ("blocks", "except OSError: note('lost')", "except OSError: raise"),
        ("statements", "note('lost')", "pass"),
        ("values", "'lost'", "'no_lost'"),
        ("statements", "calls.end()", "pass"),
    ]
    for each in mutants(project, FILE):
        ast.parse(each.source)  # every mutant is a program


@pytest.mark.process
def test_a_mutant_that_a_test_notices_is_killed_and_the_rest_lives(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workshop = Workshop(project, tmp_path_factory.mktemp("shop"), 1)
    suites = [("fast", ["tests/admission"])]
    assert workshop.measure(suites)
    found = {each.after: each for each in mutants(project, FILE)}
    assert workshop.try_out(found["max"], suites) == "fast"
    assert workshop.try_out(found["value >= top"], suites) == "nobody", "no test has both alike"
    assert (project / FILE).read_text(encoding="utf-8") == SOURCE


def test_an_outcome_is_kept_for_a_mutant_of_the_same_code_alone(project: Path) -> None:
    file = project / "outcomes.jsonl"
    first = list(mutants(project, FILE))
    ones = placed([first[-1], first[-1], first[0]])
    assert [place for _, place in ones] == [0, 1, 0]
    Outcomes(project, file).note(*ones[1], "fast", 1.25)
    again = Outcomes(project, file)
    assert [outcome and outcome.killer for outcome in (again.of(*each) for each in ones)] == [
        None,
        "fast",
        None,
    ]
    (project / FILE).write_text(SOURCE + "\n", encoding="utf-8")
    assert Outcomes(project, file).of(*ones[1]) is None, "the code is not the same any more"


@pytest.mark.process
def test_a_run_goes_on_where_the_one_before_it_was_cut(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workshop = Workshop(project, tmp_path_factory.mktemp("shop"), 1)
    suites = [("fast", ["tests/admission"])]
    assert workshop.measure(suites)
    jobs = placed(
        [each for each in mutants(project, FILE) if each.after in {"max", "value >= top"}]
    )
    outcomes = Outcomes(project, project / "outcomes.jsonl")
    outcomes.note(*jobs[0], "nobody", 5)
    outcomes.note(*jobs[1], "slow", 5)
    with ThreadPoolExecutor(1) as pool:
        late = Trial("admission", workshop, suites, outcomes, -inf).run(jobs, pool)
        assert (late.slow, late.survived, late.seconds) == (1, 1, 10), "there was no time"
        tally = Trial("admission", workshop, suites, outcomes, inf).run(jobs, pool)
        assert (tally.fast, tally.slow, tally.survived) == (0, 1, 1), "who survived is tried again"
        assert tally.seconds < late.seconds
        fresh = Outcomes(project, None)
        assert Trial("admission", workshop, suites, fresh, -inf).run(jobs, pool).mutants == 0


@pytest.mark.process
def test_a_run_that_waits_for_ever_is_ended_long_before_its_time(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = "import threading\n\n\ndef test_it():\n    threading.Event().wait()\n"
    (project / "tests" / "admission" / "test_room.py").write_text(waits, encoding="utf-8")
    monkeypatch.setattr(trial, "IDLE_S", 2)
    assert trial.try_tests(project, ["tests/admission"], 1000).passed is None
