"""Realtime sessions in virtual time: a world with ears and a detector, and clients of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from tests.http.conftest import EARS, OpenWorld, World
from tests.http.realtimekit import RATE, Socket, connect
from trio.testing import wait_all_tasks_blocked

from paraudio.journal import Kind
from paraudio.spec import ModelSpec

VAD = ModelSpec(id="vad", family="simulated", path="/models/vad", task="vad")
MANUAL: Any = {
    "type": "transcription",
    "audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None}},
}
"""The session of a client that commits by itself."""

Connect = Callable[..., Awaitable[Socket]]


@asynccontextmanager
async def session(
    open_world: OpenWorld, *models: ModelSpec, **more: Any
) -> AsyncIterator[tuple[World, Connect]]:
    """A world, and a way to connect to it; at the end nothing may be left of anybody."""
    async with open_world(*(models or (EARS, VAD)), **more) as world:
        with trio.fail_after(36_000):
            async with trio.open_nursery() as nursery:
                yield world, partial(connect, world.client.app, nursery)
                nursery.cancel_scope.cancel()
            await world.wait_until(world.idle)


@asynccontextmanager
async def talking(
    open_world: OpenWorld,
    *models: ModelSpec,
    path: str = "/v1/realtime?model=ears",
    manual: bool = False,
    **more: Any,
) -> AsyncIterator[tuple[World, Socket]]:
    """A world, and one client that has connected; ``manual``: it says that it commits by itself."""
    async with session(open_world, *models, **more) as (world, open_socket):
        socket = await open_socket(path)
        if manual:
            socket.say("session.update", session=MANUAL)
        yield world, socket


async def finished(socket: Socket) -> tuple[int, str]:
    """Wait for the close."""
    await socket.ended.wait()
    assert socket.closed is not None
    return socket.closed


async def reach(world: World, stage: str) -> None:
    """Wait until what a client said is detected, queued, loaded for, or written down."""
    waits = {
        "detecting": lambda: world.model("vad").active_slots == 1,
        "queued": lambda: world.model("ears").queued_requests == 1,
        "loading": lambda: world.model("ears").state == "loading",
        "running": lambda: bool([e for e in world.kinds(Kind.RUN_STARTED) if e.model == "ears"]),
    }
    if stage in waits:
        await world.wait_until(waits[stage])
    await wait_all_tasks_blocked()
