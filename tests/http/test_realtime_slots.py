"""Realtime sessions and slots: held while somebody speaks, shared, lost and got again."""

import trio
from tests.http.conftest import EARS, OpenWorld, World, spec
from tests.http.realtime_sessions import VAD, reach, session, talking
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.http._realtime_ears import TURN_S
from paraudio.journal import Kind


async def test_a_silent_microphone_holds_no_slot(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world) as (world, socket):
        await wait_all_tasks_blocked()
        assert world.free()
        socket.sound(1, loud=False)
        await world.wait_until(lambda: world.model("vad").active_slots == 1)
        await world.wait_until(world.free)
        assert world.model("ears").generation == 0  # nothing was said, so nothing was loaded
        assert not socket.of("error")


async def test_a_turn_at_the_detector_ends_when_another_session_waits(
    open_world: OpenWorld,
    autojump_clock: MockClock,
) -> None:
    async with session(open_world) as (world, open_socket):
        one, two = await open_socket(), await open_socket()
        for socket in (one, two):
            socket.sound(20, loud=False)
            socket.sentence(1)
        await one.saw(".completed")
        await two.saw(".completed")
        grants = [e.facts["request"] for e in world.kinds(Kind.BOUND) if e.model == "vad"]
        turns = [a for a, b in zip(grants, [*grants[1:], None], strict=True) if a != b]
        assert len(turns) > 20
        starts = {socket.of("speech_started")[0]["audio_start_ms"] for socket in (one, two)}
        assert starts == {19_700}


async def test_a_turn_is_short_even_where_nobody_waits(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(VAD, session_options={"run_ms": 400})
    async with talking(open_world, EARS, slow) as (world, socket):
        socket.sentence(15)
        await socket.saw(".completed")
        held = _held(world, "vad")
        assert len(held) > 1
        assert max(held) <= TURN_S + 1
        assert len(socket.of("speech_started")) == 1
        assert socket.of("speech_stopped")[0]["audio_end_ms"] == 15_500


def _held(world: World, model: str) -> list[float]:
    """How long each lease of a model lasted."""
    grants = [e.at for e in world.kinds(Kind.GRANTED) if e.model == model]
    ends = [e.at for e in world.kinds(Kind.RELEASED) if e.model == model]
    return [end - start for start, end in zip(grants, ends, strict=False)]


async def test_an_unload_of_the_detector_passes_between_two_turns(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world) as (world, socket):
        socket.sound(2)
        await socket.saw("speech_started")
        reply = await world.client.post("/v1/tasks/unload_models", {"model_ids": ["vad"]})
        assert reply.json()["unloaded"] == ["vad"]
        socket.sentence(1)
        done = await socket.saw(".completed")
        assert done["usage"]["seconds"] == 3.5
        assert world.model("vad").generation == 2


async def test_a_busy_model_fails_the_item_and_not_the_session(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world, path="/v1/realtime?model=ears&busy_timeout_ms=2000") as (
        world,
        socket,
    ):
        async with world.runtime.use("ears", request="other"):
            socket.sentence(1)
            failed = await socket.saw(".failed")
        assert failed["error"]["code"] == "server_busy"
        kinds = socket.kinds()
        assert kinds.index("committed") < kinds.index("failed")
        socket.sentence(1)
        await socket.saw(".completed")


async def test_a_busy_detector_is_told_and_tried_again(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world, path="/v1/realtime?model=ears&busy_timeout_ms=1000") as (
        world,
        socket,
    ):
        async with world.runtime.use("vad", request="other"):
            socket.sound(1)
            assert (await socket.saw("error"))["error"]["code"] == "server_busy"
        await trio.sleep(2)
        socket.sentence(1)
        await socket.saw(".completed")
        assert len(socket.of("error")) == 1


async def test_a_run_that_fails_fails_its_item_only(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    failing = spec(EARS, session_options={"fail_runs": 1})
    async with talking(open_world, failing, VAD) as (_, socket):
        for _ in range(2):
            socket.sentence(0.5, 0.6)
        await socket.saw(".completed")
        [failed], [done] = socket.of(".failed"), socket.of(".completed")
        assert failed["error"]["type"] == "server_error"
        assert [one["item_id"] for one in (failed, done)] == [
            one["item_id"] for one in socket.of("committed")
        ]


async def test_a_worker_that_dies_costs_its_own_item_only(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 200})
    async with talking(open_world, slow, VAD) as (world, socket):
        await socket.speak(1)
        await reach(world, "running")
        world.isolation.crash("ears")
        await socket.speak(1, loud=False)
        assert (await socket.saw(".failed"))["error"]["code"] == "backend_crashed"
        await socket.speak(1)
        await socket.speak(1, loud=False)
        await socket.saw(".completed")


async def test_a_detector_that_dies_is_told_of_and_another_listens_on(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(VAD, session_options={"run_ms": 20})
    async with talking(open_world, EARS, slow) as (world, socket):
        await socket.speak(1)
        world.isolation.crash("vad")
        socket.sound(0.5)
        assert (await socket.saw("error"))["error"]["code"] == "backend_crashed"
        await socket.saw(".completed")  # what was heard of what was being said
        await trio.sleep(2)
        await socket.speak(1)
        await socket.speak(1, loud=False)
        await socket.saw(".completed", 2)
