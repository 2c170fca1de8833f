"""The conformance kit: what every session owes, whatever family it is of and wherever it runs."""

from functools import partial

import trio

from paraudio.engines import Job, Result
from paraudio.engines.isolation import SessionHandle
from paraudio.errors import (
    BackendCrashedError,
    BackendError,
    BackendHungError,
    InvalidRequestError,
)
from paraudio.testing._conformance_case import (
    Case,
    adds_up,
    collected,
    expect,
    expect_cancelled,
    killer_of,
    raised_by,
    sessions_of,
)
from paraudio.testing._conformance_live import (
    check_abandoned_live,
    check_crashed_live,
    check_interleaved_live,
    check_live,
    check_stopped_live,
    check_wrong_live,
)


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
        check_live,
        check_abandoned_live,
        check_stopped_live,
        check_wrong_live,
        check_interleaved_live,
        check_crashed_live,
        check_failure,
        check_closing,
        check_cancelled_load,
        check_crash,
        check_hang,
    )
    return tuple([check.__name__.removeprefix("check_") for check in checks if await check(case)])


async def check_results(case: Case) -> bool:
    """A run gives a result, again and again the same, and different jobs give different ones."""
    async with sessions_of(case, 1) as (session,):
        first = await session.run(case.job)
        other = await session.run(case.other)
        expect(not case.same(first, other), "two different jobs gave one result")
        expect(case.same(await session.run(case.job), first), "a job gave two results")
        expect(not session.busy, "a session is busy after its run")
        await session.restore()
        await session.wait_idle()
    return True


async def check_interleaving(case: Case) -> bool:
    """Two sessions at work at once give what each would give alone."""
    async with sessions_of(case, 2) as (one, two):
        alone = await one.run(case.job), await two.run(case.other)
        together: dict[int, Result] = {}

        async def run(index: int, session: SessionHandle, job: Job) -> None:
            together[index] = await session.run(job)

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run, 0, one, case.job)
                nursery.start_soon(run, 1, two, case.other)
            for index in (0, 1):
                expect(case.same(together[index], alone[index]), "two sessions mixed results")
    return True


async def check_invalid_job(case: Case) -> bool:
    """A wrong job is refused, names its field, and leaves the session as it was."""
    async with sessions_of(case, 1) as (session,):
        before = await session.run(case.job)
        error = await raised_by(InvalidRequestError, session.run(case.invalid))
        expect(error.param is not None, "a refusal names no field")
        expect(case.same(await session.run(case.job), before), "a refused job left a trace")
        if session.can_stream:
            await raised_by(InvalidRequestError, collected(session, case.invalid))
            expect(case.same(await session.run(case.job), before), "a refused job left a trace")
    return True


async def check_stop(case: Case) -> bool:
    """A cancelled run comes back in time, whenever it is cancelled; then all is as before."""
    async with sessions_of(case, 1) as (session,):
        before = await session.run(case.job)
        for after_s in case.cancel_after_s:
            await expect_cancelled(case, partial(session.run, case.long), after_s)
            expect(not session.busy, "a session is busy after it was stopped")
            await session.restore()
            expect(case.same(await session.run(case.job), before), "a stopped run left a trace")
    expect(case.isolation.abandoned() == [], "a stopped call is listed as abandoned")
    return True


async def check_stream(case: Case) -> bool:
    """A stream ends with the whole result, which its pieces add up to."""
    async with sessions_of(case, 1) as (session,):
        if not session.can_stream:
            return False
        whole = await session.run(case.job)
        for _ in range(2):
            events = await collected(session, case.job)
            await session.restore()
            expect(bool(events) and events[-1].result is not None, "a stream ended without result")
            expect(all(each.result is None for each in events[:-1]), "a stream had two results")
            result = events[-1].result or Result()
            expect(case.same(result, whole), "a stream and a run of one job differ")
            expect(adds_up(events, result), "the pieces of a stream do not make its result")
        expect(case.same(await session.run(case.job), whole), "a stream left a trace")
    return True


async def check_abandoned_stream(case: Case) -> bool:
    """A stream that is left, at any point, is over; the next job finds nothing of it."""
    async with sessions_of(case, 1) as (session,):
        if not session.can_stream:
            return False
        before = await session.run(case.job)
        for patience_s in (0.0, case.cancel_after_s[-1]):
            async with session.stream(case.long) as events:
                with trio.move_on_after(patience_s):
                    await anext(events)
            await raised_by(StopAsyncIteration, anext(events))
            await session.restore()
            expect(case.same(await session.run(case.job), before), "a left stream left a trace")
        await expect_cancelled(
            case, partial(collected, session, case.long), case.cancel_after_s[-1]
        )
        await session.restore()
        expect(case.same(await session.run(case.job), before), "a cancelled stream left a trace")
    return True


async def check_batch(case: Case) -> bool:
    """A batch gives each result once, and each as if it were alone."""
    async with sessions_of(case, 1) as (session,):
        if not session.can_batch:
            return False
        jobs = (case.job, case.other, case.job)
        alone = [await session.run(job) for job in jobs]
        async with session.run_batch(jobs) as results:
            found = {index: result async for index, result in results}
        expect(sorted(found) == [0, 1, 2], "a batch lost or repeated a result")
        for index, result in found.items():
            expect(case.same(result, alone[index]), "a batch mixed results")
        await session.restore()
        expect(case.same(await session.run(case.job), alone[0]), "a batch left a trace")
    return True


async def check_failure(case: Case) -> bool:
    """A run that fails says so as our error, with its cause, and the next one succeeds."""
    if case.failing is None:
        return False
    async with sessions_of(case, 1) as (session,):
        before = await session.run(case.job)
        error = await raised_by(BackendError, session.run(case.failing))
        expect(error.__cause__ is not None, "a failure lost its cause")
        await session.restore()
        expect(case.same(await session.run(case.job), before), "a failed run left a trace")
    return True


async def check_closing(case: Case) -> bool:
    """Closing twice is closing once; what is closed takes no more work."""
    model = await case.isolation.load(case.family, case.load)
    expect(1 <= model.capacity <= 16, "the capacity is not from 1 to 16")
    session = await model.session()
    await session.close()
    await session.close()
    await raised_by(trio.ClosedResourceError, session.run(case.job))
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
    expect(case.isolation.abandoned() == [], "a cancelled load is listed as abandoned")
    async with sessions_of(case, 1) as (session,):
        await session.run(case.job)
    return True


async def check_crash(case: Case) -> bool:
    """Where sessions have processes: a death fails its own run only, and the session comes back."""
    async with sessions_of(case, 2) as (one, two):
        die = killer_of(case, one)
        if die is None:
            return False
        before = await one.run(case.job)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(raised_by, BackendCrashedError, one.run(case.long))
            await trio.sleep(case.cancel_after_s[-1])
            die()
            expect(case.same(await two.run(case.job), before), "a death hit another session")
        await one.restore()
        expect(case.same(await one.run(case.job), before), "a death left a trace")
    return True


async def check_hang(case: Case) -> bool:
    """A call that ignores its stop makes its session busy, and nothing else."""
    if case.hanging is None:
        return False
    load, job = case.hanging
    async with sessions_of(case, 2, load) as (stuck, free):
        with trio.move_on_after(case.cancel_after_s[-1]) as scope:
            await stuck.run(job)
        expect(scope.cancelled_caught, "a job that should hang had ended")
        expect(stuck.busy, "a session that hangs is not busy")
        expect(len(case.isolation.abandoned()) == 1, "a call that hangs is not listed")
        await raised_by(BackendHungError, stuck.run(case.job))
        await free.run(case.job)
        if not await stuck.kill():
            await stuck.wait_idle()
        expect(not stuck.busy, "a session is busy although nothing runs in it")
        expect(case.isolation.abandoned() == [], "a call that ended is listed")
        await stuck.restore()
        await stuck.run(case.job)
    return True
