"""Break the admission and the lifecycle in small ways, one at a time, and see whether tests notice.

``python -m tools.mutate [--rooms admission lifecycle] [--every 5] [--jobs 2] [--only TEXT…]``

Each mutant is one change of one expression or statement, in a copy of the project. The fast tests
of the room run against it first; what they let live meets the slow ones. Whoever survives is
printed with its change, unless ``tools/mutants.toml`` says why nobody could tell it from the
original. Exits with 1 when less than 90% of the others are killed in any room.

``--outcomes FILE`` keeps what became of each mutant, and goes on from there: whoever was killed
before, in the same file of code, is counted and not tried again. ``--within SECONDS`` begins no
further mutant after so long; those that were not tried are not counted.

``--record FILE`` keeps the numbers of the rooms in a JSON file; ``docs/contract/mutants.json`` is
one, and the contract's pages are made from it.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

from tools.mutations import KINDS, PACKAGE, Mutant, mutants
from tools.outcomes import ALIVE, Outcome, Outcomes, placed
from tools.trial import try_tests

ROOT: Final = Path(__file__).parents[1]
COPIED: Final = ("src", "tests", "tools", "docs", "pyproject.toml")
OF_ITSELF: Final = "--ignore=tests/contract/test_mutate.py"
FLOOR: Final = 0.9
PATIENCE: Final = 2
"""How many times longer than usual a run of tests may compute; a mutant that loops is killed."""
LONGEST_S: Final = 1800

FAST: Final = {"admission": ["tests/admission"], "lifecycle": ["tests/lifecycle"]}
NOT_FAST: Final = {"test_line_machine.py", "test_scale.py", "test_machine.py", "test_mutate.py"}
"""Files that are not among the fast tests of their room, or that judge the mutants themselves."""
WITHOUT_A_LOOP: Final = ("test_inbox.py", "test_line.py", "test_line_changes.py")
"""What needs no event loop comes first: it fails where another test waits for ever."""
AT_LENGTH: Final = ("test_day.py",)
"""What takes longest comes last: nearly every mutant is dead by then."""
NEAREST: Final = {
    "_abandoned.py": ("entry", "hanging_loads"),
    "_bulk.py": ("bulk", "mutants"),
    "_calls.py": ("use", "live", "mutants"),
    "_candidate.py": ("candidate", "registering", "reconfiguring"),
    "_changes.py": ("parts",),
    "_entry.py": ("entry", "loading", "reconfiguring"),
    "_guard.py": ("residency", "hanging_loads"),
    "_initialize.py": ("loading", "hanging_loads", "residency"),
    "_load.py": ("loading", "hanging_loads"),
    "_manage.py": ("registering", "ending", "survey"),
    "_memory.py": ("free_memory",),
    "_model.py": ("shutdown",),
    "_phases.py": ("parts", "shutdown"),
    "_pool.py": ("parts", "loading", "reconfiguring"),
    "_promise.py": ("parts",),
    "_reaper.py": ("idling",),
    "_reconfigure.py": ("reconfiguring", "residency"),
    "_recover.py": ("recovery", "mutants"),
    "_registry.py": ("ending", "registering", "shutdown"),
    "_residency.py": ("residency",),
    "_retire.py": ("shutdown", "hanging_loads"),
    "_runtime.py": ("shutdown", "parts"),
    "_settings.py": ("candidate",),
    "_snapshot.py": ("places", "use"),
    "_states.py": ("parts",),
    "_use.py": ("use", "live"),
}
"""For a file of the lifecycle the tests that are most likely to notice; they come before all."""
SLOW: Final = {
    "admission": ["tests/admission", "tests/lifecycle", "tests/contract"],
    "lifecycle": [
        "tests/lifecycle/test_machine.py",
        "tests/contract",
        "tests/server",
        "tests/http",
    ],
}


def fast_tests(root: Path, places: Sequence[str]) -> list[str]:
    """The files of the fast tests, in the order in which they are run."""
    files = [file for place in places for file in sorted((root / place).rglob("test_*.py"))]
    chosen = [file for file in files if file.name not in NOT_FAST]
    chosen.sort(key=lambda file: (file.name in AT_LENGTH, file.name not in WITHOUT_A_LOOP))
    return [str(file.relative_to(root)) for file in chosen]


def nearest_tests(root: Path, mutant: Mutant) -> list[str]:
    """The files of tests that a mutant meets first of all; none where nobody is near."""
    if mutant.file.parent.name != "lifecycle":
        return []
    near = NEAREST.get(mutant.file.name, ())
    files = [Path("tests", "lifecycle", f"test_{name}.py") for name in near]
    return [str(file) for file in files if (root / file).exists()]


Suites: TypeAlias = Sequence[tuple[str, Sequence[str]]]
"""Tests that a mutant meets, one suite after the other, each with what it is called."""


class Workshop:
    """Copies of the project in which mutants are tried, one at a time each."""

    def __init__(self, root: Path, base: Path, count: int) -> None:
        self.root = root
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._patience: dict[tuple[str, ...], float] = {}
        for number in range(count):
            place = base / f"copy{number}"
            for name in COPIED:
                source = root / name
                if source.is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
                    shutil.copytree(source, place / name, ignore=ignored)
                else:
                    shutil.copy(source, place / name)
            self._free.put(place)

    def measure(self, suites: Suites) -> bool:
        """Run tests without a mutant, to learn how long they take; whether they pass."""
        place = self._free.get()
        try:
            for _, suite in suites:
                run = try_tests(place, suite, LONGEST_S)
                if run.passed is not True:
                    return False
                self._patience[tuple(suite)] = PATIENCE * run.computed_s + 5
            return True
        finally:
            self._free.put(place)

    def try_out(self, mutant: Mutant, suites: Suites) -> str:
        """What kills a mutant: the suite that does, ``time``; or ``nobody``."""
        place = self._free.get()
        file = place / mutant.file
        original = file.read_text(encoding="utf-8")
        _write(file, mutant.source)
        try:
            for name, suite in suites:
                passed = try_tests(place, suite, self._patience[tuple(suite)]).passed
                if not passed:
                    return "time" if passed is None else name
            return ALIVE
        finally:
            _write(file, original)
            self._free.put(place)


def _write(file: Path, source: str) -> None:
    """Change a file; what was compiled of it goes, since two changes may be of one second."""
    file.write_text(source, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def excused(root: Path) -> dict[str, str]:
    """The mutants that nobody can tell from the original, and why."""
    file = root / "tools" / "mutants.toml"
    if not file.exists():
        return {}
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["equivalent"]
    return {entry["mutant"]: entry["why"] for entry in entries}


def tell(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@dataclass
class Tally:
    """What became of the mutants of one room.

    Attributes:
        of: How many there are, in all.
        mutants: How many of them were tried.
        fast: How many the fast tests killed.
        slow: How many only the slow tests killed.
        time: How many were killed since the tests never ended.
        survived: How many nobody killed.
        excused: How many were left out, since nobody could kill them.
        seconds: How long it took, each mutant for itself.
    """

    of: int = 0
    mutants: int = 0
    fast: int = 0
    slow: int = 0
    time: int = 0
    survived: int = 0
    excused: int = 0
    seconds: int = 0

    def note(self, killer: str) -> None:
        """Count one; ``killer`` as `Workshop.try_out` tells it."""
        self.mutants += 1
        match killer:
            case "fast":
                self.fast += 1
            case "slow":
                self.slow += 1
            case "time":
                self.time += 1
            case _:
                self.survived += 1

    @property
    def share(self) -> float:
        """Of all mutants those that were killed."""
        return 1 - self.survived / self.mutants if self.mutants else 1.0

    def __str__(self) -> str:
        return (
            f"{self.mutants} of {self.of} mutants, {self.share:.1%} killed: "
            f"{self.fast} by fast tests, {self.slow} by slow ones, "
            f"{self.time} since they never ended; {self.survived} survived, "
            f"{self.excused} excused, in {self.seconds} s"
        )


Job: TypeAlias = tuple[Mutant, int]
"""A mutant, and its place among those of the same key."""


@dataclass(frozen=True)
class Trial:
    """How the mutants of one room are tried.

    Attributes:
        room: The room.
        workshop: Where.
        suites: The tests that they meet after those that are nearest.
        outcomes: What is known of them.
        until: When no further one is begun, by the performance counter.
        near: Whether they meet the nearest tests first.
    """

    room: str
    workshop: Workshop
    suites: Suites
    outcomes: Outcomes
    until: float
    near: bool = True

    def run(self, jobs: Sequence[Job], pool: ThreadPoolExecutor) -> Tally:
        """Try the mutants, and tell of those that survive."""
        tally, seconds = Tally(), 0.0
        for (mutant, _), outcome in zip(jobs, pool.map(self._try, jobs), strict=True):
            if outcome is None:
                continue
            tally.note(outcome.killer)
            seconds += outcome.seconds
            if outcome.killer != "fast":
                tell(f"{LATE[outcome.killer]} {mutant.key}  (line {mutant.line})")
            if tally.mutants % 25 == 0:
                tell(f"{self.room}: {tally.mutants} of {len(jobs)} tried, {tally.survived} alive")
        tally.seconds = round(seconds)
        return tally

    def measure(self, jobs: Sequence[Job]) -> bool:
        """Run every suite without a mutant; whether all pass."""
        alive = [job[0] for job in jobs if not _is_dead(self.outcomes.of(*job))]
        near = {tuple(suite): name for each in alive for name, suite in self._near(each)}
        return self.workshop.measure(
            [*((name, suite) for suite, name in near.items()), *self.suites]
        )

    def _near(self, mutant: Mutant) -> Suites:
        near = nearest_tests(self.workshop.root, mutant) if self.near else []
        return [("fast", near)] if near else []

    def _try(self, job: Job) -> Outcome | None:
        """What becomes of a mutant; None if there is no time for it."""
        known = self.outcomes.of(*job)
        if _is_dead(known):
            return known
        began = time.perf_counter()
        if began > self.until:
            return known
        killer = self.workshop.try_out(job[0], [*self._near(job[0]), *self.suites])
        return self.outcomes.note(*job, killer, time.perf_counter() - began)


def _is_dead(known: Outcome | None) -> bool:
    return known is not None and known.killer != ALIVE


LATE: Final = {"nobody": "SURVIVED", "slow": "KILLED LATE", "time": "NEVER ENDED"}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=list(FAST), choices=list(FAST))
    parser.add_argument("--every", type=int, default=1, help="take every so manieth mutant only")
    parser.add_argument("--first", type=int, default=0, help="and begin with this one")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="take mutants whose name has one of these in it"
    )
    parser.add_argument("--among", type=Path, help="take mutants that this file names, a log, say")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--jobs", type=int, default=2, help="how many to try at a time")
    parser.add_argument("--fast", action="store_true", help="leave the slow tests out")
    parser.add_argument("--outcomes", type=Path, help="go on from what this file says, and keep it")
    parser.add_argument(
        "--within", type=float, default=inf, help="begin none after so many seconds"
    )
    parser.add_argument("--tests", nargs="+", help="take these tests in place of the fast ones")
    parser.add_argument("--record", type=Path, help="write the numbers into this file, as JSON")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project")
    return parser.parse_args()


def _chosen(room: str, options: argparse.Namespace, known: Mapping[str, str]) -> list[Mutant]:
    root = options.root.resolve()
    named = "" if options.among is None else options.among.read_text(encoding="utf-8")
    return [
        mutant
        for file in sorted((root / PACKAGE / room).glob("*.py"))
        for mutant in mutants(root, file.relative_to(root))
        if any(text in mutant.key for text in options.only)
        and (options.among is None or f"{mutant.key}  (" in named)
        and mutant.kind in options.kinds
        and mutant.key not in known
    ]


def main() -> int:
    """Try the mutants, and tell."""
    options = _options()
    root = options.root.resolve()
    known = excused(root)
    tallies: dict[str, Tally] = {}
    outcomes, until = Outcomes(root, options.outcomes), time.perf_counter() + options.within
    with tempfile.TemporaryDirectory() as base, ThreadPoolExecutor(options.jobs) as pool:
        workshop = Workshop(root, Path(base), options.jobs)
        for room in options.rooms:
            suites = [("fast", options.tests or fast_tests(root, FAST[room]))]
            if not options.fast:
                suites.append(("slow", [*SLOW[room], OF_ITSELF]))
            found = _chosen(room, options, known)
            jobs = placed(found)[options.first :: options.every]
            trial = Trial(room, workshop, suites, outcomes, until, near=not options.tests)
            if not trial.measure(jobs):
                tell(f"the tests of {room} fail without any mutant")
                return 1
            tallies[room] = trial.run(jobs, pool)
            tallies[room].of = len(found)
            tallies[room].excused = sum(key.startswith(f"{room}/") for key in known)
    for room, tally in tallies.items():
        tell(f"{room}: {tally}")
    if options.record is not None:
        numbers = {room: asdict(tally) for room, tally in tallies.items()}
        options.record.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    return 0 if all(tally.share >= FLOOR for tally in tallies.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
