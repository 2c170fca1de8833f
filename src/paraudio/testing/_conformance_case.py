"""What the conformance kit is given, and the small tools of its checks."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import trio

from paraudio.engines import Family, Job, Load, Piece, Result, StreamEvent
from paraudio.engines.isolation import Isolation, ModelHandle, SessionHandle
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
class LiveCase:
    """What is fed to a live session.

    Attributes:
        job: A job without its input.
        pieces: Its input, at least two pieces.
        other: Input of the same kind with another result.
        wrong: A piece of a kind that the task does not take.
        invalid: A job that is refused before its first piece.
        slow_job: A job without its input, for ``slow``.
        slow: A piece that is still worked through after the last of ``cancel_after_s``.
        whole: A job with the whole of ``pieces`` whose run gives the same; None where that differs.
    """

    job: Job
    pieces: tuple[Piece, ...]
    other: tuple[Piece, ...]
    wrong: Piece
    invalid: Job
    slow_job: Job
    slow: Piece
    whole: Job | None = None


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
        live: Input that comes in pieces, if the family takes such.
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
    live: LiveCase | None = None
    stop_within_s: float = 1.0
    cancel_after_s: tuple[float, ...] = (0.0, 0.02, 0.2)
    same: Callable[[Result, Result], bool] = field(default=same_result)


@asynccontextmanager
async def sessions_of(
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


async def collected(session: SessionHandle, job: Job) -> list[StreamEvent]:
    """All events of a stream."""
    async with session.stream(job) as events:
        return [event async for event in events]


async def expect_cancelled(
    case: Case, call: Callable[[], Awaitable[object]], after_s: float
) -> None:
    """Cancel a call after a while, and expect it back in time."""
    with trio.move_on_after(after_s) as scope:
        await call()
    expect(scope.cancelled_caught, f"the long job had ended after {after_s} s")
    late_s = trio.current_time() - scope.deadline
    expect(late_s <= case.stop_within_s, f"a stopped call came back after {late_s:.2f} s")


def killer_of(case: Case, session: SessionHandle) -> Callable[[], object] | None:
    """What kills the worker of a session's model, or None where there is none to kill."""
    if isinstance(case.isolation, VirtualIsolation):
        if not case.isolation.can_kill:
            return None
        return partial(case.isolation.crash, case.load.model_id, session=1)
    pid = getattr(session, "pid", None)
    return None if pid is None else partial(os.kill, pid, signal.SIGKILL)


async def raised_by(kind: type[E], call: Awaitable[object]) -> E:
    """The error that a call raises; it must."""
    try:
        given = await call
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, but the call gave {given!r}")


def adds_up(events: list[StreamEvent], result: Result) -> bool:
    """Whether the deltas of a stream make its result."""
    sound = [event.audio.samples for event in events if event.audio is not None]
    if sound and result.audio is not None:
        return np.array_equal(np.concatenate(sound), result.audio.samples)
    turns = tuple(turn for event in events for turn in event.turns)
    if turns and turns != result.speaker_turns:
        return False
    places = [event.boundary.kind for event in events if event.boundary is not None]
    if places and places != ["start", "end"] * len(result.segments):
        return False
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


def expect(holds: bool, otherwise: str) -> None:
    """Raise `AssertionError` unless something holds."""
    if not holds:
        raise AssertionError(otherwise)
