"""What a live request may wait for and hold: who waits for whom, and what bounds that."""

import pytest
import trio
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.live import failed, kinds, pcm, start, whole
from trio.testing import MockClock, wait_all_tasks_blocked

BOUNDS = ("idle_timeout_ms", "total_timeout_ms", "max_body_bytes")


async def test_the_body_is_not_read_while_the_request_waits_for_its_turn(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(EARS) as world:
        first = start(world)
        await first.head()
        second = start(world)
        second.say(pcm())
        await world.wait_until(lambda: world.model("ears").queued_requests == 1)
        await wait_all_tasks_blocked()
        assert (second.unread, second.reply.status) == (1, 0)
        first.end()
        await first.ended.wait()
        second.end()
        await second.ended.wait()
        assert second.reply.events()[-2]["text"] == "word1"


async def test_a_client_may_bound_its_own_wait(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(EARS) as world:
        first = start(world)
        await first.head()
        second = start(world, busy_timeout_ms=500)
        began = trio.current_time()
        await second.ended.wait()
        assert trio.current_time() - began == pytest.approx(0.5)
        assert second.reply.error()["code"] == "server_busy"
        first.end()
        await first.ended.wait()
        assert world.idle()


async def test_a_slow_model_holds_its_client_back(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(EARS) as world:
        gate = world.gates.hold("chunk")
        call = start(world)
        for _ in range(20):
            call.say(pcm(0.1))
        await gate.wait_held()
        await wait_all_tasks_blocked()
        assert call.unread == 19
        gate.release()
        await gate.wait_held()
        assert call.unread == 18
        gate.open()
        call.end()
        await call.ended.wait()
        assert call.reply.events()[-2]["timing"]["audio_duration_ms"] == 2000.0


async def test_a_client_that_reads_nothing_is_not_listened_to(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(EARS) as world:
        call = start(world)
        call.take(1)
        for _ in range(20):
            call.say(pcm(1.0))
        await call.wait_bytes()
        await wait_all_tasks_blocked()
        assert call.unread > 15
        call.take()
        call.end()
        await call.ended.wait()
        assert len(call.reply.events()) == 42


@pytest.mark.parametrize("place", ["server", "model"])
async def test_a_client_that_falls_silent_is_told_so(
    open_world: OpenWorld, autojump_clock: MockClock, place: str
) -> None:
    own = {"idle_timeout_ms": 700} if place == "model" else {}
    bounds = {"idle_timeout_ms": 700 if place == "server" else 9000}
    async with open_world(spec(EARS, live_ingest=own), settings={"live_ingest": bounds}) as world:
        call = start(world)
        for _ in range(5):
            call.say(pcm(1.0))
            await trio.sleep(0.6)
        error = await failed(world, call)
        assert (error["type"], error["code"]) == ("invalid_request_error", "idle_timeout")
        assert "700 ms" in error["message"]
        assert trio.current_time() - world.events[0].at == pytest.approx(3.1, abs=0.01)
        assert call.reply.body.count(b"text.delta") == 5


async def test_the_time_that_a_model_works_is_no_silence(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    model = spec(EARS, session_options={"run_ms": 5000}, live_ingest={"idle_timeout_ms": 1000})
    async with open_world(model) as world:
        assert kinds(await whole(world, pcm(1.0), pcm(1.0)))[-1] == "[DONE]"


@pytest.mark.parametrize("pause", [0.5, 0.0])
async def test_a_body_that_does_not_end_in_time_is_an_error(
    open_world: OpenWorld, autojump_clock: MockClock, pause: float
) -> None:
    model = spec(EARS, session_options={"run_ms": 100}, live_ingest={"total_timeout_ms": 3000})
    async with open_world(model) as world:
        call = start(world)
        await call.head()
        began = trio.current_time()
        for _ in range(50):
            if call.ended.is_set():
                break
            call.say(pcm(0.1))
            await trio.sleep(pause)
        error = await failed(world, call)
        assert (error["type"], error["code"]) == ("invalid_request_error", "total_timeout")
        assert "3000 ms" in error["message"]
        assert trio.current_time() - began == pytest.approx(3.0, abs=0.51)


async def test_more_than_the_largest_body_is_an_error(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    model = spec(EARS, live_ingest={"max_body_bytes": 100_000})
    async with open_world(model, settings={"max_request_body_bytes": 10}) as world:
        call = start(world)
        for _ in range(4):
            call.say(pcm(1.0))
        error = await failed(world, call)
        assert error["code"] == "payload_too_large"
        assert "100000 bytes" in error["message"]
        assert call.reply.body.count(b"text.delta") == 3


async def test_a_body_that_is_declared_too_large_is_refused_unread(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, live_ingest={"max_body_bytes": 1000})) as world:
        call = start(world, headers={"content-length": "1001"})
        call.say(b"x")
        await call.ended.wait()
        assert (call.reply.status, call.unread) == (413, 1)
        assert not world.model("ears").loaded


async def test_no_bound_is_no_bound(open_world: OpenWorld, autojump_clock: MockClock) -> None:
    own = dict.fromkeys(BOUNDS, 0)
    async with open_world(
        spec(EARS, live_ingest=own), settings={"live_ingest": dict.fromkeys(BOUNDS, 1)}
    ) as world:
        call = start(world)
        call.say(pcm())
        await trio.sleep(80_000)
        call.end()
        await call.ended.wait()
        assert kinds(call.reply.events())[-1] == "[DONE]"
