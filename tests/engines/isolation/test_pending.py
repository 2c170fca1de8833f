"""The rule for waiting: the stop is set at once, the wait ends when the backend is out."""

import pytest
import trio
import trio.testing

from paraudio.engines import Stop
from paraudio.engines.isolation._pending import Care, Pending, obtain
from paraudio.engines.worker import Done, Failed
from paraudio.errors import BackendError


async def test_a_call_gives_its_reply_to_whoever_waits() -> None:
    call: Pending[int] = Pending("call")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_resolve_later, call, Done(5))
        assert (await call.wait(Stop(), Care(1.0))).unwrap() == 5
    assert call.ended
    with pytest.raises(RuntimeError, match="ended twice"):
        call.resolve(Done(6))


async def test_cancelling_sets_the_stop_and_waits_for_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    call: Pending[int] = Pending("call")
    stop = Stop()
    care = Care(10.0)
    told = trio.Event()
    told_at: list[float] = []

    async def backend() -> None:
        await told.wait()
        told_at.append(trio.current_time())
        await trio.sleep(3)
        call.resolve(Done(1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(backend)
        with stop.calls(told.set), trio.move_on_after(1.2) as scope:
            await call.wait(stop, care)
        assert scope.cancelled_caught
        assert told_at == [1.2]
        assert trio.current_time() == pytest.approx(4.2)
    assert care.abandoned.lines() == []


async def test_a_call_that_ignores_its_stop_is_listed_until_it_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    call: Pending[int] = Pending("model 'm': run")
    care = Care(10.0)
    with trio.move_on_after(1):
        await call.wait(Stop(), care)
    assert trio.current_time() == 11
    assert care.abandoned.lines() == ["model 'm': run ignored its stop and still runs"]
    call.resolve(Done(1))
    assert care.abandoned.lines() == []


@pytest.mark.parametrize(
    ("pause_s", "more_s"),
    [
        pytest.param(13, 3, id="as long as it did not run"),
        pytest.param(1000, 10, id="at most the timeout"),
    ],
)
@pytest.mark.parametrize("ends", [True, False])
async def test_a_call_may_stop_late_in_a_process_that_did_not_run(
    mock_clock: trio.testing.MockClock, pause_s: float, more_s: float, *, ends: bool
) -> None:
    call: Pending[int] = Pending("model 'm': run")
    care = Care(10.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.outlast, care)
        await trio.testing.wait_all_tasks_blocked()
        for passed in (pause_s, more_s - 0.5):
            mock_clock.jump(passed)
            await trio.testing.wait_all_tasks_blocked()
            assert care.abandoned.lines() == []
        if ends:
            call.resolve(Done(1))
        mock_clock.jump(0.6)
    assert len(care.abandoned.lines()) == (not ends)


async def test_a_reply_and_a_cancellation_in_one_step_give_one_of_the_two() -> None:
    call: Pending[int] = Pending("call")
    care = Care(0.0)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.wait, Stop(), care)
            await trio.testing.wait_all_tasks_blocked()
            call.resolve(Done(1))
            scope.cancel()
    assert care.abandoned.lines() == []


async def test_what_was_built_for_nobody_is_freed_before_the_wait_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    call: Pending[str] = Pending("load")
    freed: list[str] = []

    def discard(built: str) -> Pending[None]:
        freeing: Pending[None] = Pending("unload")

        async def free() -> None:
            await trio.sleep(2)
            freed.append(built)
            freeing.resolve(Done(None))

        nursery.start_soon(free)
        return freeing

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_resolve_at, call, 3.0)
        with trio.move_on_after(1):
            await obtain(call, Stop(), Care(10.0), discard)
        assert (freed, trio.current_time()) == (["built"], 5.0)


async def test_what_is_built_after_the_hang_timeout_is_freed_then(
    autojump_clock: trio.testing.MockClock,
) -> None:
    call: Pending[str] = Pending("load")
    freed: list[str] = []
    care = Care(1.0)
    with trio.move_on_after(1):
        await obtain(call, Stop(), care, freed.append)
    assert (freed, trio.current_time()) == ([], 2.0)
    assert len(care.abandoned.lines()) == 1
    call.resolve(Done("late"))
    assert freed == ["late"]


async def test_a_failure_after_the_cancellation_frees_nothing() -> None:
    call: Pending[str] = Pending("load")
    freed: list[str] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await obtain(call, Stop(), Care(0.0), freed.append)
    call.resolve(Failed(BackendError("no")))
    assert freed == []


async def _resolve_later(call: Pending[int], reply: Done[int]) -> None:
    await trio.testing.wait_all_tasks_blocked()
    call.resolve(reply)


async def _resolve_at(call: Pending[str], at: float) -> None:
    await trio.sleep_until(at)
    call.resolve(Done("built"))
