"""What quart does differently on this transport: it pulls bodies, and cancels nothing itself.

Quart's connection classes run a task that moves messages from the server into a buffer without a
bound, and end the request when that task sees a disconnect, which the server also announces after a
complete answer. Here the body is pulled by whoever reads it, which is the backpressure; and a
client that leaves is the transport's business: it cancels the application's scope.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Never, Self, TypeAlias, cast

import trio
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
)
from quart.utils import encode_headers
from quart.wrappers import Response
from quart.wrappers.response import DataBody, ResponseBody
from quart_trio.asgi import TrioASGIHTTPConnection, TrioASGIWebsocketConnection
from quart_trio.wrappers import TrioRequest, TrioWebsocket
from quart_trio.wrappers.request import TrioBody
from werkzeug.wrappers import Response as WerkzeugResponse

from paraudio.errors import PayloadTooLargeError


class ClientLeftError(Exception):
    """The body cannot be read any more: its client is gone.

    Only a reader that shields itself sees it; any other is cancelled first.
    """


class PullBody(TrioBody):
    """A request body that is received when it is read, and holds nothing in between.

    Iterate over it for its pieces, or await it for the whole. Either counts every byte.

    Args:
        expected_content_length: What the client declared, bytes, or None.
        max_content_length: The most bytes that may come in total, or None for no bound.
    """

    def __init__(self, expected_content_length: int | None, max_content_length: int | None) -> None:
        self._receive: ASGIReceiveCallable | None = None
        self._declared = expected_content_length
        self._limit = max_content_length
        self._total = 0
        self._done = False
        self._whole: bytes | None = None

    @property
    def total(self) -> int:
        """How many bytes have been read so far."""
        return self._total

    def attach(self, receive: ASGIReceiveCallable) -> None:
        """Say where the messages with the body come from."""
        self._receive = receive

    def limit(self, limit: int | None) -> None:
        """Replace the bound on the total, bytes; None for no bound."""
        self._limit = limit

    def check(self) -> None:
        """Refuse a body by its declared length, before a byte of it is read.

        Raises:
            PayloadTooLargeError: The client declared more than the bound.
        """
        if self._limit is not None and self._declared is not None and self._declared > self._limit:
            self._refuse(f"the body has {self._declared} bytes")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Receive the next piece, of one byte or more; cancelled, nothing of the body is lost.

        Raises:
            PayloadTooLargeError: The bound is passed; also at each further try.
            ClientLeftError: The client is gone, and the caller shields itself from being told so.
        """
        self.check()
        while not self._done:
            piece = await self._next_piece()
            self._total += len(piece)
            if self._limit is not None and self._total > self._limit:
                break
            if piece:
                return piece
        if self._limit is not None and self._total > self._limit:
            self._refuse("the body is larger")
        raise StopAsyncIteration

    def __await__(self) -> Generator[Any, None, bytes]:
        return self._read_all().__await__()

    def append(self, data: bytes) -> None:
        """Quart's way to push data, which a body that is pulled does not have."""
        raise NotImplementedError

    def set_complete(self) -> None:
        """Say that nothing more comes."""
        self._done = True

    def set_result(self, data: bytes) -> None:
        """Give the whole body at once, for requests that no client sent."""
        self._whole, self._done = data, True

    def clear(self) -> None:
        """Forget the whole body that was read by awaiting."""
        if self._whole is not None:
            self._whole = b""

    async def _next_piece(self) -> bytes:
        if self._receive is None:
            raise RuntimeError("this body is attached to no connection")
        message = await self._receive()
        if message["type"] != "http.request":
            # The scope of the request is being cancelled; a shielded reader gets the exception.
            await trio.lowlevel.checkpoint()
            raise ClientLeftError
        self._done = not message.get("more_body", False)
        return message.get("body", b"")

    async def _read_all(self) -> bytes:
        if self._whole is None:
            self._whole = b"".join([piece async for piece in self])
        return self._whole

    def _refuse(self, what: str) -> Never:
        raise PayloadTooLargeError(f"{what}; this route takes at most {self._limit} bytes")


class PullRequest(TrioRequest):
    """A request with a `PullBody`; set it as the application's ``request_class``."""

    body_class = PullBody


Writer: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends one piece of a body, and returns when the socket has taken it."""


class WrittenBody(ResponseBody):
    """A response body that is written by a coroutine, in the task of the request.

    A generator that holds a scope or a nursery across a ``yield`` is cut off in silence when that
    is cancelled. Here nothing yields: ``write_to`` may open what it likes around its calls.
    Whatever it raises ends the connection so that the client sees a broken body, never a short
    one.

    Args:
        write_to: Writes the body piece by piece with the writer that it is given.
    """

    def __init__(self, write_to: Callable[[Writer], Awaitable[None]]) -> None:
        self.write_to = write_to

    async def __aenter__(self) -> AsyncIterator[bytes]:
        raise RuntimeError("only paraudio.transport.HttpConnection sends a WrittenBody")

    async def __aexit__(self, *exc_info: object) -> None:
        """Nothing was entered."""


class HttpConnection(TrioASGIHTTPConnection):
    """One HTTP request in quart; set it as the application's ``asgi_http_class``.

    The task that calls it is the only one. A client that leaves cancels that task, until the last
    message of the answer is on its way. Neither ``RESPONSE_TIMEOUT`` nor ``Response.timeout``
    apply: who wants a deadline sets one.
    """

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one request."""
        request = self._create_request_from_scope(send)
        if isinstance(request.body, PullBody):
            request.body.attach(receive)
        await self.serve(cast("TrioRequest", request), send)

    async def serve(self, request: TrioRequest, send: ASGISendCallable) -> None:
        """Answer a request; override it to put a scope around the handler and its answer."""
        response = await self.app.handle_request(request)
        await send_response(send, response)


async def send_response(send: ASGISendCallable, response: Response | WerkzeugResponse) -> None:
    """Send a response of quart: in two messages if its bytes are all there, else piece by piece."""
    start: HTTPResponseStartEvent = {
        "type": "http.response.start",
        "status": response.status_code,
        "headers": encode_headers(response.headers),
    }
    await send(start)
    body = response.response
    if isinstance(body, DataBody):
        await send(_part(body.data[body.begin : body.end], more=False))
        return
    if isinstance(body, WrittenBody):

        async def write(data: bytes) -> None:
            await send(_part(data, more=True))

        await body.write_to(write)
    elif isinstance(body, ResponseBody):
        async with body as pieces:
            async for piece in pieces:
                await send(_part(_as_bytes(piece), more=True))
    else:
        for piece in body:
            await send(_part(_as_bytes(piece), more=True))
    await send(_part(b"", more=False))


class WebsocketConnection(TrioASGIWebsocketConnection):
    """One websocket in quart; set it as the application's ``asgi_websocket_class``.

    Its handler receives straight from the transport, so that a client is read as fast as the
    handler reads and a busy handler is cancelled when its client leaves.
    """

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one websocket."""
        messages = Messages(receive)
        self.receive_channel = cast("trio.MemoryReceiveChannel[bytes | str]", messages)
        websocket = cast("TrioWebsocket", self._create_websocket_from_scope(send))
        await self.serve(websocket, messages, send)

    async def serve(
        self, websocket: TrioWebsocket, messages: "Messages", send: ASGISendCallable
    ) -> None:
        """Serve a websocket; override it to put a scope around the handler.

        Args:
            websocket: Its head, and quart's way to use it.
            messages: What its client sends.
            send: Takes messages of ASGI.
        """
        del messages
        await super(TrioASGIWebsocketConnection, self).handle_websocket(websocket, send)


class Messages:
    """The messages of a websocket's client; quart takes it for a channel."""

    def __init__(self, receive: ASGIReceiveCallable) -> None:
        self._receive = receive

    async def receive(self) -> bytes | str:
        """Wait for the next message; cancelled, nothing is lost.

        Raises:
            ClientLeftError: The client is gone, and the caller shields itself from being told so.
        """
        while True:
            message = await self._receive()
            if message["type"] == "websocket.receive":
                data = message.get("bytes")
                return data if data is not None else message.get("text") or ""
            if message["type"] == "websocket.disconnect":
                await trio.lowlevel.checkpoint()
                raise ClientLeftError


def _part(data: bytes, *, more: bool) -> ASGISendEvent:
    part: HTTPResponseBodyEvent = {"type": "http.response.body", "body": data, "more_body": more}
    return part


def _as_bytes(piece: bytes | str) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece
