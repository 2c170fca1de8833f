"""A run of tests in a process of its own, forked from one that has imported the libraries already.

Most of a short run of tests is the imports, and they are the same each time. So one process makes
them once, and each run begins as a copy of it. The project's own code is imported by the run.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, NoReturn

import psutil

LIBRARIES: Final = ["pytest", "hypothesis.stateful", "trio.testing", "numpy"]
MEMORY: Final = 8 * 2**30
"""Bytes of address space that tests may take; a mutant that loops may want all there is."""
WAITING: Final = 3
"""How many times longer than it may compute a run may take, since other work may slow it down."""
IDLE_S: Final = 20
"""A run that computes nothing for so long waits for what never comes."""
STEP_S: Final = 1.0

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(LIBRARIES)


@dataclass(frozen=True)
class Run:
    """A run of tests.

    Attributes:
        passed: Whether all passed; None if they did not end.
        computed_s: Seconds that they computed, if they ended.
    """

    passed: bool | None
    computed_s: float


def try_tests(place: Path, suite: Sequence[str], patience_s: float) -> Run:
    """Run tests of a copy of the project.

    Args:
        place: The copy.
        suite: What pytest is told to run.
        patience_s: Seconds that they may compute.
    """
    here, there = _CONTEXT.Pipe(duplex=False)
    run = _CONTEXT.Process(target=_run, args=(str(place), list(suite), int(patience_s), there))
    run.start()
    there.close()
    if not _ends(run, WAITING * patience_s) and run.pid is not None:
        os.killpg(run.pid, signal.SIGKILL)
        run.join()
    killed = run.exitcode == -signal.SIGKILL
    computed_s: float = 0.0 if killed or not here.poll() else here.recv()
    here.close()
    return Run(None if killed else run.exitcode == 0, computed_s)


def _ends(run: BaseProcess, longest_s: float) -> bool:
    """Wait for the end of a run; False if there is none to come."""
    began = active = time.monotonic()
    before = 0.0
    while run.exitcode is None:
        run.join(STEP_S)
        now, computed = time.monotonic(), _computed_s(run.pid)
        if computed != before:
            before, active = computed, now
        if now - began > longest_s or now - active > IDLE_S:
            return run.exitcode is not None
    return True


def _computed_s(pid: int | None) -> float:
    """Seconds that a process has computed, and those that it has started."""
    try:
        whole = psutil.Process(pid)
        times = [each.cpu_times() for each in (whole, *whole.children(recursive=True))]
    except psutil.Error:
        return 0.0
    return sum(each.user + each.system for each in times)


def _run(place: str, suite: list[str], patience_s: int, computed: Connection) -> NoReturn:
    """What the process does."""
    os.setsid()
    os.chdir(place)
    sys.dont_write_bytecode = False
    sys.path[:0] = [place, f"{place}/src"]
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (patience_s, patience_s))
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    import pytest  # noqa: PLC0415 - here, where it costs nothing

    # Whatever else is installed beside the project has no say in its tests, and costs time.
    others = ["-p", "no:cacheprovider", "-p", "no:schemathesis"]
    early = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main(["-x", "-q", *others, *early, *suite])
    computed.send(time.process_time())
    os._exit(code)
