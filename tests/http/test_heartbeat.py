"""Comments keep a quiet stream of events open, and are no part of what it says."""

import math
from typing import Any

import openai
import pytest
import trio
from tests.http.client import Call
from tests.http.conftest import EARS, OpenWorld, World, spec
from tests.http.live import pcm, start
from tests.http.sounds import sound_file
from tests.http.test_sockets import serve
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.http._heartbeat import COMMENT, kept_alive
from paraudio.journal import Kind

SPEECH = "/v1/audio/speech"
SLOW = {"run_ms": 100_000, "chunks": 2}
"""A piece after 50 seconds, and another one after 100."""


def speak(world: World, **fields: Any) -> Call:
    body = {"model": "voice", "input": "hello there", "stream_format": "sse", **fields}
    return world.client.start("POST", SPEECH, body)


@pytest.mark.parametrize(("every_ms", "count"), [(15_000, 3), (20_000, 2), (60_000, 0), (0, 0)])
async def test_a_model_that_works_for_long_between_two_events_is_bridged_by_comments(
    open_world: OpenWorld, autojump_clock: MockClock, every_ms: int, count: int
) -> None:
    settings = {"sse_heartbeat_ms": every_ms}
    async with open_world(spec(session_options=SLOW), settings=settings) as world:
        call = speak(world)
        await call.ended.wait()
        first, comments, rest = call.reply.body.partition(b"\n\n" + COMMENT * count)
        assert first.startswith(b'data: {"type":"speech.audio.delta"')
        assert rest.startswith(b'data: {"type":"speech.audio.delta"') or not count
        assert call.reply.body.count(COMMENT) == count
        assert comments
        kinds = [event["type"] for event in call.reply.events()[:-1]]
        assert kinds == ["speech.audio.delta"] * 2 + ["speech.audio.done"]
        assert call.reply.body.endswith(b"data: [DONE]\n\n")
        assert world.idle()


async def test_an_event_begins_the_count_anew(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    model = spec(session_options={"run_ms": 60_000, "chunks": 6})
    async with open_world(model, settings={"sse_heartbeat_ms": 11_000}) as world:
        call = speak(world)
        await call.ended.wait()
        assert COMMENT not in call.reply.body
        assert len(call.reply.events()) == 8


async def test_bare_sound_has_no_comments_in_it(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=SLOW)) as world:
        call = speak(world, stream_format="audio", response_format="pcm")
        await call.ended.wait()
        assert COMMENT.strip() not in call.reply.body
        assert len(call.reply.body) == 2 * round(0.44 * 22_050)


async def test_a_microphone_that_pauses_is_kept_alive(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(EARS, settings={"sse_heartbeat_ms": 10_000}) as world:
        call = start(world)
        await call.head()
        await trio.sleep(25)
        assert call.reply.body == COMMENT * 2
        call.say(pcm(1.0))
        call.end()
        await call.ended.wait()
        assert call.reply.events()[-1] == "[DONE]"
        assert world.idle()


async def test_a_client_that_takes_nothing_is_sent_no_comments_on_top(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    model = spec(session_options={"run_ms": 400_000, "chunks": 2})
    async with open_world(model) as world:
        call = speak(world)
        await call.wait_bytes()
        call.take(0)
        await trio.sleep(190)
        taken = call.reply.body
        assert COMMENT not in taken
        call.take()
        await call.ended.wait()
        assert call.reply.body.removeprefix(taken).count(COMMENT) == 1
        assert [event["type"] for event in call.reply.events()[:-1]] == [
            "speech.audio.delta",
            "speech.audio.delta",
            "speech.audio.done",
        ]


async def test_a_client_that_leaves_a_quiet_stream_frees_it(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=SLOW)) as world:
        call = speak(world)
        await call.wait_bytes()
        await trio.sleep(20)
        began = trio.current_time()
        call.hang_up()
        await call.ended.wait()
        await world.wait_until(world.free)
        assert trio.current_time() - began < 0.1
        assert world.kinds(Kind.RUN_ENDED)[-1].facts["outcome"] == "stopped"
        assert world.idle()


async def test_a_failure_is_the_last_event_and_no_comment_comes_behind_it(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=SLOW)) as world:
        call = speak(world, options={"fail": True})
        await call.ended.wait()
        last = call.reply.events()[-1]
        assert last["type"] == "error"
        assert call.reply.body.count(COMMENT) == 3
        assert COMMENT not in call.reply.body.rpartition(b'data: {"type":"error"')[2]


async def test_what_a_stream_raises_comes_out_as_it_was(autojump_clock: MockClock) -> None:
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        sent.append(data)

    async def failing(write: Any) -> None:
        await write(b"a")
        await trio.sleep(2.5)
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await kept_alive(write, 1, failing)
    assert sent == [b"a", COMMENT, COMMENT]
    with pytest.raises(LookupError, match="broken"):
        await kept_alive(write, math.inf, failing)
    await trio.sleep(10)
    assert sent[3:] == [b"a"]


async def test_an_event_waits_for_the_comment_that_is_being_sent(
    autojump_clock: MockClock,
) -> None:
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        sent.append(data[:1])
        await trio.sleep(5)
        sent.append(data[-1:])

    async def stream(write: Any) -> None:
        await trio.sleep(1.5)
        await write(b"(event)")

    await kept_alive(write, 1, stream)
    assert sent == [b":", b"\n", b"(", b")"]


async def test_a_cancelled_stream_sends_nothing_more(autojump_clock: MockClock) -> None:
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        sent.append(data)

    async def stream(write: Any) -> None:
        await write(b"a")
        await trio.sleep_forever()

    with trio.move_on_after(2.5) as scope:
        await kept_alive(write, 1, stream)
    assert scope.cancelled_caught
    await wait_all_tasks_blocked()
    await trio.sleep(10)
    assert sent == [b"a", COMMENT, COMMENT]


async def test_the_openai_client_skips_comments(open_world: OpenWorld) -> None:
    model = spec(EARS, session_options={"run_ms": 800, "chunks": 4})
    fields = {"model": "ears", "stream": "true"}
    sound = sound_file()

    def ask(url: str) -> list[str]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            events = client.audio.transcriptions.create(model="ears", file=sound, stream=True)
            return [event.type for event in events]

    async with serve(open_world, model, settings={"sse_heartbeat_ms": 20}) as served:
        async with served.http() as client:
            plain = await client.post(
                "/v1/audio/transcriptions", data=fields, files={"file": ("a.wav", sound)}
            )
        assert COMMENT in plain.content
        kinds = await trio.to_thread.run_sync(ask, served.url)
        assert kinds == ["transcript.text.delta"] * 4 + ["transcript.text.done"]
        await served.wait_idle()
