"""Workers that do not start: of what that is the fault, and when the next one is tried."""

import itertools
import os
import signal
import sys
from typing import Any

import psutil
import pytest
import trio
from tests.engines.isolation.processes import children
from tests.engines.odd_families import OddFamily, odd_load, say

from paraudio.engines.isolation import ProcessIsolation, SessionHandle, open_process_isolation
from paraudio.engines.isolation._child import Child
from paraudio.engines.worker._messages import Verb
from paraudio.errors import BackendCrashedError, BackendError, LoadError, ServerBusyError

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("raise SystemExit('no such thing')", "ended with code 1"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    ],
)
async def test_a_death_before_the_first_call_is_a_crash_as_any_other(
    isolation: ProcessIsolation, monkeypatch: pytest.MonkeyPatch, program: str, how: str
) -> None:
    monkeypatch.setattr(
        "paraudio.engines.isolation._child._command", lambda *_: [sys.executable, "-c", program]
    )
    with pytest.raises(BackendCrashedError, match=f"{how} before it took its first call"):
        await isolation.load(OddFamily(), odd_load())
    assert children() == []


async def built(isolation: ProcessIsolation) -> None:
    """Build a model and a session, and free what was built."""
    model = await isolation.load(OddFamily(), odd_load())
    try:
        await model.session()
    finally:
        await model.close()


@pytest.mark.parametrize("moment", ["load", "session"])
async def test_a_death_at_any_moment_of_a_load_is_a_crash(
    isolation: ProcessIsolation, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    call = Child.call

    def killed_before(child: Child, what: str, verb: Verb, *arguments: object, **more: Any) -> Any:
        if verb == moment:
            os.kill(child.pid, signal.SIGKILL)
        return call(child, what, verb, *arguments, **more)

    monkeypatch.setattr(Child, "call", killed_before)
    with pytest.raises(BackendCrashedError, match="was killed by SIGKILL"):
        await built(isolation)
    assert children() == []


async def test_workers_that_die_before_their_first_call_are_restarted_ever_later(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BackendCrashedError):
        await session.run(say("die"))
    started: list[float] = []

    def dying(*_: object) -> list[str]:
        started.append(trio.current_time())
        return [sys.executable, "-c", "raise SystemExit(9)"]

    with monkeypatch.context() as patched:
        patched.setattr("paraudio.engines.isolation._child._command", dying)
        with pytest.raises(BackendCrashedError, match="code 9"):
            await session.restore()
    pauses = [later - sooner for sooner, later in itertools.pairwise(started)]
    assert len(pauses) == 2
    assert pauses[0] >= 0.1
    assert pauses[1] >= 0.2
    await session.restore()
    assert (await session.run(say("hello"))).text == "1: hello"


async def test_workers_that_keep_dying_are_restarted_ever_later_and_then_given_up(
    isolation: ProcessIsolation,
) -> None:
    family = OddFamily()
    model = await isolation.load(family, odd_load())
    session = await model.session()
    family.exit_in_load = True  # from now on every new worker dies in its load
    with pytest.raises(BackendCrashedError):
        await session.run(say("die"))
    began = trio.current_time()
    with pytest.raises(BackendError, match="ended with code 7"):
        await session.restore()
    assert trio.current_time() - began > 0.1 + 0.2
    family.exit_in_load = False
    await session.restore()
    assert (await session.run(say("hello"))).text == "1: hello"
    await session.close()
    await model.close()


@pytest.mark.parametrize(
    "lacking",
    [
        BlockingIOError(11, "Resource temporarily unavailable"),
        RuntimeError("can't start new thread"),
    ],
    ids=["a process", "a thread"],
)
async def test_a_system_without_processes_to_give_is_busy_and_costs_no_descriptor(
    isolation: ProcessIsolation, monkeypatch: pytest.MonkeyPatch, lacking: Exception
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise lacking

    before = psutil.Process().num_fds()
    monkeypatch.setattr(trio.lowlevel, "open_process", refuse)
    with pytest.raises(ServerBusyError, match=str(lacking.args[-1])):
        await isolation.load(OddFamily(), odd_load())
    assert psutil.Process().num_fds() == before


async def test_a_worker_that_starts_too_slowly_is_a_failed_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "paraudio.engines.isolation._child._command",
        lambda *_: [sys.executable, "-c", "import time; time.sleep(60)"],
    )
    async with open_process_isolation(start_timeout_s=0.2) as isolation:
        with trio.fail_after(5), pytest.raises(LoadError, match="TooSlowError"):
            await isolation.load(OddFamily(), odd_load())


async def test_a_family_that_cannot_be_pickled_is_a_failed_load(
    isolation: ProcessIsolation,
) -> None:
    family = OddFamily()
    family.extra = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(LoadError, match="pickle"):
        await isolation.load(family, odd_load())
