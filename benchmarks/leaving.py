"""How soon a client that left holds nothing any more: its ticket, or its slot.

Run with ``python -m benchmarks.leaving``. For each way to leave, 1,000 requests wait behind those
that run; 200 of those that wait leave, then 100 of those that run. The time goes from the client's
last act (closing its socket, or sending the frame that resets its stream) to the event in the
server's journal; both are read from the wall clock, so a millisecond either way means nothing.
"""

import base64
import datetime as dt
import json
import os
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final

import h2.config
import h2.connection
import h2.errors
import trio
import wsproto
from benchmarks._served import Server, job, leave, serving, simulated
from wsproto.events import Request, TextMessage

from paraudio.journal import Kind, Trace

WAITERS: Final = 1000
SLOTS: Final = 4
LEAVERS: Final = 200
STREAMS: Final = 100
"""Requests on one connection of HTTP/2, as many as the server allows."""

LONG_MS: Final = 600_000
SOUND_S: Final = 0.2

Leaves = Mapping[str, Callable[[], float]]
"""What makes each request's client leave, by the request's ID; each returns when that was."""

Way = Callable[[Server], AbstractAsyncContextManager[Leaves]]


@asynccontextmanager
async def http1(server: Server, *, reset: bool) -> AsyncIterator[Leaves]:
    """One request on each connection, which is closed or reset."""
    streams = {
        f"r{index}": await server.send(job("sim", run_ms=LONG_MS), f"r{index}")
        for index in range(WAITERS + SLOTS)
    }
    yield {name: partial(leave, stream, reset=reset) for name, stream in streams.items()}


@asynccontextmanager
async def http2(server: Server) -> AsyncIterator[Leaves]:
    """Many requests on each connection, whose streams are reset one at a time."""
    leaves: dict[str, Callable[[], float]] = {}
    async with trio.open_nursery() as nursery:
        while len(leaves) < WAITERS + SLOTS:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            machine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
            machine.initiate_connection()
            for _ in range(min(STREAMS, WAITERS + SLOTS - len(leaves))):
                name = f"r{len(leaves)}"
                leaves[name] = partial(_reset, stream, machine, _ask(machine, name))
            await stream.send_all(machine.data_to_send())
            nursery.start_soon(_read, stream)
            # In line before the next connection's, so that who runs is known.
            await server.until("sim", partial(_stands, len(leaves) - SLOTS))
        yield leaves
        nursery.cancel_scope.cancel()


def _stands(waiting: int, seen: Mapping[str, int]) -> bool:
    return seen["queued_requests"] >= waiting


def _ask(machine: h2.connection.H2Connection, name: str) -> int:
    body = json.dumps(job("sim", run_ms=LONG_MS)).encode()
    stream = machine.get_next_available_stream_id()
    machine.send_headers(
        stream,
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "x"),
            (":path", "/v1/tasks/run"),
            ("content-type", "application/json"),
            ("x-request-id", name),
        ],
    )
    machine.send_data(stream, body, end_stream=True)
    return stream


def _reset(stream: trio.SocketStream, machine: h2.connection.H2Connection, number: int) -> float:
    machine.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
    data = machine.data_to_send()
    at = time.time()
    # Without a checkpoint, so that the moment is the one that was noted: 13 bytes fit.
    assert os.write(stream.socket.fileno(), data) == len(data)
    return at


async def _read(stream: trio.SocketStream) -> None:
    """Take what the server says, so that it never waits for the client."""
    try:
        while await stream.receive_some(65536):
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


@asynccontextmanager
async def websockets(server: Server) -> AsyncIterator[Leaves]:
    """Realtime sessions that have committed a sound each; their sockets are closed."""
    sound = base64.b64encode(bytes(2 * int(24_000 * SOUND_S))).decode()
    manual = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
    says = (
        {"type": "session.update", "session": manual},
        {"type": "input_audio_buffer.append", "audio": sound},
        {"type": "input_audio_buffer.commit"},
    )
    leaves: dict[str, Callable[[], float]] = {}
    for index in range(WAITERS + SLOTS):
        name = f"r{index}"
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        machine = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        head = Request(
            host="x",
            target="/v1/realtime?model=sim",
            extra_headers=[(b"X-Request-Id", name.encode())],
        )
        await stream.send_all(machine.send(head))
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += bytes(await stream.receive_some(65536))
        machine.receive_data(answer)
        list(machine.events())
        for event in says:
            await stream.send_all(machine.send(TextMessage(data=json.dumps(event))))
        leaves[name] = partial(leave, stream, reset=False)
    yield leaves


async def measure(what: str, task: str, way: Way) -> None:
    """Let clients leave one way, and print the distribution."""
    left: dict[str, float] = {}
    model = {**simulated(slots=SLOTS), "task": task, "default_request_options": {"run_ms": LONG_MS}}
    with serving(model) as server:
        async with way(server) as leaves:
            await server.until("sim", partial(_stands, WAITERS))
            waiting = list(leaves)[SLOTS : SLOTS + WAITERS]
            for name in random.Random(1).sample(waiting, LEAVERS):
                left[name] = leaves[name]()
                await trio.sleep(0.005)
            staying = iter([name for name in leaves if name not in left])
            for _ in range(LEAVERS // 2):
                await trio.sleep(0.02)
                name = next(staying)
                left[name] = leaves[name]()
            await trio.sleep(1)
        await trio.to_thread.run_sync(server.stop)
        trace = server.trace()
    for kind, which in ((Kind.LEFT, "ticket gone"), (Kind.RELEASED, "slot free")):
        found = sorted(_free_after(trace, kind, left))
        cuts = statistics.quantiles(found, n=100)
        print(
            f"  {what:28} to {which:12} p50 {cuts[49] * 1000:5.1f} ms   "
            f"p99 {cuts[98] * 1000:5.1f} ms   max {found[-1] * 1000:5.1f} ms   of {len(found)}"
        )


def _free_after(trace: Trace, kind: Kind, left: Mapping[str, float]) -> Iterator[float]:
    """Seconds from each departure to the event that ended its ticket."""
    started = dt.datetime.fromisoformat(trace.header.started).timestamp()
    requests: dict[object, str] = {}
    for event in trace.events:
        if event.kind is Kind.QUEUED:
            requests[event.facts["ticket"]] = str(event.facts["request"])
        elif event.kind is kind and (name := requests[event.facts["ticket"]]) in left:
            yield started + event.at - trace.header.at - left[name]


async def main() -> None:
    """Print every way."""
    await measure("HTTP/1.1, end of stream", "tts", partial(http1, reset=False))
    await measure("HTTP/1.1, reset", "tts", partial(http1, reset=True))
    await measure("HTTP/2, stream reset", "tts", http2)
    await measure("websocket, end of stream", "asr", websockets)


if __name__ == "__main__":
    trio.run(main)
