"""A websocket client in the same event loop: it speaks ASGI, and can leave at any moment."""

import base64
import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import trio
import wsproto
from wsproto.events import CloseConnection, Request, TextMessage

from paraudio.http import Api

RATE = 24_000

Event = dict[str, Any]


class Socket:
    """One websocket on its way."""

    def __init__(
        self,
        app: Api,
        path: str,
        headers: Mapping[str, str] | None = None,
        protocols: tuple[str, ...] = (),
    ) -> None:
        target, _, query = path.partition("?")
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.accepted: Any = None
        self.status = 0
        """The status of an answer in place of a websocket."""
        self.answer = b""
        self.closed: tuple[int, str] | None = None
        self.events: list[Event] = []
        """Everything that came, in order."""
        self.slow = False
        """Whether the client takes nothing."""
        self._app = app
        self._out, self._in = trio.open_memory_channel[Any](10_000)
        self._changed = trio.Event()
        self._out.send_nowait({"type": "websocket.connect"})
        given = {"host": "test", **(headers or {})}
        if protocols:
            given["sec-websocket-protocol"] = ", ".join(protocols)
        self._scope: Any = {
            "type": "websocket",
            "asgi": {"spec_version": "2.3", "version": "3.0"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(n.lower().encode(), v.encode("latin-1")) for n, v in given.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8080),
            "subprotocols": list(protocols),
            "state": {},
            "extensions": {"websocket.http.response": {}},
        }

    async def run(self) -> None:
        """Serve it, as the transport would: leaving cancels."""
        try:
            with self.scope:
                await self._app(self._scope, self._receive, self._send)
        finally:
            self.ended.set()
            self._announce()

    # What the client does.

    def leave(self) -> None:
        """Be gone."""
        self.scope.cancel()

    def say(self, kind: str, **fields: Any) -> None:
        """Send an event."""
        self.put(json.dumps({"type": kind, **fields}))

    def put(self, message: str | bytes) -> None:
        """Send a message."""
        text = message if isinstance(message, str) else None
        data = message if isinstance(message, bytes) else None
        self._out.send_nowait({"type": "websocket.receive", "text": text, "bytes": data})

    def sound(self, seconds: float, *, loud: bool = True, piece: float = 0.1) -> None:
        """Send sound, in pieces: loud is speech for the simulated detector."""
        frames = np.full(round(seconds * RATE), 8000 if loud else 0, dtype="<i2")
        step = round(piece * RATE)
        for at in range(0, len(frames), step):
            data = base64.b64encode(frames[at : at + step].tobytes()).decode()
            self.say("input_audio_buffer.append", audio=data)

    def sentence(self, seconds: float, pause: float = 1) -> None:
        """Send speech and the pause behind it."""
        self.sound(seconds)
        self.sound(pause, loud=False)

    async def speak(self, seconds: float, *, loud: bool = True) -> None:
        """Send sound as a microphone does, while it is captured."""
        for _ in range(round(seconds / 0.1)):
            self.sound(0.1, loud=loud)
            await trio.sleep(0.1)

    @property
    def unread(self) -> int:
        """How many messages nobody took."""
        return self._in.statistics().current_buffer_used

    # What it sees.

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something that came makes a condition true."""
        while not true():
            assert not self.ended.is_set(), self.events[-3:]
            await self._changed.wait()

    async def saw(self, kind: str, count: int = 1) -> Event:
        """Wait for the event of a kind, and return the last one."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[-1]

    def of(self, *kinds: str) -> list[Event]:
        """The events whose kind ends in one of these."""
        return [one for one in self.events if one["type"].endswith(kinds)]

    def kinds(self) -> list[str]:
        """The kinds of everything that came, without what all have in common."""
        return [
            one["type"]
            .removeprefix("input_audio_buffer.")
            .removeprefix("conversation.item.input_audio_transcription.")
            for one in self.events
        ]

    def error(self) -> Event:
        """The error of an answer in place of a websocket."""
        error: Event = json.loads(self.answer)["error"]
        return error

    async def _receive(self) -> Any:
        return await self._in.receive()

    async def _send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        while self.slow:
            await self._changed.wait()
        kind = message["type"]
        if kind == "websocket.accept":
            self.accepted = message
        elif kind == "websocket.send":
            assert self.accepted is not None
            assert self.closed is None
            self.events.append(json.loads(message["text"]))
        elif kind == "websocket.close":
            self.closed = (message["code"], message["reason"])
        elif kind == "websocket.http.response.start":
            self.status = message["status"]
        else:
            self.answer += message["body"]
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def connect(
    app: Api,
    nursery: trio.Nursery,
    path: str = "/v1/realtime?model=ears",
    headers: Mapping[str, str] | None = None,
    protocols: tuple[str, ...] = (),
) -> Socket:
    """Open a websocket, and wait until it is open or refused."""
    socket = Socket(app, path, headers, protocols)
    nursery.start_soon(socket.run)
    while not (socket.accepted or socket.ended.is_set()):
        await socket._changed.wait()
    return socket


class Wire:
    """A websocket over a real socket, by hand."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.machine = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._events: list[wsproto.events.Event] = []
        self._text = ""

    async def send(self, event: wsproto.events.Event) -> None:
        await self.stream.send_all(self.machine.send(event))

    async def say(self, kind: str, **fields: Any) -> None:
        await self.send(TextMessage(data=json.dumps({"type": kind, **fields})))

    async def sound(self, seconds: float) -> None:
        frames = np.full(round(seconds * RATE), 8000, dtype="<i2").tobytes()
        await self.say("input_audio_buffer.append", audio=base64.b64encode(frames).decode())

    async def next(self) -> wsproto.events.Event:
        """Wait for what comes next; `trio.EndOfChannel` when the server has closed the socket."""
        while not self._events:
            data = await self.stream.receive_some(65536)
            if not data:
                raise trio.EndOfChannel
            self.machine.receive_data(bytes(data))
            self._events += self.machine.events()
        return self._events.pop(0)

    async def saw(self, kind: str) -> Event:
        """Wait for the event of a kind."""
        while True:
            one = await self.next()
            assert isinstance(one, TextMessage), one
            self._text += one.data
            if one.message_finished:
                event: Event = json.loads(self._text)
                self._text = ""
                if event["type"].endswith(kind):
                    return event

    async def closed(self) -> CloseConnection:
        """Wait for the server's close."""
        while not isinstance(one := await self.next(), CloseConnection):
            pass
        return one

    def leave(self, how: str) -> None:
        """Be gone, in one of the ways in which clients go."""
        linger = struct.pack("ii", 1, 0)
        if how == "rst":
            self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.stream.socket.close()


async def dial(port: int, target: str, **headers: str) -> Wire:
    """Open a websocket over a real socket."""
    wire = Wire(await trio.open_tcp_stream("127.0.0.1", port))
    extra = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await wire.send(Request(host=f"127.0.0.1:{port}", target=target, extra_headers=extra))
    return wire
