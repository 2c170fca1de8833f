"""Websockets: hypercorn's stream, except that a client that breaks the rules is let go.

So is one that is not there any more. A machine that vanishes while nothing is sent to it closes no
socket, so an open websocket is pinged; a client that answers nothing at all for a while is gone.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio
from hypercorn.protocol.events import Body, Data, EndBody, Event, Response, StreamClosed
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.typing import WebsocketAcceptEvent, WebsocketResponseBodyEvent
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Message, Ping
from wsproto.frame_protocol import CloseReason

from paraudio.errors import UpgradeRequiredError
from paraudio.transport._inbox import BodyInbox
from paraudio.transport._lateness import let_others_go_first
from paraudio.transport._limits import TURN
from paraudio.transport._refusals import WEBSOCKET_VERSION, no_version, no_websocket, rendered

PING_S: Final = 20.0
"""How long a client may be silent before it is pinged, and then before it is let go."""


class Websocket(WSStream):
    """One websocket; alone on its connection, unless it is an `H2Websocket`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._spoke = trio.Event()
        self._taking = False
        self._answered = False
        self._message_bytes = 0

    async def handle(self, event: Event) -> None:
        """Take what the connection read."""
        self._spoke.set()
        self._taking = True
        try:
            await self._handle(event)
        finally:
            self._taking = False

    async def _handle(self, event: Event) -> None:
        early = isinstance(event, (Body, Data)) and not self.closed
        if early and not self.handshake.accepted:
            await self._break_off()
        else:
            await super().handle(event)

    async def _break_off(self) -> None:
        """Frames came before the answer to the handshake."""
        if self._answered:
            return  # by a refusal, which ends the websocket in any case
        # The application runs already. It is told first: what is sent here may wait for the socket
        # (over TLS it always does), and it must not answer meanwhile.
        if self.app_put is not None:
            gone = int(CloseReason.ABNORMAL_CLOSURE)
            await self.app_put({"type": "websocket.disconnect", "code": gone})
        await self._send_error_response(400)
        await self.send(StreamClosed(stream_id=self.stream_id))

    async def _send_rejection(self, message: WebsocketResponseBodyEvent) -> None:
        self._answered = True
        await super()._send_rejection(message)

    async def _send_error_response(self, status_code: int) -> None:
        if self._answered:
            return
        self._answered = True
        version = self.handshake.version
        if version is not None and version != WEBSOCKET_VERSION:
            error = no_version()
        else:
            error = no_websocket(status_code)
        headers, body = rendered(error)
        if self.handshake.http_version != "2":
            # An answer that names an upgrade has to say that it means this connection.
            upgrade = error.status == UpgradeRequiredError.status
            headers.append((b"connection", b"upgrade, close" if upgrade else b"close"))
        await self.send(Response(self.stream_id, headers=headers, status_code=error.status))
        await self.send(Body(self.stream_id, data=body))
        await self.send(EndBody(self.stream_id))

    async def _accept(self, message: WebsocketAcceptEvent) -> None:
        # Without extensions, which means without compression: what one read from a socket unpacks
        # to has no bound.
        self.handshake.extensions = None
        await super()._accept(message)
        self.task_group.spawn(self._watch)

    async def _watch(self) -> None:
        """Ping a client that is silent, and let it go if it stays so; ends with the websocket.

        One whose messages the application does not take is not being listened to.
        """
        pinged = False
        while not self.closed:
            self._spoke = trio.Event()
            with trio.move_on_after(PING_S) as silence:
                await self._spoke.wait()
            if silence.cancelled_caught:
                await let_others_go_first()  # its words may wait where nobody has looked
            if self._spoke.is_set() or self._taking:
                pinged = False
            elif pinged:
                await self.send(StreamClosed(stream_id=self.stream_id))
            else:
                pinged = True
                await self._send_wsproto_event(Ping())

    async def _handle_events(self) -> None:
        for count, event in enumerate(self.connection.events(), 1):
            if count % TURN == 0:
                await trio.lowlevel.checkpoint()
            if isinstance(event, Message):
                await self._take(event)
            elif isinstance(event, Ping):
                await self._send_wsproto_event(event.response())
            elif isinstance(event, CloseConnection):
                # The client closes; or its bytes are no frame, and wsproto says so in this way.
                await self._close(event.code)

    async def _take(self, message: Message[Any]) -> None:
        # In bytes: the buffer counts the characters of a text, which are up to four each.
        self._message_bytes += _size(message.data)
        if self._message_bytes > self.config.websocket_max_message_size:
            await self._close(CloseReason.MESSAGE_TOO_BIG)
            return
        self.buffer.extend(message)
        if message.message_finished and self.app_put is not None:
            self._message_bytes = 0
            await self.app_put(self.buffer.to_message())
            self.buffer.clear()

    async def _close(self, code: int) -> None:
        if self.connection.state in {ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING}:
            await self._send_wsproto_event(CloseConnection(code=code))
        await self.send(StreamClosed(stream_id=self.stream_id))


def _size(data: bytes | bytearray | str) -> int:
    """How many bytes a piece of a message has on the wire."""
    return len(data.encode()) if isinstance(data, str) else len(data)


class H2Websocket(Websocket):
    """One websocket within a stream of HTTP/2.

    The connection's reader must not wait for this application: the bytes wait here, as many as the
    stream's window lets come, and a task of the websocket's own takes them on.

    Args:
        given: What hypercorn's streams are made of.
        taken: Awaited with the number of bytes that were taken on.
    """

    def __init__(self, *given: Any, taken: Callable[[int], Awaitable[None]]) -> None:
        super().__init__(*given)
        self._bytes = BodyInbox(taken=taken, bounded=False)

    async def handle(self, event: Event) -> None:
        """Take what the connection read; never waits for the application."""
        if isinstance(event, Body):
            await self._bytes.put({"body": event.data, "more_body": True})
        elif isinstance(event, EndBody):
            await self._bytes.put({"body": b"", "more_body": False})
        elif isinstance(event, StreamClosed):
            self._bytes.close()
            await super().handle(event)
        else:
            await super().handle(event)
            self.task_group.spawn(self._take_on)

    async def _take_on(self) -> None:
        more = True
        while more and not self.closed:
            message = await self._bytes.take()
            if message["type"] != "http.request":
                return
            more = message["more_body"]
            if message["body"]:
                await super().handle(Data(self.stream_id, data=message["body"]))
        if not self.closed:
            # An end without a close frame: the client has left.
            await self.send(StreamClosed(self.stream_id))
