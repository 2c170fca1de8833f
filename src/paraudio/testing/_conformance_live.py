"""The conformance kit for input that is still being made."""

from collections.abc import Sequence

import trio

from paraudio.engines import Job, Piece, Result, StreamEvent
from paraudio.engines.isolation import LiveHandle, SessionHandle
from paraudio.errors import BackendCrashedError, InvalidRequestError
from paraudio.testing._conformance_case import (
    Case,
    LiveCase,
    adds_up,
    expect,
    expect_cancelled,
    killer_of,
    raised_by,
    sessions_of,
)


async def check_live(case: Case) -> bool:
    """Input in pieces gives deltas, and at its end the whole result, again and again the same."""
    if (live := case.live) is None:
        return False
    async with sessions_of(case, 1) as (session,):
        expect(session.can_live, "a session takes no live input")
        before = await session.run(case.job)
        results = []
        for _ in range(2):
            events = await _fed(session, live.job, live.pieces)
            results.append(_result(events))
            expect(adds_up(events, results[-1]), "the deltas of live input do not make its result")
        expect(case.same(*results), "the same live input gave two results")
        other = await _fed(session, live.job, live.other)
        expect(not case.same(_result(other), results[0]), "other input gave the same")
        expect(case.same(await session.run(case.job), before), "live input left a trace")
        if live.whole is not None:
            expect(case.same(await session.run(live.whole), results[0]), "the whole gives other")
    return True


async def check_abandoned_live(case: Case) -> bool:
    """A live job that is left, after any piece, is over; the next job finds nothing of it."""
    if (live := case.live) is None:
        return False
    async with sessions_of(case, 1) as (session,):
        before = await session.run(case.job)
        alone = await _fed(session, live.job, live.pieces)
        for count in range(len(live.pieces) + 1):
            async with session.live(live.job) as job:
                for piece in live.pieces[:count]:
                    await job.feed(piece)
                expect(not session.busy, "a session is busy between two pieces")
            await raised_by(trio.ClosedResourceError, job.feed(live.pieces[0]))
            await raised_by(trio.ClosedResourceError, job.finish())
            expect(case.same(await session.run(case.job), before), "left input left a trace")
        with trio.move_on_after(case.cancel_after_s[-1]) as scope:
            async with session.live(live.job) as job:
                await job.feed(live.pieces[0])
                await trio.sleep_forever()
        expect(scope.cancelled_caught, "the wait for the next piece was not cancelled")
        await session.restore()
        expect(case.same(await session.run(case.job), before), "left input left a trace")
        again = await _fed(session, live.job, live.pieces)
        expect(case.same(_result(again), _result(alone)), "left input left a trace in the next")
    return True


async def check_stopped_live(case: Case) -> bool:
    """A piece that is cancelled comes back in time, whenever that is; then all is as before."""
    if (live := case.live) is None:
        return False

    async def feed() -> None:
        async with session.live(live.slow_job) as job:
            await job.feed(live.slow)

    async with sessions_of(case, 1) as (session,):
        before = await session.run(case.job)
        for after_s in case.cancel_after_s:
            await expect_cancelled(case, feed, after_s)
            expect(not session.busy, "a session is busy after it was stopped")
            expect(case.same(await session.run(case.job), before), "a stopped piece left a trace")
    expect(case.isolation.abandoned() == [], "a stopped piece is listed as abandoned")
    return True


async def check_wrong_live(case: Case) -> bool:
    """A wrong job or piece is refused and names its field; a job with a wrong piece is over."""
    if (live := case.live) is None:
        return False
    async with sessions_of(case, 1) as (session,):
        before = await session.run(case.job)
        error = await raised_by(InvalidRequestError, _fed(session, live.invalid, live.pieces))
        expect(error.param is not None, "a refusal names no field")
        for given in ((), live.pieces[:1]):
            async with session.live(live.job) as job:
                for piece in given:
                    await job.feed(piece)
                error = await raised_by(InvalidRequestError, job.feed(live.wrong))
                expect(error.param is not None, "a refusal names no field")
                await raised_by(trio.ClosedResourceError, job.feed(live.pieces[0]))
            expect(case.same(await session.run(case.job), before), "a wrong piece left a trace")
    return True


async def check_interleaved_live(case: Case) -> bool:
    """Two sessions that are fed by turns give what each would give alone."""
    if (live := case.live) is None:
        return False
    async with sessions_of(case, 2) as (one, two):
        alone = [
            _result(await _fed(one, live.job, live.pieces)),
            _result(await _fed(two, live.job, live.other)),
        ]
        async with one.live(live.job) as first, two.live(live.job) as second:
            for index in range(max(len(live.pieces), len(live.other))):
                await _feed_next(first, live.pieces, index)
                await _feed_next(second, live.other, index)
            together = [_result(await each.finish()) for each in (first, second)]
        for mixed, single in zip(together, alone, strict=True):
            expect(case.same(mixed, single), "two sessions mixed input")
    return True


async def check_crashed_live(case: Case) -> bool:
    """Where sessions have processes: a death between two pieces fails the next, and heals."""
    if (live := case.live) is None:
        return False
    async with sessions_of(case, 1) as (session,):
        die = killer_of(case, session)
        if die is None:
            return False
        before = await session.run(case.job)
        async with session.live(live.job) as job:
            await job.feed(live.pieces[0])
            die()
            await raised_by(BackendCrashedError, _feed_until_it_fails(job, live))
        expect(case.same(await session.run(case.job), before), "a death left a trace")
    return True


def _result(events: Sequence[StreamEvent]) -> Result:
    return events[-1].result or Result()


async def _feed_next(job: LiveHandle, pieces: tuple[Piece, ...], index: int) -> None:
    if index < len(pieces):
        await job.feed(pieces[index])


async def _feed_until_it_fails(job: LiveHandle, live: LiveCase) -> None:
    """A piece that is sent in the moment of a death may still have been taken."""
    await job.feed(live.pieces[1])
    await job.finish()


async def _fed(session: SessionHandle, job: Job, pieces: tuple[Piece, ...]) -> list[StreamEvent]:
    """All events of a live job, the result last; leaves the session as it is."""
    events: list[StreamEvent] = []
    async with session.live(job) as live:
        for piece in pieces:
            given = await live.feed(piece)
            expect(all(each.result is None for each in given), "a piece gave the whole result")
            events += given
        ending = await live.finish()
    results = [each for each in ending if each.result is not None]
    expect(bool(ending) and results == [ending[-1]], "live input ended without one result")
    return [*events, *ending]
