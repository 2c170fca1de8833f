"""The conformance kit: what every session owes, whatever family it is of and wherever it runs."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import trio

from paraudio.engines import Family, Job, Load, Result, StreamEvent
from paraudio.engines.isolation import Isolation, ModelHandle, SessionHandle
from paraudio.errors import (
    BackendCrashedError,
    BackendError,
    BackendHungError,
    InvalidRequestError,
)
from paraudio.testing._virtual import VirtualIsolation

E = TypeVar("E", bound=BaseException)


def same_result(one: Result, other: Result) -> bool:
    """Whether two results are equal to the last sample; artifacts are not compared."""
    if (one.audio is None) != (other.audio is None):
        return False
    if one.audio is not None and other.audio is not None:
        if one.audio.rate != other.audio.rate:
            return False
        if not np.array_equal(one.audio.samples, other.audio.samples):
            return False
    return _words(one) == _words(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One family in one isolation, and the jobs that show what its sessions do.

    Attributes:
        isolation: Where the family runs.
        family: The family.
        load: What to load; must allow two sessions.
        job: A job that succeeds.
        other: A job that succeeds with another result.
        invalid: A job that preparation refuses.
        long: A job that still runs after the last of ``cancel_after_s``.
        failing: A job whose run fails, if the family has one.
        hanging: A load, and a job that ignores its stop for longer than the isolation's hang
            timeout, and yet ends by itself; if the family has one.
        stop_within_s: Seconds that a stopped call may take to come back.
        cancel_after_s: Seconds after which ``long`` is cancelled, each in turn.
        same: Whether two results of one job are the same.
    """

    isolation: Isolation
    family: Family
    load: Load
    job: Job
    other: Job
    invalid: Job
    long: Job
    failing: Job | None = None
    hanging: tuple[Load, Job] | None = None
    stop_within_s: float = 1.0
    cancel_after_s: tuple[float, ...] = (0.0, 0.02, 0.2)
    same: Callable[[Result, Result], bool] = field(default=same_result)


async def check_session(case: Case) -> tuple[str, ...]:
    """Check all that holds for every session.

    Returns:
        The names of the checks that applied and were made.

    Raises:
        AssertionError: Something does not hold; the message says what.
    """
    checks = (
        check_results,
        check_interleaving,
        check_invalid_job,
        check_stop,
        check_stream,
        check_abandoned_stream,
        check_batch,
        check_failure,
        check_closing,
        check_cancelled_load,
        check_crash,
        check_hang,
    )
    return tuple([check.__name__.removeprefix("check_") for check in checks if await check(case)])


async def check_results(case: Case) -> bool:
    """A run gives a result, again and again the same, and different jobs give different ones."""
    async with _sessions(case, 1) as (session,):
        first = await session.run(case.job)
        other = await session.run(case.other)
        _expect(not case.same(first, other), "two different jobs gave one result")
        _expect(case.same(await session.run(case.job), first), "a job gave two results")
        _expect(not session.busy, "a session is busy after its run")
        await session.restore()
        await session.wait_idle()
    return True


async def check_interleaving(case: Case) -> bool:
    """Two sessions at work at once give what each would give alone."""
    async with _sessions(case, 2) as (one, two):
        alone = await one.run(case.job), await two.run(case.other)
        together: dict[int, Result] = {}

        async def run(index: int, session: SessionHandle, job: Job) -> None:
            together[index] = await session.run(job)

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run, 0, one, case.job)
                nursery.start_soon(run, 1, two, case.other)
            for index in (0, 1):
                _expect(case.same(together[index], alone[index]), "two sessions mixed results")
    return True


async def check_invalid_job(case: Case) -> bool:
    """A wrong job is refused, names its field, and leaves the session as it was."""
    async with _sessions(case, 1) as (session,):
        before = await session.run(case.job)
        error = await _raised(InvalidRequestError, session.run(case.invalid))
        _expect(error.param is not None, "a refusal names no field")
        _expect(case.same(await session.run(case.job), before), "a refused job left a trace")
        if session.can_stream:
            await _raised(InvalidRequestError, _collect(session, case.invalid))
            _expect(case.same(await session.run(case.job), before), "a refused job left a trace")
    return True


async def check_stop(case: Case) -> bool:
    """A cancelled run comes back in time, whenever it is cancelled; then all is as before."""
    async with _sessions(case, 1) as (session,):
        before = await session.run(case.job)
        for after_s in case.cancel_after_s:
            await _cancelled(case, partial(session.run, case.long), after_s)
            _expect(not session.busy, "a session is busy after it was stopped")
            await session.restore()
            _expect(case.same(await session.run(case.job), before), "a stopped run left a trace")
    _expect(case.isolation.abandoned() == [], "a stopped call is listed as abandoned")
    return True


async def check_stream(case: Case) -> bool:
    """A stream ends with the whole result, which its pieces add up to."""
    async with _sessions(case, 1) as (session,):
        if not session.can_stream:
            return False
        whole = await session.run(case.job)
        for _ in range(2):
            events = await _collect(session, case.job)
            await session.restore()
            _expect(bool(events) and events[-1].result is not None, "a stream ended without result")
            _expect(all(each.result is None for each in events[:-1]), "a stream had two results")
            result = events[-1].result or Result()
            _expect(case.same(result, whole), "a stream and a run of one job differ")
            _expect(_adds_up(events, result), "the pieces of a stream do not make its result")
        _expect(case.same(await session.run(case.job), whole), "a stream left a trace")
    return True


async def check_abandoned_stream(case: Case) -> bool:
    """A stream that is left, at any point, is over; the next job finds nothing of it."""
    async with _sessions(case, 1) as (session,):
        if not session.can_stream:
            return False
        before = await session.run(case.job)
        for patience_s in (0.0, case.cancel_after_s[-1]):
            async with session.stream(case.long) as events:
                with trio.move_on_after(patience_s):
                    await anext(events)
            await _raised(StopAsyncIteration, anext(events))
            await session.restore()
            _expect(case.same(await session.run(case.job), before), "a left stream left a trace")
        await _cancelled(case, partial(_collect, session, case.long), case.cancel_after_s[-1])
        await session.restore()
        _expect(case.same(await session.run(case.job), before), "a cancelled stream left a trace")
    return True


async def check_batch(case: Case) -> bool:
    """A batch gives each result once, and each as if it were alone."""
    async with _sessions(case, 1) as (session,):
        if not session.can_batch:
            return False
        jobs = (case.job, case.other, case.job)
        alone = [await session.run(job) for job in jobs]
        async with session.run_batch(jobs) as results:
            found = {index: result async for index, result in results}
        _expect(sorted(found) == [0, 1, 2], "a batch lost or repeated a result")
        for index, result in found.items():
            _expect(case.same(result, alone[index]), "a batch mixed results")
        await session.restore()
        _expect(case.same(await session.run(case.job), alone[0]), "a batch left a trace")
    return True


async def check_failure(case: Case) -> bool:
    """A run that fails says so as our error, with its cause, and the next one succeeds."""
    if case.failing is None:
        return False
    async with _sessions(case, 1) as (session,):
        before = await session.run(case.job)
        error = await _raised(BackendError, session.run(case.failing))
        _expect(error.__cause__ is not None, "a failure lost its cause")
        await session.restore()
        _expect(case.same(await session.run(case.job), before), "a failed run left a trace")
    return True


async def check_closing(case: Case) -> bool:
    """Closing twice is closing once; what is closed takes no more work."""
    model = await case.isolation.load(case.family, case.load)
    _expect(1 <= model.capacity <= 16, "the capacity is not from 1 to 16")
    session = await model.session()
    await session.close()
    await session.close()
    await _raised(trio.ClosedResourceError, session.run(case.job))
    await model.close()
    await model.close()
    with trio.CancelScope() as scope:
        model = await case.isolation.load(case.family, case.load)
        session = await model.session()
        scope.cancel()
        await session.close()
        await model.close()
    return True


async def check_cancelled_load(case: Case) -> bool:
    """A load that is cancelled, at any point, leaves nothing; the next one succeeds."""
    for after_s in case.cancel_after_s:
        with trio.move_on_after(after_s):
            model = await case.isolation.load(case.family, case.load)
            with trio.CancelScope(shield=True):
                await model.close()
    _expect(case.isolation.abandoned() == [], "a cancelled load is listed as abandoned")
    async with _sessions(case, 1) as (session,):
        await session.run(case.job)
    return True


async def check_crash(case: Case) -> bool:
    """Where sessions have processes: a death fails its own run only, and the session comes back."""
    async with _sessions(case, 2) as (one, two):
        die = _killer(case, one)
        if die is None:
            return False
        before = await one.run(case.job)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_raised, BackendCrashedError, one.run(case.long))
            await trio.sleep(case.cancel_after_s[-1])
            die()
            _expect(case.same(await two.run(case.job), before), "a death hit another session")
        await one.restore()
        _expect(case.same(await one.run(case.job), before), "a death left a trace")
    return True


async def check_hang(case: Case) -> bool:
    """A call that ignores its stop makes its session busy, and nothing else."""
    if case.hanging is None:
        return False
    load, job = case.hanging
    async with _sessions(case, 2, load) as (stuck, free):
        with trio.move_on_after(case.cancel_after_s[-1]) as scope:
            await stuck.run(job)
        _expect(scope.cancelled_caught, "a job that should hang had ended")
        _expect(stuck.busy, "a session that hangs is not busy")
        _expect(len(case.isolation.abandoned()) == 1, "a call that hangs is not listed")
        await _raised(BackendHungError, stuck.run(case.job))
        await free.run(case.job)
        if not await stuck.kill():
            await stuck.wait_idle()
        _expect(not stuck.busy, "a session is busy although nothing runs in it")
        _expect(case.isolation.abandoned() == [], "a call that ended is listed")
        await stuck.restore()
        await stuck.run(case.job)
    return True


@asynccontextmanager
async def _sessions(
    case: Case, count: int, load: Load | None = None
) -> AsyncIterator[tuple[SessionHandle, ...]]:
    """A loaded model with ``count`` sessions, closed in order on the way out."""
    model: ModelHandle = await case.isolation.load(case.family, load or case.load)
    sessions: list[SessionHandle] = []
    try:
        for _ in range(count):
            sessions.append(await model.session())  # noqa: PERF401 - closed even if one fails
        yield tuple(sessions)
    finally:
        for session in reversed(sessions):
            await session.close()
        await model.close()


async def _collect(session: SessionHandle, job: Job) -> list[StreamEvent]:
    async with session.stream(job) as events:
        return [event async for event in events]


async def _cancelled(case: Case, call: Callable[[], Awaitable[object]], after_s: float) -> None:
    with trio.move_on_after(after_s) as scope:
        await call()
    _expect(scope.cancelled_caught, f"the long job had ended after {after_s} s")
    late_s = trio.current_time() - scope.deadline
    _expect(late_s <= case.stop_within_s, f"a stopped call came back after {late_s:.2f} s")


def _killer(case: Case, session: SessionHandle) -> Callable[[], object] | None:
    """What kills the worker of a session's model, or None where there is none to kill."""
    if isinstance(case.isolation, VirtualIsolation):
        if not case.isolation.can_kill:
            return None
        return partial(case.isolation.crash, case.load.model_id, session=1)
    pid = getattr(session, "pid", None)
    return None if pid is None else partial(os.kill, pid, signal.SIGKILL)


async def _raised(kind: type[E], call: Awaitable[object]) -> E:
    try:
        given = await call
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, but the call gave {given!r}")


def _adds_up(events: list[StreamEvent], result: Result) -> bool:
    sound = [event.audio.samples for event in events if event.audio is not None]
    if sound and result.audio is not None:
        return np.array_equal(np.concatenate(sound), result.audio.samples)
    text = "".join(event.text or "" for event in events)
    return not text or text.split() == (result.text or "").split()


def _words(result: Result) -> tuple[object, ...]:
    return (
        result.text,
        result.language,
        result.sample_rate,
        result.segments,
        result.speaker_turns,
        result.words,
    )


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
