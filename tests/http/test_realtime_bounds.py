"""Realtime sessions: how long and how much, and their end."""

import time
from contextlib import AsyncExitStack

import pytest
import trio
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.realtime_sessions import VAD, finished, reach, session, talking
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.http._realtime_session import AHEAD_S, MOST_WAITING


async def test_a_client_is_read_no_faster_than_the_models_work(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world, manual=True) as (world, socket):
        async with world.runtime.use("ears", request="other"):
            for _ in range(40):
                # Small enough for no thread, which time would not wait for.
                socket.sound(15, piece=1)
                socket.say("input_audio_buffer.commit")
            await socket.saw("committed")
            await wait_all_tasks_blocked()
            read = len(socket.of("committed")) * 15
            assert AHEAD_S <= read <= AHEAD_S + 60
            assert socket.unread > 50
        await socket.saw(".completed", 40)


async def test_items_that_wait_are_bounded_by_their_number_too(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    many = 2 * MOST_WAITING
    async with talking(open_world, manual=True) as (world, socket):
        async with world.runtime.use("ears", request="other"):
            for _ in range(many):
                socket.sound(0.001)
                socket.say("input_audio_buffer.commit")
            await wait_all_tasks_blocked()
            assert len(socket.of(".committed")) == MOST_WAITING + 1
        await socket.saw(".completed", many)


async def test_a_slow_reader_is_read_no_further(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world) as (_, socket):
        await socket.saw("session.created")
        socket.slow = True
        for _ in range(4000):
            socket.say("nonsense")
        await wait_all_tasks_blocked()
        assert socket.unread > 2000
        socket.slow = False
        socket._announce()
        await socket.until(lambda: len(socket.events) == 4001)


async def test_a_session_lives_for_as_long_as_it_is_used(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world) as (world, socket):
        for count in range(1, 31):
            socket.sentence(1)
            await socket.saw(".completed", count)
            await trio.sleep(600)
            assert world.free()
        assert trio.current_time() > 4 * 3600
        assert socket.closed is None
        assert not socket.of("error", ".failed")


@pytest.mark.parametrize("manual", [False, True])
async def test_a_session_in_which_nothing_happens_is_closed(
    open_world: OpenWorld, autojump_clock: MockClock, manual: bool
) -> None:
    settings = {"realtime_idle_timeout_ms": 90_000}
    async with talking(open_world, settings=settings, manual=manual) as (_, socket):
        before = trio.current_time()
        await trio.sleep(60)
        socket.sound(1)
        code, reason = await finished(socket)
        assert code == 1008
        assert trio.current_time() - before == pytest.approx(150)
        assert "realtime_idle_timeout_ms" in reason
        assert socket.of("error")[0]["error"]["code"] == "idle_timeout"


async def test_time_at_which_the_client_is_not_read_is_no_idle_time(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    settings = {"realtime_idle_timeout_ms": 90_000}
    async with talking(open_world, settings=settings, manual=True) as (world, socket):
        async with world.runtime.use("ears", request="other"):
            for _ in range(16):
                # Small enough for no thread, which time would not wait for.
                socket.sound(15, piece=1)
                socket.say("input_audio_buffer.commit")
            await trio.sleep(200)
            assert socket.unread, "it is read no further"
            assert socket.closed is None
        await socket.saw(".completed", 16)
        assert (await finished(socket))[0] == 1008


@pytest.mark.parametrize("own", [False, True])
async def test_who_stops_in_the_midst_of_a_sentence_has_spoken(
    open_world: OpenWorld, autojump_clock: MockClock, own: bool
) -> None:
    bound = {"idle_timeout_ms": 4000}
    ears = spec(EARS, live_ingest=bound) if own else EARS
    settings = {} if own else {"live_ingest": bound}
    async with talking(open_world, ears, VAD, settings=settings) as (world, socket):
        socket.sound(1)
        await trio.sleep(3)
        socket.sound(1)
        before = trio.current_time()
        await trio.sleep(3)
        assert world.model("ears").active_slots == 1
        done = await socket.saw(".completed")
        assert trio.current_time() - before == pytest.approx(4, abs=0.01)
        assert done["usage"]["seconds"] == 2
        assert world.free()
        assert [one["audio_end_ms"] for one in socket.of("speech_stopped")] == [2000]
        await trio.sleep(100)
        socket.sentence(1)
        assert (await socket.saw(".completed", 2))["usage"]["seconds"] == pytest.approx(
            1.5, abs=0.11
        )
        assert not socket.of("error", ".failed")


async def test_who_speaks_slower_than_sound_goes_by_holds_no_slot_for_ever(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    settings = {"live_ingest": {"idle_timeout_ms": 4000, "total_timeout_ms": 20_000}}
    async with talking(open_world, settings=settings) as (world, socket):
        socket.sound(1)
        await reach(world, "running")
        before = trio.current_time()

        async def trickle() -> None:
            while True:
                await trio.sleep(3)
                socket.sound(0.1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle)
            async with world.runtime.use("ears", request="other"):
                waited = trio.current_time() - before
            assert waited == pytest.approx(20, abs=1)
            await socket.saw("speech_started", 2)
            nursery.cancel_scope.cancel()
        first, second = socket.of("speech_started")
        [stopped] = socket.of("speech_stopped")
        assert stopped["item_id"] == first["item_id"]
        assert second["audio_start_ms"] == stopped["audio_end_ms"], "nothing is lost at the cut"
        assert not socket.of("error", ".failed")


@pytest.mark.parametrize("speaks", [False, True])
async def test_a_session_may_be_given_a_longest_time(
    open_world: OpenWorld, autojump_clock: MockClock, speaks: bool
) -> None:
    settings = {"realtime_session_max_ms": 20_000}
    async with talking(open_world, settings=settings) as (_, socket):
        before, now = trio.current_time(), time.time()
        session = (await socket.saw("session.created"))["session"]
        assert now + 20 - 1 <= session["expires_at"] <= time.time() + 20 + 1
        with trio.move_on_at(before + 19.5):
            while True:
                socket.sound(0.5, loud=speaks)
                await trio.sleep(0.5)
        code, reason = await finished(socket)
        assert code == 1001
        assert trio.current_time() - before == pytest.approx(20, abs=0.01)
        assert "realtime_session_max_ms" in reason
        assert socket.of("error")[0]["error"]["code"] == "session_expired"
        # What was said is written down first.
        assert len(socket.of(".completed")) == speaks


async def test_a_session_without_a_longest_time_says_of_none(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world) as (_, socket):
        assert (await socket.saw("session.created"))["session"]["expires_at"] == 0


# Its end.


@pytest.mark.parametrize("stage", ["idle", "detecting", "queued", "loading", "running"])
async def test_leaving_frees_everything_at_every_stage(
    open_world: OpenWorld, autojump_clock: MockClock, stage: str
) -> None:
    models = {
        "detecting": (EARS, spec(VAD, session_options={"run_ms": 50_000})),
        "loading": (spec(EARS, load_options={"load_ms": 50_000}), VAD),
        "running": (spec(EARS, session_options={"run_ms": 50_000}), VAD),
    }.get(stage, (EARS, VAD))
    async with session(open_world, *models) as (world, open_socket), AsyncExitStack() as others:
        if stage == "queued":
            await others.enter_async_context(world.runtime.use("ears", request="other"))
        socket = await open_socket()
        if stage != "idle":
            socket.sound(1)
        await reach(world, stage)
        before = trio.current_time()
        socket.leave()
        await socket.ended.wait()
        assert trio.current_time() - before < 0.1
        assert not world.client.app.core.in_flight
        assert world.model("ears").queued_requests == 0


async def test_a_session_is_listed_and_cancelled_by_its_id(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 50_000})
    async with session(open_world, slow, VAD) as (world, open_socket):
        socket = await open_socket(headers={"x-request-id": "mine"})
        assert (b"x-request-id", b"mine") in socket.accepted["headers"]
        socket.sound(1)
        await reach(world, "running")
        [listed] = (await world.client.get("/v1/requests")).json()["data"]
        assert (listed["id"], listed["route"]) == ("mine", "GET /v1/realtime")
        assert (listed["model"], listed["slot"]) == ("ears", 0)
        assert (await world.client.call("DELETE", "/v1/requests/mine")).json()["ended"]
        code, reason = await finished(socket)
        assert code == 1008
        assert "cancelled" in reason
        assert world.free()


async def test_a_drain_lets_what_was_said_be_written_down_and_says_goodbye(
    open_world: OpenWorld,
    autojump_clock: MockClock,
) -> None:
    slow = spec(EARS, session_options={"run_ms": 1000})
    async with session(open_world, slow, VAD) as (world, open_socket):
        speaker, silent = await open_socket(), await open_socket()
        await speaker.speak(1.5)
        await reach(world, "running")
        world.runtime.drain()
        assert await finished(silent) == (1001, "the server is shutting down")
        assert await finished(speaker) == (1001, "the server is shutting down")
        [done] = speaker.of(".completed")
        assert done["transcript"].startswith("word1")
        late = await open_socket()
        assert late.status == 503
        assert late.error()["code"] == "shutting_down"


async def test_a_drain_refuses_what_waits_for_a_slot(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with (
        talking(open_world) as (world, socket),
        world.runtime.use("ears", request="other"),
    ):
        await socket.speak(1)
        await reach(world, "queued")
        world.runtime.drain()
        failed = await socket.saw(".failed")
        assert failed["error"]["code"] == "shutting_down"
        assert (await finished(socket))[0] == 1001
