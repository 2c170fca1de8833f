"""A client in the same event loop: it speaks ASGI, reads answers, and can hang up at any moment."""

import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from paraudio.http import Api


class Reply:
    """One answer, as far as it has come."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = False

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> dict[str, Any]:
        """The error of an error answer, with its shape checked."""
        body = self.json()
        assert set(body) == {"error"}
        error: dict[str, Any] = body["error"]
        assert set(error) == {"message", "type", "code", "param"}
        return error

    def events(self) -> list[Any]:
        """The events of a stream; the end mark as the word that it is, and comments not at all."""
        assert self.headers["content-type"].startswith("text/event-stream")
        *parts, rest = self.body.decode().split("\n\n")
        assert rest == ""
        parts = [part for part in parts if part != ": keep-alive"]
        assert all(part.startswith("data: ") and "\n" not in part for part in parts)
        words = [part.removeprefix("data: ") for part in parts]
        return [word if word == "[DONE]" else json.loads(word) for word in words]


class Call:
    """One request on its way."""

    def __init__(
        self,
        app: Api,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        chunk: int = 65536,
    ) -> None:
        target, _, query = path.partition("?")
        self.reply = Reply()
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.error: BaseException | None = None
        self.taken = math.inf
        """How many bytes of the answer the client is ready to take."""
        self.refuse_start = False
        """Whether the connection breaks before the head of the answer is sent."""
        self._open_pieces = math.inf
        self._app = app
        self._pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)] or [b""]
        self._changed = trio.Event()
        given = {"host": "test", **(headers or {})}
        if body and "transfer-encoding" not in given:
            given.setdefault("content-length", str(len(body)))
        self._scope: Any = {
            "type": "http",
            "asgi": {"spec_version": "2.3", "version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(n.lower().encode(), v.encode("latin-1")) for n, v in given.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8080),
            "state": {},
            "extensions": {},
        }

    async def run(self) -> None:
        """Serve it, as the transport would: leaving cancels."""
        try:
            with self.scope:
                await self._app(self._scope, self._receive, self._send)
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception | ExceptionGroup):
                raise
        finally:
            self.ended.set()
            self._announce()

    @property
    def unread(self) -> int:
        """How many pieces of the body nobody asked for."""
        return len(self._pieces)

    def stall_after(self, pieces: int) -> None:
        """Send so many pieces of the body and then no more."""
        self._open_pieces = pieces

    def hang_up(self) -> None:
        self.scope.cancel()

    async def wait_bytes(self, count: int = 1) -> None:
        """Wait until so much of the body has come."""
        while len(self.reply.body) < count and not self.ended.is_set():
            await self._changed.wait()

    def take(self, count: float = math.inf) -> None:
        """Be ready for so many bytes in all."""
        self.taken = count
        self._announce()

    async def _receive(self) -> Any:
        await trio.lowlevel.checkpoint()
        if not self._pieces or not self._open_pieces:
            await trio.sleep_forever()
        self._open_pieces -= 1
        body = self._pieces.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self._pieces)}

    async def _send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        if self.refuse_start:
            self.hang_up()
            await trio.lowlevel.checkpoint()
            return
        if message["type"] == "http.response.start":
            assert not self.reply.status
            self.reply.status = message["status"]
            for name, value in message["headers"]:
                self.reply.headers[name.decode().lower()] = value.decode("latin-1")
        else:
            assert not self.reply.complete
            while message["body"] and len(self.reply.body) >= self.taken:
                await self._changed.wait()
            self.reply.body += message["body"]
            self.reply.complete = not message.get("more_body", False)
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class Client:
    """Makes calls to one application."""

    def __init__(self, app: Api, nursery: trio.Nursery) -> None:
        self.app = app
        self._nursery = nursery

    def start(
        self,
        method: str,
        path: str,
        data: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        chunk: int = 65536,
    ) -> Call:
        """Start a call; bytes are sent as they are, anything else as JSON."""
        given = dict(headers or {})
        if data is None:
            body = b""
        elif isinstance(data, bytes):
            body = data
        else:
            body = json.dumps(data).encode()
            given.setdefault("content-type", "application/json")
        call = Call(self.app, method, path, body, given, chunk=chunk)
        self.open(call)
        return call

    def open(self, call: Call) -> None:
        """Let a call run."""
        self._nursery.start_soon(call.run)

    async def call(
        self,
        method: str,
        path: str,
        data: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        chunk: int = 65536,
    ) -> Reply:
        """Make a call and wait for all of its answer."""
        call = self.start(method, path, data, headers, chunk=chunk)
        await call.ended.wait()
        if call.error is not None:
            raise call.error
        assert call.reply.complete
        return call.reply

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return await self.call("GET", path, None, headers)

    async def post(
        self, path: str, data: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        return await self.call("POST", path, data, headers)


@asynccontextmanager
async def open_client(app: Api) -> AsyncIterator[Client]:
    """A client whose calls end with the block."""
    async with trio.open_nursery() as nursery:
        yield Client(app, nursery)
        nursery.cancel_scope.cancel()


def form(
    *parts: tuple[str, str | None, bytes],
    boundary: str = "x-boundary",
    quoted: bool = False,
    content_type: str | None = None,
) -> tuple[bytes, dict[str, str]]:
    """A form and its headers; parts are name, file name or None, content."""
    body = b""
    for name, filename, content in parts:
        head = f'form-data; name="{name}"'
        if filename is not None:
            head += f'; filename="{filename}"'
        body += f"--{boundary}\r\nContent-Disposition: {head}\r\n".encode()
        if content_type is not None and filename is not None:
            body += f"Content-Type: {content_type}\r\n".encode()
        body += b"\r\n" + content + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    mark = f'"{boundary}"' if quoted else boundary
    return body, {"content-type": f"multipart/form-data; boundary={mark}"}
