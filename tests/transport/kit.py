"""What the tests of the transport share: a served application, and clients of every kind."""

import os
import select
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import h11
import trio
import trio.testing

from paraudio.transport import ASGIApp, Limits, Server, open_tcp

Message: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Handler: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

CUSHION = 0.03
"""How long nothing may happen, in real seconds, until the loopback counts as quiet."""


def routes(**handlers: Handler) -> ASGIApp:
    """An application that picks a handler by the first part of the path."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await handlers[scope["path"].strip("/").partition("/")[0] or "root"](scope, receive, send)

    return app


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    """Answer with the path."""
    await answer(send, scope["path"].encode())


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    """Answer with the body."""
    await answer(send, await body_of(receive))


async def answer(
    send: Send,
    body: bytes = b"",
    *,
    status: int = 200,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Send a whole answer of known length."""
    await begin(send, [(b"content-length", b"%d" % len(body)), *headers], status=status)
    await end(send, body)


async def begin(
    send: Send, headers: Iterable[tuple[bytes, bytes]] = (), *, status: int = 200
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def more(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def end(send: Send, body: bytes = b"") -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def body_of(receive: Receive) -> bytes:
    data = bytearray()
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        data += message["body"]
        if not message["more_body"]:
            return bytes(data)


class Scope:
    """A handler's life: when it began and ended, and whether it was cancelled."""

    def __init__(self) -> None:
        self.began = trio.Event()
        self.ended = trio.Event()
        self.cancelled = False
        self.ended_at = 0.0

    def __enter__(self) -> None:
        self.began.set()

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if isinstance(error, BaseExceptionGroup):
            self.cancelled = error.split(trio.Cancelled)[1] is None
        else:
            self.cancelled = isinstance(error, trio.Cancelled)
        self.ended_at = trio.current_time()
        self.ended.set()

    async def hang(self, *_: object) -> None:
        """A handler that runs until it is cancelled."""
        with self:
            await trio.sleep_forever()


@dataclass
class Answer:
    """What a client got: ``complete`` says whether the protocol called it whole."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


class Client:
    """A client that sends what it is told to, byte by byte if need be."""

    def __init__(self, stream: trio.abc.Stream, raw: trio.SocketStream) -> None:
        self.stream = stream
        self.socket = raw.socket
        self._waiting = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(
        self, target: str = "/", *, method: str = "GET", body: bytes | None = None, extra: str = ""
    ) -> Answer:
        """Send a request and read its answer."""
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {target} HTTP/1.1\r\nHost: test\r\n{length}{extra}\r\n"
        await self.send(head.encode("latin1") + (body or b""))
        return await self.answer(method)

    async def answer(self, method: str = "GET") -> Answer:
        """Read the next answer, informational ones aside; a broken one is not ``complete``."""
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method=method, target="/", headers=[("Host", "test")]))
        if method != "POST":
            parser.send(h11.EndOfMessage())
        got = Answer()
        if self._waiting:
            parser.receive_data(self._waiting)
        while True:
            try:
                event = parser.next_event()
            except h11.RemoteProtocolError:
                return got
            if event is h11.NEED_DATA:
                try:
                    parser.receive_data(bytes(await self.stream.receive_some(65536)))
                except trio.BrokenResourceError:
                    return got
            elif isinstance(event, h11.Response):
                got.status, got.headers = event.status_code, dict(event.headers)
            elif isinstance(event, h11.Data):
                got.pieces.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                got.complete = True
                self._waiting = parser.trailing_data[0]
                return got
            elif isinstance(event, h11.ConnectionClosed):
                return got

    async def until(self, marker: bytes) -> bytes:
        """Read up to and with a marker."""
        while marker not in self._waiting:
            data = await self.stream.receive_some(65536)
            assert data, f"the server closed after {self._waiting!r}"
            self._waiting += data
        head, _, self._waiting = self._waiting.partition(marker)
        return head + marker

    async def rest(self) -> bytes:
        """Read until the server closes in order; a reset is an error."""
        data, self._waiting = self._waiting, b""
        while more := await self.stream.receive_some(65536):
            data += more
        return data

    async def ended(self) -> None:
        """Wait until the server has ended the connection, in order or with a reset."""
        try:
            while await self.stream.receive_some(65536):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def was_reset(self) -> bool:
        """Wait until the server has ended the connection, and tell whether with a reset."""
        try:
            while await self.stream.receive_some(65536):
                pass
        except trio.BrokenResourceError:
            return True
        return False

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@dataclass
class Served:
    """A running server, and how to reach it."""

    server: Server
    nursery: trio.Nursery
    address: tuple[Any, ...] | str
    family: int
    errors: list[tuple[str, BaseException]] = field(default_factory=list)
    ended: trio.Event = field(default_factory=trio.Event)
    tls: ssl.SSLContext | None = None
    clients: list[Client] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.address[1])

    async def connect(
        self, *, buffers: int | None = None, plain: bool = False, alpn: Sequence[str] = ()
    ) -> Client:
        """Connect; ``buffers`` makes the client's socket buffers small, in bytes."""
        raw = trio.socket.socket(self.family, socket.SOCK_STREAM)
        if buffers is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
        try:
            await raw.connect(self.address)
        except BaseException:
            raw.close()
            raise
        stream = trio.SocketStream(raw)
        if self.tls is None or plain:
            client = Client(stream, stream)
        else:
            if alpn:
                self.tls.set_alpn_protocols(list(alpn))
            wrapped = trio.SSLStream(stream, self.tls, server_hostname="localhost")
            await wrapped.do_handshake()
            client = Client(wrapped, stream)
        self.clients.append(client)
        return client

    def errors_of(self, *kinds: type[BaseException]) -> list[str]:
        """Take what was reported, after checking that it is nothing else than these kinds."""
        taken, self.errors = self.errors, []
        assert all(isinstance(error, kinds) for _, error in taken), taken
        return [what for what, _ in taken]


def descriptors() -> set[str]:
    """The open descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths


async def settle() -> None:
    """Wait until nothing more happens by itself: every task waits, and the loopback is empty."""
    await trio.testing.wait_all_tasks_blocked(CUSHION)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is true that other tasks make true."""
    while not condition():
        await settle()


async def pass_time(clock: trio.testing.MockClock, seconds: float) -> None:
    """Let virtual time pass, and everything happen that is due."""
    await settle()
    clock.jump(seconds)
    await settle()


async def until_gone(served: Served) -> None:
    """Wait until the system knows that the only client has closed its side; we need not know."""
    (connection,) = served.server._population
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    await until(lambda: bool(poll.poll(0)))


@asynccontextmanager
async def serving(
    app: ASGIApp,
    *,
    limits: Limits | None = None,
    listeners: Sequence[trio.SocketListener] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    client_tls: ssl.SSLContext | None = None,
    seconds: float = 20,
) -> AsyncIterator[Served]:
    """Serve an application; afterwards nothing of it is left, and nothing was reported."""
    before = descriptors()
    opened = listeners or await open_tcp("127.0.0.1", 0)
    address, family = opened[0].socket.getsockname(), opened[0].socket.family
    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            errors: list[tuple[str, BaseException]] = []
            server = Server(app, limits, on_error=lambda *error: served.errors.append(error))
            served = Served(server, nursery, address, family, errors, tls=client_tls)

            async def serve(*, task_status: trio.TaskStatus[None]) -> None:
                await server.serve(opened, ssl_context=ssl_context, task_status=task_status)
                served.ended.set()

            await nursery.start(serve)
            try:
                yield served
            finally:
                for client in served.clients:
                    client.close()
                server.stop()
            await served.ended.wait()
    assert server.connections().total == 0
    assert server.connections().requests == 0
    assert served.errors == []
    leaked = descriptors() - before
    # Listeners that a test opened itself were there before.
    assert not leaked, leaked
