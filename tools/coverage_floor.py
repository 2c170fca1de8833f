"""Fails unless each of the inner rooms has enough of its lines, and of its branches, covered.

python tools/coverage_floor.py COVERAGE.json        (what `coverage json` wrote)
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FLOOR: Final = 95.0
ROOMS: Final = ("admission", "lifecycle", "journal")


def totals(files: dict[str, Any], room: str) -> Counter[str]:
    """The counts of a room, summed over its files."""
    counts: Counter[str] = Counter()
    for name, file in files.items():
        if f"paraudio/{room}/" in name:
            counts.update(
                {key: value for key, value in file["summary"].items() if isinstance(value, int)}
            )
    return counts


def shares(counts: Counter[str]) -> Iterator[tuple[str, float]]:
    """What is covered, in percent, of lines and of branches."""
    yield "lines", percent(counts["covered_lines"], counts["num_statements"])
    yield "branches", percent(counts["covered_branches"], counts["num_branches"])


def percent(part: int, whole: int) -> float:
    """A share; nothing at all counts as uncovered, so that a renamed room is noticed."""
    return 100.0 * part / whole if whole else 0.0


def main(report: str) -> int:
    """Print the shares; 1 if one is below the floor."""
    files = json.loads(Path(report).read_text(encoding="utf-8"))["files"]
    low = False
    for room in ROOMS:
        for what, share in shares(totals(files, room)):
            low = low or share < FLOOR
            mark = "" if share >= FLOOR else f"  below {FLOOR:.0f}"
            sys.stdout.write(f"coverage {room:10} {what:8} {share:6.2f} %{mark}\n")
    return int(low)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
