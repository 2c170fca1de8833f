"""A client that sends the body of a live request bit by bit, and reads the answer meanwhile."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import trio
from tests.http.client import Call
from tests.http.conftest import World

LISTEN = "/v1/audio/transcriptions/live"
SPEAK = "/v1/audio/speech/live"
RATE = 16_000


def pcm(seconds: float = 1.0, level: float = 0.5, rate: int = RATE) -> bytes:
    """Mono sound of 16 bits that is as loud as that all along."""
    return np.full(int(seconds * rate), level * 32767, "<i2").tobytes()


class LiveCall(Call):
    """A live request on its way."""

    def __init__(self, world: World, path: str, headers: Mapping[str, str]) -> None:
        super().__init__(world.client.app, "POST", path, b"", headers)
        self._say, self._said = trio.open_memory_channel[bytes](math.inf)
        self._told = 0

    def say(self, data: bytes) -> None:
        """Send a piece."""
        self._say.send_nowait(data)

    def end(self) -> None:
        """Send the end of the body."""
        self._say.close()

    @property
    def unread(self) -> int:
        """How many pieces of the body nobody asked for."""
        return self._said.statistics().current_buffer_used

    async def head(self) -> None:
        """Wait until the answer has begun."""
        while not self.reply.status and not self.ended.is_set():
            await self._changed.wait()

    async def event(self) -> Any:
        """Wait for the next event; the end mark is the word that it is, and a comment is none."""
        part = b": keep-alive"
        while part == b": keep-alive":
            while self.reply.body.count(b"\n\n") <= self._told:
                assert not self.ended.is_set(), self.reply.body
                await self._changed.wait()
            part = self.reply.body.split(b"\n\n")[self._told]
            self._told += 1
        word = part.removeprefix(b"data: ").decode()
        return word if word == "[DONE]" else json.loads(word)

    async def _receive(self) -> Any:
        try:
            data = await self._said.receive()
        except trio.EndOfChannel:
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": data, "more_body": True}


def start(
    world: World,
    path: str = LISTEN,
    *,
    headers: Mapping[str, str] = {},
    model: str | None = None,
    **query: Any,
) -> LiveCall:
    """Begin a live request; nothing of its body is sent yet."""
    known = "ears" if path == LISTEN else "voice"
    pairs = {"model": known if model is None else model, **query}
    text = "&".join(f"{name}={value}" for name, value in pairs.items())
    call = LiveCall(world, f"{path}?{text}", headers)
    world.client.open(call)
    return call


async def whole(world: World, *pieces: bytes, path: str = LISTEN, **query: Any) -> list[Any]:
    """Send a whole body in so many pieces, and give the events of the answer."""
    call = start(world, path, **query)
    for piece in pieces:
        call.say(piece)
    call.end()
    await call.ended.wait()
    assert call.error is None, call.error
    assert call.reply.status == 200, call.reply.body
    return call.reply.events()


def kinds(events: list[Any]) -> list[str]:
    """The types of events, and the end mark."""
    return [event if event == "[DONE]" else event["type"] for event in events]


async def failed(world: World, call: Any) -> dict[str, Any]:
    """The error event that a stream ended with, which was its last."""
    await call.ended.wait()
    assert call.error is None
    assert call.reply.complete
    assert b"[DONE]" not in call.reply.body
    assert b"done" not in call.reply.body
    last: dict[str, Any] = call.reply.events()[-1]
    assert last["type"] == "error"
    assert world.idle()
    error: dict[str, Any] = last["error"]
    assert set(error) == {"message", "type", "code", "param"}
    return error


async def refused(world: World, path: str = LISTEN, **query: Any) -> tuple[int, str | None]:
    """Ask for what is refused before anything is read."""
    call = start(world, path, **query)
    call.say(b"x")
    await call.ended.wait()
    error = call.reply.error()
    assert call.unread == 1
    assert world.idle()
    param: str | None = error["param"]
    return call.reply.status, param
