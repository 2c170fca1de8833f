"""Records which contract cells the tests of a run drove, and refuses cells that do not exist.

With ``--contract-results FILE`` the run writes, as JSON, the cell IDs with the tests that drove
each and whether all cases of that test passed. ``docs/contract/generate.py`` makes the pages.
"""

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

DATA: Final = Path(__file__).parents[2] / "docs" / "contract"


def known_cells() -> frozenset[str]:
    """The IDs of all cells of the contract's data."""
    return frozenset(
        cell
        for file in DATA.glob("*.toml")
        for cell in tomllib.loads(file.read_text(encoding="utf-8"))["cells"]
    )


def cells_of(item: pytest.Item) -> Iterable[str]:
    """The cells that a test says it drives."""
    for mark in item.iter_markers("contract"):
        yield from mark.args


class Ledger:
    """Which test drove which cell, and how it ended."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._cells: dict[str, tuple[str, ...]] = {}
        self._passed: dict[str, bool] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what each test drives.

        Raises:
            pytest.UsageError: A test names a cell that the contract does not have.
        """
        known = known_cells()
        for item in items:
            cells = tuple(dict.fromkeys(cells_of(item)))
            if unknown := sorted(set(cells) - known):
                raise pytest.UsageError(f"{item.nodeid} names unknown cells: {', '.join(unknown)}")
            if cells:
                self._cells[item.nodeid] = cells

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how each part of a test ended; a skipped test proves nothing."""
        if report.nodeid in self._cells and (report.when == "call" or not report.passed):
            before = self._passed.get(report.nodeid, True)
            self._passed[report.nodeid] = before and report.passed

    def pytest_sessionfinish(self) -> None:
        """Write what the run proved."""
        if self._file is None:
            return
        proof: dict[str, dict[str, bool]] = defaultdict(dict)
        for nodeid, passed in self._passed.items():
            test = nodeid.partition("[")[0]
            for cell in self._cells[nodeid]:
                proof[cell][test] = proof[cell].get(test, True) and passed
        text = json.dumps({cell: proof[cell] for cell in sorted(proof)}, indent=1, sort_keys=True)
        self._file.write_text(text + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file for the results."""
    parser.addoption("--contract-results", type=Path, help="write which cells were driven, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Start the ledger of this run."""
    config.pluginmanager.register(Ledger(config.getoption("--contract-results")), "contract-ledger")
