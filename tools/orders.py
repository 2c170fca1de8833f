"""Play every order of up to N arrivals in every situation of two models against the reference.

``python -m tools.orders --length 4 --jobs 2`` from the root of the project. Exits with 1 when the
runtime did something else than the reference says, or broke a rule, and tells where.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice
from multiprocessing import Pool

from tests.contract.orders import GAPS_MS, Case, cases, expect, play

CHUNK = 64
SHOWN = 20
"""Differences that are told in full."""


def judge(numbered: tuple[int, Case]) -> str | None:
    """Play one case; what is wrong, or None."""
    number, case = numbered
    try:
        expected, outcome = expect(case), play(case, seed=number)
    except Exception as error:
        return f"{case}\n  {type(error).__name__}: {error}"
    if outcome == expected:
        return None
    return f"{case}\n  expected {expected}\n  got      {outcome}"


def chosen(arguments: argparse.Namespace) -> Iterator[Case]:
    """The cases that were asked for."""
    for length in range(1, arguments.length + 1):
        wanted = (case for case in cases(length) if case.gap_ms in arguments.gaps)
        yield from islice(wanted, 0, None, arguments.every)


def main() -> int:
    """Play, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=4, help="longest order")
    parser.add_argument("--gaps", type=int, nargs="+", default=list(GAPS_MS), choices=GAPS_MS)
    parser.add_argument("--every", type=int, default=1, help="take every so manieth order only")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    began = time.perf_counter()
    played, wrong = 0, 0
    with Pool(arguments.jobs) as pool:
        for finding in pool.imap(judge, enumerate(chosen(arguments)), CHUNK):
            played += 1
            if finding is not None:
                wrong += 1
                if wrong <= SHOWN:
                    sys.stdout.write(finding + "\n")
    took = time.perf_counter() - began
    sys.stdout.write(
        f"{played} orders in {took:.0f} s ({played / took:.0f} a second), {wrong} wrong\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
