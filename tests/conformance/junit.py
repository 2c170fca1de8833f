"""Reads the XML as build servers do, and compares it with the JSON of the same run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from junitparser import Failure, JUnitXml, Skipped, TestCase

COUNTS = {"tests": None, "failures": "fail", "skipped": "not applicable"}
RESULTS: Mapping[str, type[Failure | Skipped] | None] = {
    "pass": None,
    "fail": Failure,
    "not applicable": Skipped,
}


def differences(file: Path, report: Mapping[str, Any]) -> list[str]:
    """Where the file says something else than the JSON; nothing where they agree."""
    [suite] = JUnitXml.fromfile(str(file))
    cells = report["cells"]
    wanted = {"tests": len(cells), "errors": 0, "time": report["seconds"]}
    wanted |= {name: report["counts"][verdict] for name, verdict in COUNTS.items() if verdict}
    found = [
        f"{name} is {getattr(suite, name)}, not {value}"
        for name, value in wanted.items()
        if getattr(suite, name) != value
    ]
    cases = list(suite)
    if len(cases) != len(cells):
        found.append(f"{len(cases)} cases for {len(cells)} cells")
    for case, cell in zip(cases, cells, strict=False):
        found += _case_differences(case, cell)
    return found


def _case_differences(case: TestCase, cell: Mapping[str, Any]) -> list[str]:
    found = []
    name = f"{case.classname}/{case.name}".replace(".", "/")
    if name != f"contract/{cell['cell']}":
        found.append(f"{name} stands for {cell['cell']}")
    if case.time != cell["seconds"]:
        found.append(f"{name} took {case.time} s, not {cell['seconds']}")
    kind = RESULTS[cell["verdict"]]
    if [type(result) for result in case.result] != ([] if kind is None else [kind]):
        found.append(f"{name} is {case.result}, not {cell['verdict']}")
    said = [result.message for result in case.result]
    if said != ([] if kind is None else [printable(cell["reason"])]):
        found.append(f"{name} says {said}, not {cell['reason']!r}")
    return found


def printable(text: str) -> str:
    """What XML can hold of a text of these tests."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
