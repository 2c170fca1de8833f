"""The thread isolation: real blocking code, real hangs, nothing lost."""

import errno
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import trio
from tests.engines.odd_families import OddFamily, odd_load, say

from paraudio.engines import Family, Load
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.engines.families.pocketsphinx_asr import PocketsphinxAsrFamily
from paraudio.engines.families.silero_vad import SileroVadFamily
from paraudio.engines.isolation import SessionHandle, ThreadIsolation, open_thread_isolation
from paraudio.errors import BackendError, BackendHungError, InvalidRequestError, LoadError
from paraudio.spec import Task


@pytest.fixture
async def isolation() -> AsyncIterator[ThreadIsolation]:
    async with open_thread_isolation(hang_timeout_s=0.05) as it:
        yield it


def is_busy(session: SessionHandle) -> bool:
    """A function, because a type checker takes a property for a constant."""
    return session.busy


async def until(family: OddFamily, word: str) -> None:
    """Wait until the family has logged a word from its thread."""
    await trio.to_thread.run_sync(family.log.wait_for, word)


async def test_inspection_gives_facts_and_memory(isolation: ThreadIsolation) -> None:
    found = await isolation.inspect(OddFamily(), odd_load())
    assert (dict(found.facts), found.memory) == ({"odd": True}, 1_000)


async def test_inspection_passes_a_refusal_and_translates_a_failure(
    isolation: ThreadIsolation,
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await isolation.inspect(OddFamily(), odd_load(path=""))
    assert refused.value.param == "path"
    with pytest.raises(LoadError, match="model 'odd': inspection failed: RuntimeError: no idea"):
        await isolation.inspect(OddFamily(fail_inspect=True), odd_load())


@pytest.mark.parametrize(
    ("family", "task"),
    [(PiperTtsFamily(), "tts"), (SileroVadFamily(), "vad"), (PocketsphinxAsrFamily(), "asr")],
)
async def test_a_path_that_the_system_does_not_take_is_refused(
    isolation: ThreadIsolation, family: Family, task: Task
) -> None:
    path = "/a" * 5_000
    with pytest.raises(InvalidRequestError, match="File name too long") as refused:
        await isolation.inspect(family, replace(odd_load(path=path), task=task))
    assert refused.value.param == "path"


async def test_a_system_that_has_no_more_to_give_is_no_fault_of_the_path(
    isolation: ThreadIsolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inspect(_: Load) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "/odd")

    family = OddFamily()
    monkeypatch.setattr(family, "inspect", inspect)
    with pytest.raises(LoadError, match="Too many open files"):
        await isolation.inspect(family, odd_load())


@pytest.mark.parametrize(("advertised", "given"), [(1, 1), (16, 16), (99, 16)])
async def test_the_capacity_is_at_most_sixteen(
    isolation: ThreadIsolation, advertised: int, given: int
) -> None:
    model = await isolation.load(OddFamily(capacity=advertised), odd_load())
    assert (model.capacity, model.voices) == (given, ("this", "that"))
    await model.close()


async def test_a_capacity_of_nothing_is_a_failed_load_that_frees_the_weights(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily(capacity=0)
    with pytest.raises(LoadError, match="0 sessions"):
        await isolation.load(family, odd_load())
    assert family.log == ["load /odd", "close model"]


async def test_a_family_that_builds_no_session_fails_like_any_other(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily(no_session=True)
    model = await isolation.load(family, odd_load())
    with pytest.raises(LoadError, match="built no session"):
        await model.session()
    await model.close()
    assert family.log == ["load /odd", "close model"]


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("raise", "model 'odd': run failed: ValueError: the deed itself"),
        ("leave", "SystemExit: 4"),
        ("wrong", "the family gave int, not Result"),
        ("break in prepare", "preparation failed: RuntimeError: unprepared"),
        ("raise ours", "said by the family"),
    ],
)
async def test_whatever_a_family_raises_is_a_backend_error_and_the_next_run_works(
    isolation: ThreadIsolation, deed: str, said: str
) -> None:
    model = await isolation.load(OddFamily(), odd_load())
    session = await model.session()
    with pytest.raises(BackendError) as failed:
        await session.run(say(deed))
    assert said in failed.value.message
    assert (await session.run(say("hello"))).text == "1: hello"
    await session.close()
    await model.close()


async def test_a_session_is_reset_before_the_next_job_only_if_something_happened(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily()
    model = await isolation.load(family, odd_load())
    session = await model.session()
    await session.run(say("hello"))
    with pytest.raises(InvalidRequestError):
        await session.run(say("refuse"))
    await session.restore()
    assert "reset" not in family.log
    with pytest.raises(BackendError):
        await session.run(say("raise"))
    await session.run(say("hello"))
    assert family.log.count("reset") == 1
    await session.close()
    await model.close()


async def test_a_session_that_cannot_be_reset_is_replaced(isolation: ThreadIsolation) -> None:
    family = OddFamily(no_reset=True)
    model = await isolation.load(family, odd_load())
    session = await model.session()
    with pytest.raises(BackendError):
        await session.run(say("raise"))
    await session.restore()
    assert family.log[-2:] == ["close session 1", "session 2"]
    assert (await session.run(say("hello"))).text == "2: hello"
    family.no_session = True
    with pytest.raises(BackendError):
        await session.run(say("raise"))
    with pytest.raises(BackendError, match="built no session"):
        await session.restore()
    await session.close()
    await model.close()


async def test_a_run_is_stopped_at_once_and_the_session_lives_on(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily()
    model = await isolation.load(family, odd_load())
    session = await model.session()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run, say("heed"))
        await until(family, "heeding")
        assert is_busy(session)
        nursery.cancel_scope.cancel()
    assert not is_busy(session)
    assert (await session.run(say("hello"))).text == "1: hello"
    await session.close()
    await model.close()


async def test_sessions_and_weights_outlive_a_call_that_hangs_in_them(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily()
    model = await isolation.load(family, odd_load())
    session, other = await model.session(), await model.session()
    with trio.move_on_after(0.05):
        await session.run(say("wait"))
    assert session.busy
    assert isolation.abandoned() == ["model 'odd', session 1: run ignored its stop and still runs"]
    assert not await session.kill()
    with pytest.raises(BackendHungError):
        await session.run(say("hello"))
    with pytest.raises(BackendHungError):
        await session.restore()
    assert (await other.run(say("hello"))).text == "2: hello"
    await other.close()
    await session.close()
    await model.close()
    assert family.log[-1] == "close session 2"
    family.release.set()
    await until(family, "close model")
    assert family.log[-2:] == ["close session 1", "close model"]
    await session.wait_idle()
    assert isolation.abandoned() == []


async def test_a_hanging_pull_leaves_its_stream_to_the_restore(isolation: ThreadIsolation) -> None:
    family = OddFamily()
    model = await isolation.load(family, odd_load())
    session = await model.session()
    with trio.move_on_after(0.05):
        async with session.stream(say("wait")) as events:
            assert (await anext(events)).text == "one "
            await anext(events)
    assert session.busy
    family.release.set()
    await session.wait_idle()
    assert "stream closed" not in family.log
    await session.restore()
    assert family.log[-2:] == ["stream closed", "reset"]
    await session.close()
    await model.close()


async def test_a_stream_that_fails_midway_says_so_and_is_over(isolation: ThreadIsolation) -> None:
    family = OddFamily()
    model = await isolation.load(family, odd_load())
    session = await model.session()
    async with session.stream(say("raise")) as events:
        await anext(events)
        with pytest.raises(BackendError, match="the deed itself"):
            await anext(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    assert family.log[-1] == "stream closed"
    await session.close()
    await model.close()


async def test_a_session_without_batch_says_that_it_has_none(isolation: ThreadIsolation) -> None:
    model = await isolation.load(OddFamily(), odd_load())
    session = await model.session()
    assert (session.can_stream, session.can_batch) == (True, False)
    with pytest.raises(BackendError, match="no native batch"):
        async with session.run_batch([say("hello")]):
            pass
    await session.close()
    await model.close()


async def test_a_cancelled_load_is_stopped_and_leaves_nothing(isolation: ThreadIsolation) -> None:
    family = OddFamily(slow_load=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(isolation.load, family, odd_load())
        await until(family, "load /odd")
        nursery.cancel_scope.cancel()
    assert isolation.abandoned() == []


async def test_a_load_that_is_deaf_is_listed_and_freed_when_it_ends(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily(deaf_load=True)
    with trio.move_on_after(0.05) as scope:
        await isolation.load(family, odd_load())
    assert scope.cancelled_caught
    assert isolation.abandoned() == ["model 'odd': load ignored its stop and still runs"]
    family.release.set()
    await until(family, "close model")


async def test_a_session_built_for_nobody_is_closed_and_then_the_weights(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily(slow_session=True)
    model = await isolation.load(family, odd_load())
    with trio.move_on_after(0.05) as scope:
        await model.session()
    assert scope.cancelled_caught
    await model.close()
    assert family.log == ["load /odd", "session 1"]
    family.release.set()
    await until(family, "close model")
    assert family.log == ["load /odd", "session 1", "close session 1", "close model"]


async def test_fifty_calls_that_hang_do_not_keep_the_next_one_waiting(
    isolation: ThreadIsolation,
) -> None:
    family = OddFamily(capacity=16)
    models = [await isolation.load(family, odd_load()) for _ in range(4)]
    sessions = [await model.session() for model in models for _ in range(13)]
    *stuck, free, last = sessions
    with trio.move_on_after(0.05):
        async with trio.open_nursery() as nursery:
            for session in stuck:
                nursery.start_soon(session.run, say("wait"))
    assert len(isolation.abandoned()) == 50
    with trio.fail_after(5):
        await free.run(say("hello"))
        await last.run(say("hello"))
    family.release.set()
    for session in stuck:
        await session.wait_idle()
    for session in sessions:
        await session.close()
    for model in models:
        await model.close()


async def test_no_thread_to_be_had_is_an_error_of_that_call(
    isolation: ThreadIsolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await isolation.load(OddFamily(), odd_load())
    session = await model.session()

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(trio.lowlevel, "start_thread_soon", refuse)
        with pytest.raises(BackendError, match="can't start new thread"):
            await session.run(say("hello"))
    await session.run(say("hello"))
    await session.close()
    await model.close()


def test_a_call_that_outlives_its_run_of_trio_disturbs_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    family = OddFamily()

    async def main() -> None:
        async with open_thread_isolation(hang_timeout_s=0.01) as isolation:
            model = await isolation.load(family, odd_load())
            session = await model.session()
            with trio.move_on_after(0.01):
                await session.run(say("wait"))

    before = set(threading.enumerate())
    trio.run(main)
    family.release.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=0.2)
    assert capfd.readouterr().err == ""
