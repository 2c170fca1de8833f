"""Clients of a real server: ordinary ones, and those that stall, leave and never read."""

import json
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import h11
import trio

READ: Final = 65_536


@dataclass
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(self.json["error"]["code"])

    @property
    def events(self) -> list[Any]:
        """The server-sent events, the end mark as a word."""
        lines = [line for line in self.body.decode().split("\n\n") if line]
        return [word if (word := line[6:]) == "[DONE]" else json.loads(word) for line in lines]


class Client:
    """One connection to the server, over which one request is made at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._machine = h11.Connection(h11.CLIENT)
        self._answer = Answer(0, {}, b"")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    async def ask(self, path: str, body: object = None, **headers: str) -> None:
        """Send a whole request: POST with a JSON body, GET without one."""
        if self._machine.our_state is h11.DONE:
            self._machine.start_next_cycle()
        data = b"" if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        fields = [("Host", "test"), *((k.replace("_", "-"), v) for k, v in headers.items())]
        if body is not None:
            fields += [("Content-Type", "application/json"), ("Content-Length", str(len(data)))]
        request = self._machine.send(h11.Request(method=method, target=path, headers=fields))
        sent = self._machine.send(h11.Data(data=data)) if data else b""
        end = self._machine.send(h11.EndOfMessage())
        await self.stream.send_all((request or b"") + (sent or b"") + (end or b""))

    async def answer(self) -> Answer:
        """Wait for the whole answer, what `piece` has read of it included.

        Raises:
            EOFError: The connection ended before it.
        """
        while not isinstance(await self._event(), h11.EndOfMessage):
            pass
        answer, self._answer = self._answer, Answer(0, {}, b"")
        return answer

    async def piece(self) -> bytes:
        """Wait for the next piece of a body."""
        while not isinstance(event := await self._event(), h11.Data):
            assert not isinstance(event, h11.EndOfMessage), "the answer has ended"
        return bytes(event.data)

    async def cut_off(self) -> bool:
        """Read to the end; whether that came before the answer was whole."""
        try:
            await self.answer()
        except EOFError:
            return True
        return False

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def rest(self) -> bytes:
        """Everything that still comes; what came before a reset counts."""
        data = b""
        try:
            while piece := await self.stream.receive_some(READ):
                data += piece
        except trio.BrokenResourceError:
            pass
        return data

    def leave(self) -> None:
        """Close the connection in order."""
        self.stream.socket.close()

    def reset(self) -> None:
        """Close the connection with a reset."""
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()

    async def _event(self) -> Any:
        """Wait for the next event, and note what it tells of the answer."""
        event = await self._next()
        if isinstance(event, h11.Response):
            self._answer.status = event.status_code
            self._answer.headers = {key.decode(): value.decode() for key, value in event.headers}
        elif isinstance(event, h11.Data):
            self._answer.body += event.data
        return event

    async def _next(self) -> Any:
        while True:
            try:
                event = self._machine.next_event()
            except h11.RemoteProtocolError as error:
                raise EOFError from error
            if event is h11.NEED_DATA:
                try:
                    self._machine.receive_data(await self.stream.receive_some(READ))
                except trio.BrokenResourceError as error:
                    raise EOFError from error
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError
            else:
                return event


async def connected(url: str, *, receive_buffer: int | None = None) -> Client:
    """Connect to ``http://HOST:PORT`` or ``unix:PATH``."""
    if url.startswith("unix:"):
        return Client(await trio.open_unix_socket(url.removeprefix("unix:")))
    host, _, port = url.partition("://")[2].rpartition(":")
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    try:
        await sock.connect((host, int(port)))
    except OSError:
        sock.close()
        raise
    return Client(trio.SocketStream(sock))


class bodies:  # noqa: N801 - a namespace
    """Request bodies."""

    @staticmethod
    def run(name: str = "sim", **options: object) -> dict[str, object]:
        return {"model": name, "request": {"text": "hello", "options": options}}

    @staticmethod
    def stream(name: str = "sim", **options: object) -> dict[str, object]:
        spoken = {"model": name, "input": "hello", "stream_format": "sse"}
        return {**spoken, "options": options}
