"""Faults in the middle of live streams and of realtime sessions, against real processes.

What a signal does once stands beside what each of the two does else; here is what else can happen.
"""

import base64
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import pytest
import trio
from tests.http.realtimekit import RATE, Wire
from tests.server import test_live as live
from tests.server.clients import Client
from tests.server.harness import Served, serving, simulated
from tests.server.leaks import assert_nothing_left, held
from tests.server.starving import feed, starve
from tests.server.test_realtime import talking

pytestmark = pytest.mark.process

HANG_MS: Final = 1000
LONG_MS: Final = 60_000
NOTICED_S: Final = 2.0
KINDS: Final = ("live", "realtime")


class Stream(Protocol):
    """Sound on its way to a model that listens."""

    def leave(self) -> None:
        """Reset the connection."""

    async def finish(self) -> None:
        """Send the rest, and wait for the whole of what was heard."""

    async def ended(self) -> str:
        """Wait for the end of it, or for an error; returns what was told last."""


class Live:
    """A request whose body still comes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def leave(self) -> None:
        self._client.reset()

    async def finish(self) -> None:
        await self._client.send(live.chunk(live.SECOND) + b"0\r\n\r\n")
        assert b"transcript.text.done" in await live.until(self._client, b"[DONE]")

    async def ended(self) -> str:
        with suppress(trio.BrokenResourceError):  # it may have been cut off already
            await self._client.send(live.chunk(live.SECOND))
        return (await self._client.rest()).decode()


class Session:
    """A websocket."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def leave(self) -> None:
        self._wire.leave("rst")

    async def finish(self) -> None:
        await self._silence()
        assert (await self._wire.saw(".completed"))["transcript"]

    async def ended(self) -> str:
        told = ""
        with suppress(trio.BrokenResourceError, trio.EndOfChannel):
            await self._silence()
            while not any(word in told for word in ("error", "failed", "completed")):
                told += repr(await self._wire.next())
        return told

    async def _silence(self) -> None:
        """Say nothing for a while, which ends what was said."""
        silence = base64.b64encode(bytes(2 * 2 * RATE)).decode()
        await self._wire.say("input_audio_buffer.append", audio=silence)


def models(run_ms: int) -> list[object]:
    """Somebody who listens, somebody who tells speech from silence, and somebody else."""
    ears = simulated("ears", run_ms=run_ms) | {"task": "asr"}
    return [ears, simulated("vad") | {"task": "vad"}, simulated("other")]


@asynccontextmanager
async def streaming(served: Served, kind: str) -> AsyncIterator[Stream]:
    """A stream whose model is listening now."""
    async with AsyncExitStack() as stack:
        if kind == "realtime":
            wire = await stack.enter_async_context(talking(served))
            yield Session(wire)
            return
        client = await stack.enter_async_context(await live.begin(served))
        await client.send(live.chunk(live.SECOND))
        await served.until(lambda seen: seen["active_slots"] and seen["loaded"], "ears")
        yield Live(client)


async def usable(served: Served) -> None:
    """Everything comes to rest, and the models serve whoever comes next."""
    for name in ("ears", "vad"):
        await served.until(
            lambda seen: not seen["active_slots"] + seen["queued_requests"] + seen["stuck_slots"],
            name,
        )
    assert (await served.run("other")).status == 200


@pytest.mark.contract("time/disconnect_active_stream", "beyond/g03_running_inference_cancelled")
@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_whose_client_leaves_frees_its_model(
    tmp_path: Path, kind: str, isolation: str
) -> None:
    async with serving(tmp_path, models(LONG_MS), isolation=isolation) as served:
        assert (await served.run("other")).status == 200
        await served.post("/v1/tasks/unload_all_models", {})
        before = held(served.pid)
        async with streaming(served, kind) as stream:
            stream.leave()
            await served.until(lambda seen: not seen["active_slots"], "ears", within_s=NOTICED_S)
        await usable(served)
        await served.post("/v1/tasks/unload_all_models", {})
        await assert_nothing_left(served, before)
        ended = await served.stopped()
    assert (ended.code, ended.cuts) == (0, [])


@pytest.mark.contract("beyond/g08_backend_crash_isolated")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_whose_worker_dies_is_told_so_or_heard_all_the_same(
    tmp_path: Path, kind: str
) -> None:
    async with serving(tmp_path, models(2000), isolation="process") as served:
        served.may_fail = True
        async with streaming(served, kind) as stream:
            os.kill(await served.worker("ears"), signal.SIGKILL)
            with trio.fail_after(30):
                told = await stream.ended()
            # What it did not work for just then is heard by the next worker.
            crashed = "backend_crashed" in told
            assert crashed or (kind == "realtime" and "completed" in told), told
        await usable(served)
        ended = await served.stopped()
    assert (ended.code, ended.cuts) == (0, [])


@pytest.mark.contract("beyond/g04_hung_backend_contained")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_whose_worker_hangs_goes_with_its_client(tmp_path: Path, kind: str) -> None:
    async with serving(
        tmp_path, models(2000), isolation="process", hang_timeout_ms=HANG_MS
    ) as served:
        served.may_fail = True
        async with streaming(served, kind) as stream:
            pid = await served.worker("ears")
            os.kill(pid, signal.SIGSTOP)
            assert (await served.run("other")).status == 200
            stream.leave()
            await usable(served)
            assert pid not in served.workers()
        ended = await served.stopped()
    assert (ended.code, ended.cuts) == (0, [])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_goes_on_where_no_file_can_be_opened(tmp_path: Path, kind: str) -> None:
    async with serving(tmp_path, models(300)) as served:
        served.may_fail = True
        async with streaming(served, kind) as stream:
            async with AsyncExitStack() as stack:
                waiting = await starve(served, stack)
                with trio.fail_after(30):
                    await stream.finish()
                feed(served)
                assert (await waiting.answer()).status == 200
            stream.leave()
        await usable(served)
        ended = await served.stopped()
    assert (ended.code, ended.cuts) == (0, [])


@pytest.mark.contract("beyond/g05_bounded_shutdown")
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_second_signal_ends_a_session_at_once(tmp_path: Path, isolation: str) -> None:
    async with (
        serving(tmp_path, models(LONG_MS), drain_ms=LONG_MS, isolation=isolation) as served,
        streaming(served, "realtime"),
    ):
        ended = await served.stopped(signal.SIGTERM, signal.SIGTERM)
    assert ended.code == 3
    assert ended.cuts
    assert ended.seconds < served.cancel_s + 1
