"""Live streams over real sockets: both directions at once, and ends of every kind."""

import json
import re
from contextlib import suppress
from typing import Any, Final

import pytest
import trio
from tests.http.conftest import EARS, VOICE, OpenWorld, spec
from tests.http.live import LISTEN, SPEAK, pcm
from tests.http.test_sockets import Served, reset, serve
from tests.transport.h2kit import H2Client
from tests.transport.kit import Client
from trio.testing import wait_all_tasks_blocked

from paraudio.journal import Kind
from paraudio.transport import Limits

LISTENING: Final = f"{LISTEN}?model=ears"
_EVENT: Final = re.compile(rb"data: (.*)\n\n")


def head(path: str = LISTENING, *lines: str, sized: int | None = None) -> bytes:
    framing = "Transfer-Encoding: chunked" if sized is None else f"Content-Length: {sized}"
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", framing, *lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST: Final = b"0\r\n\r\n"


class Talk:
    """A client that sends and reads at the same time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.got = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def until(self, mark: bytes, count: int = 1) -> None:
        """Read until something has come so many times."""
        while self.got.count(mark) < count:
            data = await self.stream.receive_some()
            assert data, self.got
            self.got += data

    async def rest(self) -> None:
        """Read to the end, in order or not."""
        try:
            while data := await self.stream.receive_some():
                self.got += data
        except trio.BrokenResourceError:
            return

    @property
    def events(self) -> list[Any]:
        return [
            "[DONE]" if word == b"[DONE]" else json.loads(word) for word in _EVENT.findall(self.got)
        ]

    @property
    def whole(self) -> bool:
        """Whether the answer has its last chunk."""
        return self.got.endswith(LAST)


async def talk(served: Served, data: bytes) -> Talk:
    return Talk(await served.raw(data))


async def running(served: Served, model: str = "ears") -> None:
    await served.world.wait_until(lambda: served.world.model(model).active_slots == 1)


async def test_words_come_over_the_connection_that_still_sends(open_world: OpenWorld) -> None:
    async with serve(open_world, EARS) as served:
        client = await talk(served, head())
        await client.until(b"\r\n\r\n")
        for count in range(1, 4):
            data = pcm(1.0)
            await client.send(chunk(data[:9999]) + chunk(data[9999:]))
            await client.until(b"text.delta", count)
        await client.send(LAST)
        await client.until(LAST)
        assert [event for event in client.events if event == "[DONE]"]
        assert client.events[-2]["text"] == "word1 word2 word3"
        # The connection is as good as before.
        await client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.until(b'"status":"ok"')
        await served.wait_idle()


async def test_a_body_of_known_length_may_come_slowly_too(open_world: OpenWorld) -> None:
    async with serve(open_world, EARS) as served:
        client = await talk(served, head(sized=64_000))
        await client.until(b"\r\n\r\n")
        await client.send(pcm(1.0))
        await client.until(b"text.delta")
        await client.send(pcm(1.0))
        await client.until(LAST)
        assert client.events[-2]["text"] == "word1 word2"


async def test_who_waits_to_be_told_is_told_before_the_answer_begins(
    open_world: OpenWorld,
) -> None:
    async with serve(open_world, EARS) as served:
        client = await talk(served, head(LISTENING, "Expect: 100-continue"))
        await client.until(b"\r\n\r\n", 2)
        assert client.got.startswith(b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 ")
        await client.send(chunk(pcm()) + LAST)
        await client.until(b"[DONE]")
        refused = await talk(served, head(f"{LISTEN}?model=none", "Expect: 100-continue"))
        await refused.until(b"model_not_found")
        assert refused.got.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("sized", [None, 100_000])
@pytest.mark.parametrize("leave", ["close", "reset", "half"])
@pytest.mark.contract("time/disconnect_active_stream")
async def test_a_body_without_its_end_is_never_done(
    open_world: OpenWorld, leave: str, sized: int | None
) -> None:
    async with serve(open_world, EARS) as served:
        client = await talk(served, head(sized=sized))
        await client.send(pcm() if sized else chunk(pcm()))
        await client.until(b"text.delta")
        if leave == "reset":
            reset(client.stream)
        elif leave == "close":
            await client.stream.aclose()
        else:
            await client.stream.send_eof()
            await client.rest()
            assert b"done" not in client.got
            assert not client.whole
        await served.wait_idle()
        [ended] = served.world.kinds(Kind.RUN_ENDED)
        assert ended.facts["outcome"] == "stopped"
        assert len(served.world.kinds(Kind.DISCONNECTED)) == 1


async def test_chunks_that_are_none_are_never_done(open_world: OpenWorld) -> None:
    async with serve(open_world, EARS) as served:
        client = await talk(served, head() + chunk(pcm()))
        await client.until(b"text.delta")
        await client.send(b"what is this\r\n")
        await client.rest()
        assert b"done" not in client.got
        assert not client.whole
        await served.wait_idle()


@pytest.mark.parametrize("leave", ["close", "reset"])
async def test_a_client_that_leaves_while_its_sound_is_worked_on_is_noticed(
    open_world: OpenWorld, leave: str
) -> None:
    slow = spec(EARS, session_options={"run_ms": 600_000})
    async with serve(open_world, slow) as served:
        client = await talk(served, head() + chunk(pcm(0.5)))
        await client.until(b"\r\n\r\n")
        # As much as the server reads ahead: its reader is parked when the client goes.
        await client.send(chunk(bytes(100_000)))
        await wait_all_tasks_blocked(0.05)
        if leave == "reset":
            reset(client.stream)
        else:
            await client.stream.aclose()
        await served.wait_idle()
        assert [event.facts["outcome"] for event in served.world.kinds(Kind.RUN_ENDED)] == [
            "stopped"
        ]


async def test_a_queued_body_is_not_read_and_its_client_may_leave(open_world: OpenWorld) -> None:
    async with serve(open_world, EARS) as served:
        first = await talk(served, head())
        await first.until(b"\r\n\r\n")
        second = await talk(served, head())
        await served.world.wait_until(lambda: served.world.model("ears").queued_requests == 1)
        with trio.move_on_after(0.5) as scope:
            await second.send(chunk(bytes(50_000_000)))
        assert scope.cancelled_caught
        reset(second.stream)
        await served.world.wait_until(lambda: served.world.model("ears").queued_requests == 0)
        await first.send(chunk(pcm()) + LAST)
        await first.until(b"[DONE]")
        await served.wait_idle()


async def test_a_chunk_over_its_bound_is_an_error_event(open_world: OpenWorld) -> None:
    model = spec(EARS, live_ingest={"max_chunk_bytes": 32_000})
    async with serve(open_world, model) as served:
        client = await talk(served, head() + chunk(pcm(1.0)))
        await client.until(b"text.delta")
        await client.send(chunk(pcm(1.001)))
        await client.until(LAST)
        error = client.events[-1]["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "payload_too_large")
        assert "live_ingest.max_chunk_bytes" in error["message"]
        assert b"done" not in client.got
        await served.wait_idle()


async def test_a_body_that_never_ends_is_ended_also_where_it_never_pauses(
    open_world: OpenWorld,
) -> None:
    bounds = {"total_timeout_ms": 300, "max_body_bytes": 0}
    # So slow that there is always something to read.
    model = spec(EARS, session_options={"run_ms": 50}, live_ingest=bounds)
    async with serve(open_world, model) as served, trio.open_nursery() as nursery:
        client = await talk(served, head(f"{LISTENING}&sample_rate=384000"))

        async def flood() -> None:
            with suppress(trio.BrokenResourceError):
                while True:
                    await client.send(chunk(bytes(500_000)))

        nursery.start_soon(flood)
        await client.until(b'"error"')
        nursery.cancel_scope.cancel()
        assert client.events[-1]["error"]["code"] == "total_timeout"
        assert b"done" not in client.got


async def test_a_client_that_falls_silent_is_told_so_in_real_time(open_world: OpenWorld) -> None:
    model = spec(EARS, live_ingest={"idle_timeout_ms": 300})
    async with serve(open_world, model) as served:
        client = await talk(served, head() + chunk(pcm()))
        began = trio.current_time()
        await client.until(LAST)
        assert trio.current_time() - began > 0.29
        assert client.events[-1]["error"]["code"] == "idle_timeout"
        await client.rest()  # the server ends the connection: the rest of the body is never read
        await served.wait_idle()


@pytest.mark.parametrize("http2", [False, True])
async def test_a_microphone_may_pause_for_longer_than_other_clients(
    open_world: OpenWorld, *, http2: bool
) -> None:
    """The bound for slow clients is for those who dawdle; a pause in live sound has its own."""
    limits = Limits(slow_client_timeout_s=0.2, sweep_s=0.05)
    async with serve(open_world, EARS, limits=limits) as served:
        if http2:
            connection = await open_h2(served)
            stream = await connection.begin(LISTENING.encode(), method=b"POST", end=False)
            await running(served)
            await trio.sleep(0.7)
            await connection.upload(stream, pcm())
            assert b"[DONE]" in (await connection.answer(stream)).body
        else:
            client = await talk(served, head())
            await client.until(b"\r\n\r\n")
            await trio.sleep(0.7)
            await client.send(chunk(pcm()) + LAST)
            await client.until(b"[DONE]")


async def test_a_client_that_takes_nothing_is_cut_off(open_world: OpenWorld) -> None:
    model = spec(VOICE, live_ingest={"send_timeout_ms": 300})
    async with serve(open_world, model) as served:
        client = await talk(served, head(f"{SPEAK}?model=voice"))
        sentences = b"A sentence that is spoken at some length, and nobody hears it. " * 2000
        await client.send(chunk(sentences) + LAST)
        await served.wait_idle()
        await client.rest()
        assert b"[DONE]" not in client.got
        assert not client.whole
        assert len(served.world.kinds(Kind.DISCONNECTED)) == 1


async def test_speech_is_heard_while_the_text_is_written(open_world: OpenWorld) -> None:
    async with serve(open_world, VOICE) as served:
        query = "model=voice&stream_format=audio&response_format=wav"
        client = await talk(served, head(f"{SPEAK}?{query}", "Content-Type: text/plain"))
        await client.send(chunk(b"Hello ") + chunk(b"there. How"))
        await client.until(b"RIFF")
        await client.send(chunk(b" are you") + LAST)
        await client.until(LAST)
        assert client.got.count(b"RIFF") == 1
        await served.wait_idle()


async def open_h2(served: Served) -> H2Client:
    stream = await served.raw(b"")
    return await H2Client(Client(stream, stream)).start()


async def test_http2_streams_go_both_ways_and_side_by_side(open_world: OpenWorld) -> None:
    async with serve(open_world, spec(EARS, slots=2)) as served:
        client = await open_h2(served)
        streams = [
            await client.begin(LISTENING.encode(), method=b"POST", end=False) for _ in range(2)
        ]
        for count in (1, 2):
            for stream in streams:
                await client.upload(stream, pcm(1.0), end=False)
            while any(client.answers[s].body.count(b"text.delta") < count for s in streams):
                await client._pump()
        for stream in streams:
            await client.upload(stream, b"", end=True)
            answer = await client.answer(stream)
            assert (answer.status, answer.ended) == (200, True)
            assert b'"text":"word1 word2"' in answer.body
        await served.wait_idle()


async def test_an_http2_stream_that_falls_silent_or_is_not_read_is_ended_alone(
    open_world: OpenWorld,
) -> None:
    ears = spec(EARS, live_ingest={"idle_timeout_ms": 300})
    voice = spec(VOICE, live_ingest={"send_timeout_ms": 300})
    async with serve(open_world, ears, voice) as served:
        client = await open_h2(served)
        silent = await client.begin(LISTENING.encode(), method=b"POST", end=False)
        answer = await client.answer(silent)
        assert b'"code":"idle_timeout"' in answer.body
        assert answer.ended
        client.reading = False
        deaf = await client.begin(f"{SPEAK}?model=voice".encode(), method=b"POST", end=False)
        await client.upload(deaf, b"A sentence at some length, which nobody hears. " * 500)
        answer = await client.answer(deaf)
        assert answer.reset is not None
        assert b"[DONE]" not in answer.body
        client.connection.increment_flow_control_window(len(answer.body))
        await client.flush()
        assert (await client.ask(b"/health")).status == 200
        await served.world.wait_until(served.world.free)


async def test_a_reset_http2_stream_frees_its_slot_and_the_connection_goes_on(
    open_world: OpenWorld,
) -> None:
    async with serve(open_world, EARS) as served:
        client = await open_h2(served)
        stream = await client.begin(LISTENING.encode(), method=b"POST", end=False)
        await client.upload(stream, pcm(), end=False)
        while b"text.delta" not in client.answers[stream].body:
            await client._pump()
        await client.reset(stream)
        await served.world.wait_until(served.world.free)
        again = await client.begin(LISTENING.encode(), method=b"POST", end=False)
        await client.upload(again, pcm())
        assert b"[DONE]" in (await client.answer(again)).body


async def test_a_slow_http2_stream_holds_back_no_other(open_world: OpenWorld) -> None:
    slow = spec(EARS, id="slow", session_options={"run_ms": 600_000})
    async with serve(open_world, slow, EARS) as served:
        client = await open_h2(served)
        stuck = await client.begin(f"{LISTEN}?model=slow".encode(), method=b"POST", end=False)
        with trio.move_on_after(0.5):
            await client.upload(stuck, bytes(1_000_000), end=False)
        await running(served, "slow")
        other = await client.begin(LISTENING.encode(), method=b"POST", end=False)
        await client.upload(other, pcm(20))
        assert b"[DONE]" in (await client.answer(other)).body
        await client.reset(stuck)
        await served.wait_idle()
