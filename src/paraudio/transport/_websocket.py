"""Websockets: hypercorn's stream, except that a client that breaks the rules is let go."""

from typing import Any

from hypercorn.protocol.events import Body, Data, Event, StreamClosed
from hypercorn.protocol.ws_stream import FrameTooLargeError, WSStream
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Message, Ping
from wsproto.frame_protocol import CloseReason


class Websocket(WSStream):
    """One websocket on an HTTP/1.1 connection."""

    async def handle(self, event: Event) -> None:
        """Take what the connection read."""
        early = isinstance(event, (Body, Data)) and not self.closed
        if early and not self.handshake.accepted:
            # The application runs already, and has to be told.
            await self._send_error_response(400)
            await self.send(StreamClosed(stream_id=self.stream_id))
        else:
            await super().handle(event)

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            if isinstance(event, Message):
                await self._take(event)
            elif isinstance(event, Ping):
                await self._send_wsproto_event(event.response())
            elif isinstance(event, CloseConnection):
                # The client closes; or its bytes are no frame, and wsproto says so in this way.
                await self._close(event.code)

    async def _take(self, message: Message[Any]) -> None:
        try:
            self.buffer.extend(message)
        except FrameTooLargeError:
            await self._close(CloseReason.MESSAGE_TOO_BIG)
            return
        if message.message_finished and self.app_put is not None:
            await self.app_put(self.buffer.to_message())
            self.buffer.clear()

    async def _close(self, code: int) -> None:
        if self.connection.state in {ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING}:
            await self._send_wsproto_event(CloseConnection(code=code))
        await self.send(StreamClosed(stream_id=self.stream_id))
