"""Each field case has its tests, and each test of a case names one that there is."""

import ast
import re
from pathlib import Path

from tests.cases.field import CASES

NUMBERED = re.compile(r"test_c(\d\d)_\w+")


def numbers() -> set[int]:
    """The cases that the modules beside this one have tests of."""
    found = set()
    for module in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                numbered = NUMBERED.fullmatch(node.name)
                if numbered:
                    found.add(int(numbered[1]))
    return found


def test_each_case_has_a_test_and_each_number_is_one_of_a_case() -> None:
    assert numbers() == set(CASES)


def test_the_cases_are_numbered_without_a_gap() -> None:
    assert list(CASES) == list(range(1, len(CASES) + 1))
