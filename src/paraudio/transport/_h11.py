"""HTTP/1.1 and websockets: hypercorn's protocol class where it is right, and ours where it is not.

Different from hypercorn's: ``100 Continue`` waits until the application asks for the body; head and
body of an answer of known length leave in one write, so an application that fails in between still
gives a 500; an answer that was cut short never looks complete; a drained server says
``Connection: close``; requests that cannot be served are refused here.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, cast

import h11
import trio
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import (
    Body,
    Data,
    EndBody,
    Request,
    Response,
    StreamClosed,
)
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H2ProtocolAssumedError, H11Protocol, H11WSConnection
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.typing import H11SendableEvent

from paraudio.errors import BadHttpError, ParaudioError
from paraudio.transport._asgi import Cut
from paraudio.transport._call import AppCall
from paraudio.transport._http_stream import HttpRequest
from paraudio.transport._inbox import BodyInbox, MessageInbox
from paraudio.transport._limits import MAX_FIELDS, SEND_SIZE, TURN
from paraudio.transport._link import Link, handed
from paraudio.transport._refusals import (
    are_readable,
    failed,
    fault_of,
    fault_of_chunk,
    large_head,
    no_target,
    no_websocket,
    parser_fault,
    rendered,
    slow_head,
)
from paraudio.transport._websocket import Websocket

_CLOSE: Final = (b"connection", b"close")
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\n"
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_ORIGIN: Final = re.compile(rb"https?://[^/?#]*")
_BODY_COMES: Final = frozenset({h11.SEND_BODY, h11.ERROR})


class H11(H11Protocol):
    """One HTTP/1.1 connection."""

    def __init__(self, link: Link) -> None:
        super().__init__(*handed(link))
        self._link = link
        self._held: Response | None = None
        self._method = b""
        self._call: AppCall | None = None
        self._chunk_bytes: int | None = None
        self._chunked = self._refused = False

    def owed(self, _idle_s: float) -> bool:
        """Whether the client may be sending still, or has sent what was not parsed."""
        connection = self.connection
        if isinstance(connection, H11WSConnection):
            return True
        return connection.their_state in _BODY_COMES or bool(connection.trailing_data[0])

    @property
    def begun(self) -> bool:
        """Whether a part of the next request's head has come."""
        return bool(self.connection.trailing_data[0])

    def drain(self) -> None:
        """The next answer says ``Connection: close``; there is nobody to tell before."""

    async def stream_send(self, event: StreamEvent) -> None:
        """Send what a stream has for the client."""
        kind = type(event)
        if kind is Response:
            await self._start(cast("Response", event))
        elif kind is Body:
            await self._send_event(h11.Data(data=cast("Body", event).data))
        elif kind is EndBody:
            await self._send_event(h11.EndOfMessage())
        elif kind is StreamClosed and self._held is not None:
            # The application ended between the head and the body, and nothing has left yet.
            self._held = None
            await self._send_error(failed())
            await self._maybe_recycle()
        else:
            await super().stream_send(event)

    async def _start(self, response: Response) -> None:
        if response.status_code < 200:
            await super().stream_send(response)
        elif _has_length(response.headers):
            self._held = response
        else:
            await self._send_event(self._head(response, early=False))

    def _head(self, response: Response, *, early: bool) -> h11.Response:
        headers = [*response.headers, *self.config.response_headers("h11")]
        if self.context.terminated.is_set() or early:
            headers.append(_CLOSE)
        return h11.Response(headers=headers, status_code=response.status_code)

    async def _send_event(self, event: H11SendableEvent) -> None:
        """Send an event, together with the head that was held back for it."""
        data = b""
        if self._held is not None:
            # An answer that is complete before its question is ends the connection.
            early = self.connection.their_state in _BODY_COMES
            head = self._head(self._held, early=early)
            self._held = None  # not before the head has proved to be one
            data = self._serialized(head)
        body = self._serialized(event)
        if len(body) <= SEND_SIZE or not data:
            pieces = [data + body]
        else:
            # So much of it leaves with the head; for the whole all of it would be copied.
            pieces = [data + body[:SEND_SIZE], cast("bytes", memoryview(body)[SEND_SIZE:])]
        for piece in pieces:
            if piece:
                await self.send(RawData(data=piece))

    def _serialized(self, event: H11SendableEvent) -> bytes:
        try:
            return self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state is not h11.ERROR and not self._refused:
                raise
            return b""

    async def _handle_events(self) -> None:
        pieces = 0
        while True:
            fault = self._fault_of_head()
            if fault is not None:
                await self._refuse(fault)
                return
            try:
                event = self._next_event()
            except h11.RemoteProtocolError as error:
                await self._refuse(parser_fault(error))
                return
            except BadHttpError as error:
                await self._refuse(error)
                return
            kind = type(event)
            if kind is h11.Request:
                await self._begin(cast("h11.Request", event))
            elif event is h11.PAUSED:
                if not self.connection.trailing_data[0]:
                    return  # read on: only the client's leaving can come, or a request too soon
                await self.can_read.clear()
                await self.can_read.wait()
            elif self.stream is None or event is h11.NEED_DATA or kind is h11.ConnectionClosed:
                return
            elif kind is h11.Data:
                data = cast("h11.Data", event)
                self._measure(data)
                await self.stream.handle(Body(STREAM_ID, data=bytes(data.data)))
                pieces += 1
                if not pieces % TURN:
                    await trio.lowlevel.checkpoint()
            elif kind is h11.EndOfMessage:
                await self.stream.handle(EndBody(STREAM_ID))
            else:
                await self.stream.handle(cast("Data", event))

    def _next_event(self) -> h11.Event | Data | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What comes next; for the lines between chunks h11 is as forgiving as for a head.

        Raises:
            BadHttpError: Those lines can be taken for others than h11 takes them for.
        """
        connection = self.connection
        if not self._chunked or connection.their_state is not h11.SEND_BODY:
            return connection.next_event()
        before = connection.trailing_data[0]
        event = connection.next_event()
        framing = len(before) - len(connection.trailing_data[0])
        if isinstance(event, h11.Data):
            framing -= len(event.data)
        fault = fault_of_chunk(before[:framing], ends=isinstance(event, h11.EndOfMessage))
        if fault is not None:
            raise fault
        return event

    def _measure(self, data: h11.Data) -> None:
        """Note how large the chunk is that this is a part of, if it is a part of one."""
        if data.chunk_start:
            self._chunk_bytes = 0
        if self._chunk_bytes is not None and self._call is not None:
            self._chunk_bytes += len(data.data)
            self._call.largest_chunk = max(self._call.largest_chunk, self._chunk_bytes)

    def _fault_of_head(self) -> ParaudioError | None:
        """What is wrong with the head that is coming: seen before it costs its parsing."""
        connection = self.connection
        if isinstance(connection, H11WSConnection) or connection.their_state is not h11.IDLE:
            return None
        data = connection.trailing_data[0]
        found = _END_OF_HEAD.search(data)
        size = len(data) if found is None else found.end()
        # The request line and the empty line are no fields.
        too_many = data.count(b"\n", 0, size) > MAX_FIELDS + 2
        if too_many or size > self.config.h11_max_incomplete_size:
            return large_head()
        return None if found is None else fault_of(data[:size])

    async def _begin(self, request: h11.Request) -> None:
        if request.method == b"PRI" and request.http_version == b"2.0":
            raise H2ProtocolAssumedError(_PREFACE + self.connection.trailing_data[0])
        await self.send(Updated(idle=False))
        self._method = request.method
        if not _is_served(request):
            await self._refuse(no_target(request.method))
            return
        if _wants_websocket(request) and not are_readable(request.headers):
            await self._refuse(no_websocket(BadHttpError.status))
            return
        await self._create_stream(request)
        if self.stream is not None and self.stream.closed:
            await self._maybe_recycle()  # refused without an application: a broken handshake

    async def _create_stream(self, request: h11.Request) -> None:
        if _wants_websocket(request):
            call = self._link.call(MessageInbox())
            self.stream = self._make(Websocket, call)
            self.connection = H11WSConnection(cast("h11.Connection", self.connection))
        else:
            self._call = call = self._link.call(BodyInbox(wanted=self._want_body))
            self._chunk_bytes = None
            self._chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
            self.stream = self._make(HttpRequest, call)
        await self.stream.handle(
            Request(
                STREAM_ID,
                headers=list(request.headers),
                # Of the versions behind 1.1, 1.1 is the one that we speak.
                http_version=min(request.http_version, b"1.1").decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=_path_of(request.target),
                state=self.connection_state,
            )
        )

    def _make(
        self, kind: Callable[..., HttpRequest | WSStream], call: AppCall
    ) -> HttpRequest | WSStream:
        return kind(
            self.app,
            self.config,
            self.context,
            call,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )

    async def _want_body(self) -> None:
        if self.connection.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self.send(RawData(data=self._serialized(go_on)))

    def farewell(self) -> bytes:
        """The answer to a head that did not come in time; nothing where one was given already."""
        return self._answer_to(slow_head()) if self.begun else b""

    async def _refuse(self, error: ParaudioError) -> None:
        """Answer what is no request, if nothing was answered yet, and end the connection."""
        self._held = None
        data = self._answer_to(error)
        self._refused = True  # an application that runs has nothing to say any more
        if data:
            await self.send(RawData(data=data))
        await self.send(Closed())

    async def _send_error(self, error: ParaudioError) -> None:
        if data := self._answer_to(error):
            await self.send(RawData(data=data))

    def _answer_to(self, error: ParaudioError) -> bytes:
        """A whole error answer that ends the connection; nothing where an answer has begun."""
        if self.connection.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return b""
        headers, body = rendered(error)
        asked = self.connection.our_state is h11.SEND_RESPONSE
        if asked and self._method == b"HEAD":
            body = b""
        head = [*headers, _CLOSE, *self.config.response_headers("h11")]
        response = h11.Response(status_code=error.status, headers=head)
        events: tuple[H11SendableEvent, ...]
        events = (response, h11.Data(data=body), h11.EndOfMessage())
        return b"".join([self._serialized(event) for event in events])

    async def _maybe_recycle(self) -> None:
        connection = self.connection
        # Without a length and without chunks only the end of the connection ends the body.
        if connection.our_state in {h11.SEND_BODY, h11.ERROR} and self._unframed():
            await self._close_stream()
            await self.can_read.set()
            await self.send(Cut())
        else:
            await super()._maybe_recycle()

    def _unframed(self) -> bool:
        version = getattr(self.connection, "their_http_version", None)
        return version is None or version < b"1.1"


def _has_length(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-length" for name, _ in headers)


def _wants_websocket(request: h11.Request) -> bool:
    upgrade = connection = b""
    for name, value in request.headers:
        if name == b"upgrade":
            upgrade = value.strip().lower()
        elif name == b"connection":
            connection += b"," + value.lower()
    if upgrade != b"websocket" or request.method != b"GET":
        return False
    return any(token.strip() == b"upgrade" for token in connection.split(b","))


def _is_served(request: h11.Request) -> bool:
    """Whether a request names something that can be served."""
    if request.method == b"CONNECT" or not request.http_version.startswith(b"1."):
        return False
    target = request.target
    if target.startswith(b"/") or _ORIGIN.match(target):
        return True
    return target == b"*" and request.method == b"OPTIONS"


def _path_of(target: bytes) -> bytes:
    """The path and the query of a target: a client of a proxy sends a whole URL.

    Whatever stands in the place of the host, nobody reads it.
    """
    found = _ORIGIN.match(target)
    if found is None:
        return target
    path = target[found.end() :]
    return path if path.startswith(b"/") else b"/" + path
