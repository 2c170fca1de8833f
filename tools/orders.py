"""Play every order of up to N arrivals in every situation of two models against the reference.

``python -m tools.orders --length 4 --jobs 2`` from the root of the project. Exits with 1 when the
runtime did something else than the reference says, or broke a rule, and tells where.

``--record FILE`` keeps in a JSON file how far each length has come, and goes on from there: a run
of an hour may be cut into many. ``docs/contract/exhaustive.json`` is such a file; the contract's
pages are made from it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import Final

from tests.contract.orders import SITUATIONS, Case, cases, expect, play, sample

CHUNK: Final = 64
NOTED: Final = 512
"""Between two entries in the record so many cases are played."""
SHOWN: Final = 20
"""Differences that are told in full."""


@dataclass
class Entry:
    """How far the orders of one length have come.

    Attributes:
        orders: How many there are.
        sampled: How many of them the tests play.
        played: How many were played, the first ones.
        wrong: In how many the runtime did something else, or broke a rule.
        seconds: How long that took, of one processor.
    """

    orders: int
    sampled: int
    played: int = 0
    wrong: int = 0
    seconds: float = 0.0


class Record:
    """What was played, by length; in a file, if there is one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.entries: dict[int, Entry] = {}
        if file is not None and file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            self.entries = {int(length): Entry(**entry) for length, entry in found.items()}

    def entry(self, length: int) -> Entry:
        """Of one length."""
        if length not in self.entries:
            sampled = sum(len(sample(situation, length)) for situation in SITUATIONS)
            self.entries[length] = Entry(sum(1 for _ in cases(length)), sampled)
        return self.entries[length]

    def save(self) -> None:
        """Write it."""
        if self._file is not None:
            entries = {str(length): asdict(entry) for length, entry in self.entries.items()}
            self._file.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Verdict:
    """What came of one case: what is wrong, or None, and how many seconds it took."""

    finding: str | None
    seconds: float


def judge(numbered: tuple[int, Case]) -> Verdict:
    """Play one case."""
    number, case = numbered
    began, finding = time.process_time(), None
    try:
        expected, outcome = expect(case), play(case, seed=number)
        if outcome != expected:
            finding = f"{case}\n  expected {expected}\n  got      {outcome}"
    except Exception as error:
        finding = f"{case}\n  {type(error).__name__}: {error}"
    return Verdict(finding, time.process_time() - began)


Players = Callable[[Iterable[tuple[int, Case]]], Iterator[Verdict]]


def play_length(length: int, every: int, record: Record, players: Players) -> None:
    """Play the orders of one length that are not played yet, and tell what is wrong."""
    entry = record.entry(length)
    numbered = islice(enumerate(cases(length)), entry.played, None, every)
    for verdict in players(numbered):
        entry.played += 1
        entry.seconds = round(entry.seconds + verdict.seconds, 3)
        if verdict.finding is not None:
            entry.wrong += 1
            if entry.wrong <= SHOWN:
                _tell(verdict.finding)
        if entry.played % NOTED == 0:
            record.save()
    record.save()
    pace = entry.played / entry.seconds if entry.seconds else 0
    _tell(
        f"length {length}: {entry.played} of {entry.orders} orders, {entry.wrong} wrong, "
        f"in {entry.seconds:.0f} s of a processor ({pace:.0f} a second)"
    )


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Play, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=4, help="longest order")
    parser.add_argument("--shortest", type=int, default=1, help="shortest order")
    parser.add_argument("--every", type=int, default=1, help="take every so manieth order only")
    parser.add_argument("--record", type=Path, help="go on from what this file says, and keep it")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    if arguments.record is not None and arguments.every != 1:
        parser.error("a record is of all orders: leave --every out")
    record = Record(arguments.record)
    with nullcontext() if arguments.jobs == 1 else Pool(arguments.jobs) as pool:

        def players(numbered: Iterable[tuple[int, Case]]) -> Iterator[Verdict]:
            return map(judge, numbered) if pool is None else pool.imap(judge, numbered, CHUNK)

        for length in range(arguments.shortest, arguments.length + 1):
            play_length(length, arguments.every, record, players)
    return 1 if any(entry.wrong for entry in record.entries.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
