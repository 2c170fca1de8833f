"""What a server says while it drains: what it waits for, again and again, and what it cut."""

import re
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
import trio
from tests.server.clients import Client, bodies
from tests.server.harness import PATIENCE_S, Ended, Served, serving, simulated
from tests.server.test_realtime import talking

pytestmark = pytest.mark.process

LONG_MS: Final = 60_000
HASTY: Final = (
    "import sys; from paraudio.server import _waiting; _waiting.AGAIN_S = 0.1; "
    "from paraudio.cli import main; main(['serve', *sys.argv[1:]])"
)
"""A server that says again and again what is left, ten times a second."""


def models() -> list[object]:
    ears = simulated("ears", run_ms=LONG_MS) | {"task": "asr"}
    vad = simulated("vad") | {"task": "vad"}
    names = ("running", "idle")
    plain = [simulated(name) for name in names]
    streaming = simulated("streaming", chunks=1000, chunk_ms=50)
    return [ears, vad, streaming, *plain, *(simulated(n, load_ms=LONG_MS) for n in ("cold", "old"))]


async def everything(served: Served, stack: AsyncExitStack) -> None:
    """Bring one request of each kind under way."""

    async def begin(path: str, body: object) -> Client:
        return await stack.enter_async_context(await served.begin(path, body))

    await begin("/v1/tasks/run", bodies.run("running", run_ms=LONG_MS))
    await served.until(lambda seen: seen["active_slots"] and seen["loaded"], "running")
    await begin("/v1/tasks/run", bodies.run("running"))
    await served.until(lambda seen: seen["queued_requests"], "running")
    assert await (await begin("/v1/audio/speech", bodies.stream("streaming"))).piece()
    await begin("/v1/tasks/run", bodies.run("cold"))
    await served.until(lambda seen: seen["state"] == "loading", "cold")
    async with await served.begin("/v1/tasks/run", bodies.run("old")) as gone:
        await served.until(lambda seen: seen["state"] == "loading", "old")
        gone.reset()
    await stack.enter_async_context(talking(served))
    half = await stack.enter_async_context(await served.connect())
    await half.send(
        b"POST /v1/tasks/run HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    )
    with trio.fail_after(PATIENCE_S):
        while "reading" not in {one["phase"] for one in await requests(served)}:  # noqa: ASYNC110 - another process, no event
            await trio.sleep(0.02)


async def requests(served: Served) -> list[dict[str, object]]:
    """What is in progress."""
    found: list[dict[str, object]] = (await served.get("/v1/requests")).json["data"]
    return found


def said(ended: Ended, word: str) -> list[str]:
    """The lines with a word, without their time and level."""
    return [re.split(r"INFO +|WARNING +", line)[-1] for line in ended.said if word in line]


@pytest.mark.contract("beyond/g05_bounded_shutdown")
async def test_a_drain_says_what_it_waits_for_what_is_left_and_what_it_cut(tmp_path: Path) -> None:
    async with (
        serving(
            tmp_path, models(), drain_ms=800, cancel_ms=3000, program=(sys.executable, "-c", HASTY)
        ) as served,
        AsyncExitStack() as stack,
    ):
        await everything(served, stack)
        ended = await served.stopped()
    (began,) = said(ended, "in progress: ")
    kinds, _, rest = began.removeprefix("in progress: ").partition("; ")
    assert kinds == (
        "1 running, 1 queued, 1 streaming, 1 loading, 1 websocket, 1 reading, "
        "1 load that nobody waits for"
    )
    assert re.fullmatch(
        r"the oldest: POST /v1/tasks/run of running, request \w+, for \d+ s; "
        r"what waits in a queue is refused, the rest may take 0.8 s",
        rest,
    )
    again = said(ended, "still waiting for ")
    assert again
    assert all("1 running" in line and "1 websocket" in line for line in again)
    assert not any("queued" in line for line in again)
    (cancelled,) = said(ended, "cancelling ")
    assert "1 running" in cancelled
    (last,) = said(ended, "so the exit code is 3")
    assert last.startswith(f"{len(ended.cuts)} things were cut")
    assert ended.code == 3


async def test_a_drain_that_has_nothing_to_wait_for_says_so_in_few_words(tmp_path: Path) -> None:
    async with serving(tmp_path, [simulated()]) as served:
        ended = await served.stopped(signal.SIGINT)
    assert said(ended, "draining: ") == ["draining: SIGINT"]
    assert said(ended, "in progress: ") == ["in progress: nothing"]
    assert said(ended, "stopping: ") == ["stopping: all is drained"]
    assert not said(ended, "cancelling ") + said(ended, "exit code")
    assert ended.code == 0
