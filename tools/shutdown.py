"""Print what the tests of shutdown measured: how servers ended, and how soon clients were missed.

``pytest --shutdown-results build/shutdown.json tests/server`` writes the file, and
``python tools/shutdown.py build/shutdown.json`` prints it as two tables in Markdown. Rows of the
same test that differ in their case only are one row with ``--short``: the slowest of them.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

Row = Mapping[str, Any]

ENDS: Final = ("row", "signals", "bound s", "took s", "exit", "cut")
LEFT: Final = ("the request was", "noticed ms", "free ms")


def end_row(end: Row) -> list[str]:
    """One end as cells."""
    signals = " ".join(end["signals"])
    seconds = (f"{end['bound_s']:.2f}", f"{end['seconds']:.2f}")
    return [end["row"], signals, *seconds, str(end["code"]), str(end["cuts"])]


def left_row(left: Row) -> list[str]:
    """One client that left as cells."""
    return [left["row"], f"{left['noticed_ms']:.0f}", f"{left['free_ms']:.0f}"]


def slowest(ends: Iterable[Row]) -> list[Row]:
    """Of each test the case that came nearest to its bound."""
    worst: dict[str, Row] = {}
    for end in ends:
        test = end["row"].partition("[")[0]
        if test not in worst or spare(end) < spare(worst[test]):
            worst[test] = end
    return list(worst.values())


def spare(end: Row) -> float:
    """Seconds that were left of the bound."""
    return float(end["bound_s"]) - float(end["seconds"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main(arguments: Sequence[str]) -> int:
    """Print the tables; 1 if a server took longer than it promises."""
    parser = argparse.ArgumentParser(description="How servers ended in the tests.")
    parser.add_argument("file", type=Path, help="what pytest --shutdown-results wrote")
    parser.add_argument("--short", action="store_true", help="one row a test: its slowest case")
    options = parser.parse_args(arguments)
    found = json.loads(options.file.read_text(encoding="utf-8"))
    ends = slowest(found["ends"]) if options.short else found["ends"]
    lines = [*table(ENDS, map(end_row, ends)), "", *table(LEFT, map(left_row, found["left"]))]
    sys.stdout.write("\n".join(lines) + "\n")
    late = [end["row"] for end in found["ends"] if spare(end) <= 0]
    for row in late:
        sys.stderr.write(f"longer than promised: {row}\n")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
