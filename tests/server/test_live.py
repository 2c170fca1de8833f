"""Live streams and a real process: its memory under a flood, and its end in the middle of one."""

import re
import signal
from pathlib import Path
from typing import Final

import pytest
import trio
from tests.server.clients import Client
from tests.server.harness import Served, serving, simulated

pytestmark = pytest.mark.process

MIB: Final = 2**20
FLOOD_MIB: Final = 100
BLOCK: Final = bytes(MIB)
LONG_MS: Final = 60_000
LISTEN: Final = "/v1/audio/transcriptions/live?model=ears"
SECOND: Final = bytes(32_000)


def ears(**options: object) -> dict[str, object]:
    return simulated("ears", task="asr", **options)


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def begin(served: Served, path: str = LISTEN) -> Client:
    """Begin a live request; nothing of its body is sent yet."""
    client = await served.connect()
    await client.send(
        f"POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    return client


async def until(client: Client, mark: bytes) -> bytes:
    got = b""
    while mark not in got:
        data = await client.stream.receive_some()
        assert data, got
        got += data
    return got


async def drink(client: Client, mark: bytes) -> bytes:
    """Read up to a mark, and keep no more than the end of it."""
    got = b""
    while mark not in got:
        data = await client.stream.receive_some()
        assert data, got
        got = got[-2000:] + data
    return got


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_flood_of_sound_leaves_the_memory_flat(tmp_path: Path, isolation: str) -> None:
    """A client sends as fast as it can; what the server holds of it is a fixed little."""
    query = "&sample_rate=384000&channels=2"
    bounds = {"max_body_bytes": 0, "total_timeout_ms": 0}
    models = [ears(isolation=isolation)]
    async with serving(tmp_path, models, live_ingest=bounds) as served:
        async with await begin(served, LISTEN + query) as warm:
            await warm.send(chunk(BLOCK) * 8 + b"0\r\n\r\n")
            await drink(warm, b"[DONE]")
        pids = [served.pid, *([await served.worker("ears")] if isolation == "process" else [])]
        before = [peak_mib(pid) for pid in pids]
        async with await begin(served, LISTEN + query) as client, trio.open_nursery() as nursery:

            async def flood() -> None:
                for _ in range(FLOOD_MIB):
                    await client.send(chunk(BLOCK))
                await client.send(b"0\r\n\r\n")

            nursery.start_soon(flood)
            end = await drink(client, b"[DONE]")
        assert b"transcript.text.done" in end
        seconds = FLOOD_MIB * MIB / 4 / 384_000
        assert f'"audio_duration_ms":{round(seconds * 1000, 1)}'.encode() in end
        grown = [peak_mib(pid) - held for pid, held in zip(pids, before, strict=True)]
        assert max(grown) < 16, grown


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_flood_waits_for_a_slow_model(tmp_path: Path, isolation: str) -> None:
    """A model that is stuck in its first piece stops its client after a fixed little."""
    async with serving(tmp_path, [ears(isolation=isolation, run_ms=LONG_MS)]) as served:
        async with await begin(served) as client:
            await until(client, b"\r\n\r\n")
            sent = 0
            with trio.move_on_after(1):
                for _ in range(FLOOD_MIB):
                    await client.send(chunk(BLOCK))
                    sent += 1
            assert sent < 32
            client.reset()
        await served.until(lambda seen: not seen["active_slots"], "ears")


@pytest.mark.contract("time/shutdown_stalled_live_body", "beyond/g05_bounded_shutdown")
@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("signals", [1, 2])
async def test_an_open_live_stream_is_cut_when_the_drain_is_over(
    tmp_path: Path, isolation: str, signals: int
) -> None:
    drain_ms = 300 if signals == 1 else LONG_MS
    async with (
        serving(tmp_path, [ears(isolation=isolation)], drain_ms=drain_ms) as served,
        await begin(served) as client,
    ):
        await client.send(chunk(SECOND))
        await until(client, b"text.delta")
        ended = await served.stopped(*[signal.SIGTERM] * signals)
        rest = await client.rest()
    assert ended.code == 3
    assert ended.seconds < (served.bound_s if signals == 1 else served.cancel_s + 1)
    assert b"done" not in rest
    assert b"DONE" not in rest
    assert any("ears" in cut for cut in ended.cuts), ended.cuts


@pytest.mark.contract("time/shutdown_stalled_live_body")
async def test_a_live_stream_that_ends_within_the_drain_is_whole(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, [ears()], drain_ms=LONG_MS) as served,
        await begin(served) as client,
    ):
        await client.send(chunk(SECOND))
        await until(client, b"text.delta")
        served.signal()
        await served.heard("draining: ")
        await client.send(chunk(SECOND) + b"0\r\n\r\n")
        assert b'"text":"word1 word2"' in await until(client, b"[DONE]")
        ended = await served.ended()
    assert (ended.code, ended.cuts) == (0, [])


async def test_a_live_stream_whose_worker_dies_says_so_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, [ears(isolation="process")]) as served:
        async with await begin(served) as client:
            await client.send(chunk(SECOND))
            await until(client, b"text.delta")
            served.may_fail = True
            worker = await served.worker("ears")
            await trio.run_process(["kill", "-KILL", str(worker)])
            await client.send(chunk(SECOND))
            assert b'"code":"backend_crashed"' in await until(client, b'"error"')
        async with await begin(served) as client:
            await client.send(chunk(SECOND) + b"0\r\n\r\n")
            assert b'"text":"word1"' in await until(client, b"[DONE]")
