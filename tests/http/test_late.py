"""Live bodies and sessions at a server that was stopped for longer than their bounds.

In virtual time, as in the transport's own tests: bytes are put into a socket and the clock is moved
in one step, so that nothing runs in between.
"""

import base64
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest
import trio
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.live import pcm
from tests.http.realtime_sessions import VAD
from tests.http.realtimekit import RATE, Wire, dial
from tests.http.test_live_sockets import LAST, Talk, chunk, head
from tests.transport.kit import pass_time, settle
from trio.testing import MockClock
from wsproto.events import AcceptConnection, TextMessage

from paraudio.spec import ModelSpec
from paraudio.transport import Deadline, Server, open_tcp
from paraudio.transport._lateness import MOMENT_S

BOUNDS: Final = {"idle_timeout_ms": 4_000, "total_timeout_ms": 30_000}
STOPPED_S: Final = 100
MANY: Final = 8
"""Enough that some order of waking is the wrong one."""


@dataclass
class Place:
    """Where the server is, and what is closed before it."""

    port: int
    stack: AsyncExitStack


@asynccontextmanager
async def listening(
    open_world: OpenWorld, *models: ModelSpec, **settings: Any
) -> AsyncIterator[Place]:
    """A server on a port of its own, whose models take no real time."""
    settings = {"live_ingest": BOUNDS, "parallel_jobs": True, **settings}
    async with open_world(*models, settings=settings) as world, trio.open_nursery() as nursery:
        server = Server(world.client.app)
        [listener] = await open_tcp("127.0.0.1", 0)
        await nursery.start(server.serve, [listener])
        with trio.fail_after(36_000):
            async with AsyncExitStack() as stack:
                yield Place(listener.socket.getsockname()[1], stack)
        server.stop()


def put(stream: trio.SocketStream, data: bytes) -> None:
    """Put bytes into the socket, in this very step."""
    assert os.write(stream.socket.fileno(), data) == len(data)


async def live(at: Place) -> Talk:
    """A client that has sent a second, and says nothing more."""
    client = Talk(await trio.open_tcp_stream("127.0.0.1", at.port))
    at.stack.push_async_callback(client.stream.aclose)
    await client.send(head() + chunk(pcm(1)))
    await client.until(b"text.delta")
    return client


async def test_a_live_body_that_was_in_time_is_heard_to_its_end(
    open_world: OpenWorld, mock_clock: MockClock
) -> None:
    async with listening(open_world, spec(EARS, slots=MANY)) as at:
        clients = [await live(at) for _ in range(MANY)]
        await settle()
        for client in clients:
            put(client.stream, chunk(pcm(1)) + chunk(pcm(1)) + LAST)
        mock_clock.jump(STOPPED_S)
        for client in clients:
            await client.until(LAST)
            assert client.events[-1] == "[DONE]"
            assert client.got.count(b"text.delta") == 3


async def test_a_live_body_that_owes_something_is_late_at_once(
    open_world: OpenWorld, mock_clock: MockClock
) -> None:
    async with listening(open_world, EARS) as at:
        client = await live(at)
        await settle()
        mock_clock.jump(STOPPED_S)
        await client.until(LAST)
        assert client.events[-1]["error"]["code"] == "idle_timeout"


async def opened(at: Place) -> Wire:
    """Open a session."""
    wire = await dial(at.port, "/v1/realtime?model=ears")
    at.stack.push_async_callback(wire.stream.aclose)
    assert isinstance(await wire.next(), AcceptConnection)
    await wire.saw("session.created")
    return wire


def event(wire: Wire, kind: str, **fields: str) -> bytes:
    told = ", ".join(f'"{name}": "{value}"' for name, value in {"type": kind, **fields}.items())
    return wire.machine.send(TextMessage(data=f"{{{told}}}"))


async def test_a_session_whose_event_waited_is_not_idle(
    open_world: OpenWorld, mock_clock: MockClock
) -> None:
    async with listening(open_world, EARS, VAD, realtime_idle_timeout_ms=15_000) as at:
        wires = [await opened(at) for _ in range(MANY)]
        await settle()
        for wire in wires:
            put(wire.stream, event(wire, "input_audio_buffer.commit"))
        mock_clock.jump(STOPPED_S)
        for wire in wires:
            error = (await wire.saw("error"))["error"]
            assert error["code"] == "input_audio_buffer_commit_empty"
        await pass_time(mock_clock, 15.5)
        for wire in wires:
            assert (await wire.saw("error"))["error"]["code"] == "idle_timeout"


async def test_who_went_on_speaking_is_not_cut_short(
    open_world: OpenWorld, mock_clock: MockClock
) -> None:
    bounds = {**BOUNDS, "total_timeout_ms": 500_000}
    async with listening(open_world, EARS, VAD, live_ingest=bounds) as at:
        wire = await opened(at)
        await wire.sound(1)
        await wire.saw("speech_started")
        await settle()
        loud = np.full(RATE, 8000, dtype="<i2").tobytes()
        more = base64.b64encode(loud).decode()
        put(wire.stream, event(wire, "input_audio_buffer.append", audio=more))
        mock_clock.jump(STOPPED_S)
        await settle()
        await pass_time(mock_clock, 3)
        put(wire.stream, event(wire, "conversation.item.retrieve", item_id="none"))
        await wire.saw("error")  # nothing came before it: the item goes on
        await pass_time(mock_clock, 4.1)
        assert (await wire.saw(".completed"))["usage"]["seconds"] == 2


@pytest.mark.parametrize("waits", [True, False])
async def test_a_deadline_grants_one_moment_to_whom_waits(
    mock_clock: MockClock, waits: bool
) -> None:
    deadline = Deadline(trio.current_time() + 5, lambda: waits)
    mock_clock.jump(50)
    assert await deadline.is_over() is not waits
    if waits:
        assert deadline.at == trio.current_time() + MOMENT_S
    assert await deadline.is_over()
