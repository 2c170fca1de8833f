"""Faults over HTTP/2, against real processes: one stream ends, or the connection with all of them.

A stream that is reset costs what was done for it, and nothing of its connection's other streams.
"""

import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from tests.server.clients import bodies
from tests.server.harness import Served, serving, simulated, started
from tests.server.leaks import assert_nothing_left, held
from tests.transport.h2kit import H2Answer, H2Client

pytestmark = pytest.mark.process

LONG_MS: Final = 60_000
NOTICED_S: Final = 2.0
STATES: Final = ("queued", "loading", "running", "streaming")
MODELS: Final = [
    simulated("other"),
    simulated("queued"),
    simulated("loading", load_ms=2000),
    simulated("running"),
    simulated("streaming", chunks=1000, chunk_ms=50),
]


GOAWAY: Final = 7
HEAD_BYTES: Final = 9


class Client(H2Client):
    """Reads on after the server has said goodbye, as the protocol means it; h2 does not.

    Attributes:
        told_to_go: Whether it was told that the server takes no new streams.
    """

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.told_to_go = False
        self._rest = b""

    async def _pump(self) -> None:
        data = await self.client.stream.receive_some(65536)
        if not data:
            raise trio.EndOfChannel
        self._rest += data
        while (frame := self._frame()) is not None:
            if frame[3] == GOAWAY:
                self.told_to_go = True
                continue
            for event in self.connection.receive_data(frame):
                self._note(event)
        await self.flush()

    def _frame(self) -> bytes | None:
        """Take the next whole frame, if it is there."""
        size = HEAD_BYTES + int.from_bytes(self._rest[:3])
        if len(self._rest) < max(size, HEAD_BYTES):
            return None
        frame, self._rest = self._rest[:size], self._rest[size:]
        return frame


class Wire:
    """One connection to the server, with requests on its streams."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def begin(self, path: str, body: object) -> int:
        """Send a whole request; returns its stream."""
        headers = [(b"content-type", b"application/json")]
        stream = await self.client.begin(path.encode(), method=b"POST", headers=headers, end=False)
        await self.client.upload(stream, json.dumps(body).encode())
        return stream

    async def run(self, name: str, **options: object) -> int:
        """Send a job that is run whole; returns its stream."""
        return await self.begin("/v1/tasks/run", bodies.run(name, **options))


@asynccontextmanager
async def wired(served: Served) -> AsyncIterator[Wire]:
    """A connection that speaks HTTP/2 from its first byte; left with a reset."""
    client = await served.connect()
    try:
        # It needs no more of a client than to send and to receive.
        wire = Client(client)
        await wire.start()
        yield Wire(wire)
    finally:
        with suppress(OSError):
            client.reset()


def told(answer: H2Answer) -> str:
    """What a stream was told, in a few words."""
    if answer.reset is not None:
        return "reset"
    if answer.status == 200:
        return "200"
    return f"{answer.status} {json.loads(answer.body)['error']['code']}"


async def in_the_middle(served: Served, wire: Wire, state: str) -> int:
    """Bring a request on the wire into a state; returns its stream."""
    if state == "queued":
        await wire.run("queued", run_ms=LONG_MS)
        await served.until(lambda seen: seen["active_slots"] and seen["loaded"], state)
        stream = await wire.run("queued")
        await served.until(lambda seen: seen["queued_requests"], state)
    elif state == "loading":
        stream = await wire.run("loading")
        await served.until(lambda seen: seen["state"] == "loading", state)
    elif state == "running":
        stream = await wire.run("running", run_ms=LONG_MS)
        await served.until(lambda seen: seen["active_slots"] and seen["loaded"], state)
    else:
        stream = await wire.begin("/v1/audio/speech", bodies.stream("streaming"))
        while not wire.client.answers[stream].body:
            await wire.client._pump()
    return stream


async def let_go(served: Served, state: str, *, with_holder: bool) -> None:
    """Wait until what was done for a request has ended, long before it would have by itself."""
    if state == "loading":
        await served.until(lambda seen: seen["state"] == "ready", state)
    elif state == "queued" and not with_holder:
        await served.until(lambda seen: not seen["queued_requests"], state, within_s=NOTICED_S)
        assert (await served.model(state))["active_slots"] == 1
    else:
        await served.until(
            lambda seen: not seen["active_slots"] + seen["queued_requests"],
            state,
            within_s=NOTICED_S,
        )


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server of all disconnects; it must end as if nothing had happened."""
    with started(tmp_path_factory.mktemp("http2"), MODELS) as served:
        served.url = served.hear("listening on ").partition("on ")[2].split()[0]
        yield served
        served.signal()
        ended = served.end()
    assert (ended.code, ended.cuts) == (0, [])
    assert ended.seconds < served.bound_s


@pytest.mark.contract(
    "beyond/g01_waiter_leaves_on_disconnect",
    "beyond/g02_initializer_disconnect_keeps_load",
    "beyond/g03_running_inference_cancelled",
)
@pytest.mark.parametrize("how", ["stream", "connection"])
@pytest.mark.parametrize("state", STATES)
async def test_what_is_reset_costs_what_was_done_for_it(
    survivor: Served, state: str, how: str
) -> None:
    served = survivor
    assert (await served.run("other")).status == 200
    assert (await served.post("/v1/models/unload", {"id": state})).status == 200
    before = held(served.pid)
    with trio.fail_after(30):
        async with wired(served) as wire:
            stream = await in_the_middle(served, wire, state)
            if how == "stream":
                await wire.client.reset(stream)
                await let_go(served, state, with_holder=False)
                other = await wire.client.answer(await wire.run("other"))
                assert told(other) == "200", "the connection goes on"
        await let_go(served, state, with_holder=True)
        assert (await served.run("other")).status == 200
        await assert_nothing_left(served, before)


@pytest.mark.contract("beyond/g05_bounded_shutdown", "time/shutdown_queued_request")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("signals", [1, 2])
async def test_a_server_ends_in_time_with_streams_in_every_state(
    tmp_path: Path, state: str, signals: int
) -> None:
    models = [*MODELS[:2], simulated("loading", load_ms=LONG_MS), *MODELS[3:]]
    drain_ms = 300 if signals == 1 else LONG_MS
    async with (
        serving(tmp_path, models, drain_ms=drain_ms, cancel_ms=800, hang_timeout_ms=500) as served,
        wired(served) as wire,
    ):
        stream = await in_the_middle(served, wire, state)
        ended = await served.stopped(*[signal.SIGTERM] * signals)
        with trio.fail_after(30), suppress(trio.EndOfChannel, trio.BrokenResourceError):
            await wire.client.answer(stream)
            while True:
                await wire.client._pump()
        answer = wire.client.answers[stream]
    if state == "queued":
        assert told(answer) == "503 shutting_down"
    else:
        assert not answer.ended, "it was cut off"
    assert wire.client.told_to_go
    assert ended.code == 3
    assert ended.cuts
    assert ended.seconds < (served.bound_s if signals == 1 else served.cancel_s + 1)


@pytest.mark.contract("beyond/g05_bounded_shutdown")
async def test_streams_may_finish_within_the_drain(tmp_path: Path) -> None:
    async with serving(tmp_path, MODELS, drain_ms=20_000) as served, wired(served) as wire:
        running = await wire.run("running", run_ms=1500)
        await served.until(lambda seen: seen["active_slots"] and seen["loaded"], "running")
        waiting = await wire.run("running")
        await served.until(lambda seen: seen["queued_requests"], "running")
        served.signal()
        assert told(await wire.client.answer(waiting)) == "503 shutting_down"
        assert told(await wire.client.answer(running)) == "200"
        assert wire.client.told_to_go
        ended = await served.ended()
    assert (ended.code, ended.cuts) == (0, [])
