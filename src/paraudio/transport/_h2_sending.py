"""The sending half of an HTTP/2 connection: answers, and the ends of streams.

A client that gives no window holds up its own answer; an answer that was cut short is reset, and so
is a request that was answered before it was complete; a stream is forgotten however it ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import h11
import trio
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hypercorn.events import Closed, Updated
from hypercorn.protocol.events import (
    Body,
    Data,
    EndBody,
    EndData,
    Response,
    StreamClosed,
)
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import H2Protocol
from priority.priority import MissingStreamError

from paraudio.transport._call import SENDS_PER_YIELD
from paraudio.transport._h2_machine import Budget, Machine
from paraudio.transport._h2_streams import Upload
from paraudio.transport._limits import H2_BURST, H2_PER_S
from paraudio.transport._link import Link, handed
from paraudio.transport._websocket import H2Websocket

_PARTING_S: Final = 1.0
"""How long the client of a websocket that we end may take to say goodbye as well."""


class H2Sending(H2Protocol):
    """One HTTP/2 connection, as far as it sends."""

    def __init__(self, link: Link) -> None:
        super().__init__(*handed(link))
        self._link = link
        self._uploads: dict[int, Upload] = {}
        self._parting = False
        self._frames_sent = 0
        self._budget = Budget(H2_BURST, H2_PER_S, trio.current_time)
        self.connection = Machine(self._budget)

    async def stream_send(self, event: StreamEvent) -> None:
        """Send what a stream has for the client."""
        if isinstance(event, (Body, EndBody, Data, EndData)):
            with self._blocked(event.stream_id):
                await super().stream_send(event)
        elif isinstance(event, StreamClosed):
            await self._part(event.stream_id)
        else:
            if isinstance(event, Response):
                # h2 would send what h11 refuses: a line break within a header, for one.
                h11.Response(headers=event.headers, status_code=event.status_code)
                if upload := self._uploads.get(event.stream_id):
                    upload.waits = False
            await super().stream_send(event)

    @contextmanager
    def _blocked(self, stream_id: int) -> Iterator[None]:
        """Within the block the answer waits for the client to take something."""
        upload = self._uploads.get(stream_id)
        if upload is None:
            yield
            return
        upload.senders += 1
        if upload.blocked_since is None:
            upload.blocked_since = trio.current_time()
        try:
            yield
        finally:
            upload.senders -= 1
            if not upload.senders:
                upload.blocked_since = None

    async def _part(self, stream_id: int) -> None:
        """The application has ended: so does the stream, with a reset if the answer broke off."""
        stream = self.streams.get(stream_id)
        if isinstance(stream, H2Websocket):
            await self._hang_up(stream_id, stream)
            return
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None:
            if buffer.buffer or buffer.complete:
                # What was sent may say what went wrong; of a whole answer the end is to leave.
                with self._blocked(stream_id):
                    await buffer.drain()
            if not buffer.complete:
                await self._abandon(stream_id, ErrorCodes.INTERNAL_ERROR)
                return
        await self._close_stream(stream_id)
        await self._tell_idle()

    async def _hang_up(self, stream_id: int, websocket: H2Websocket) -> None:
        """End a websocket: the application is told now, what it sent leaves, and it is closed."""
        upload = self._uploads[stream_id]
        if upload.parting:
            return
        upload.parting = True
        await websocket.handle(StreamClosed(stream_id))
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None and websocket.handshake.accepted:
            buffer.set_complete()
            self.priority.unblock(stream_id)
            await self.has_data.set()
            with self._blocked(stream_id):
                await buffer.drain()
        answered = stream_id not in self.stream_buffers
        if answered and websocket.handshake.accepted:
            with trio.move_on_after(_PARTING_S):
                await upload.over.wait()
        await self._abandon(stream_id, ErrorCodes.NO_ERROR if answered else ErrorCodes.CANCEL)

    async def _tell_idle(self) -> None:
        """Tell the connection whether a request is in progress; the last one may end it."""
        await self.send(Updated(idle=not self.streams))
        if self._parting and not self.streams:
            await self.send(Closed())

    def _is_websocket(self, stream_id: int) -> bool:
        return isinstance(self.streams.get(stream_id), H2Websocket)

    async def _acknowledge(self, stream_id: int, count: int) -> None:
        """Give the client back the window for bytes that nobody holds any more."""
        upload = self._uploads.get(stream_id)
        if upload is None or not count:
            return
        count = min(count, upload.unacknowledged)
        upload.unacknowledged -= count
        self.connection.acknowledge_received_data(count, stream_id)
        await self._flush()

    async def _invite(self, stream_id: int) -> None:
        """Tell a client that waits for ``100 Continue`` that its body may come."""
        upload = self._uploads.get(stream_id)
        if upload is None or not upload.waits:
            return
        upload.waits = False
        try:
            self.connection.send_headers(stream_id, [(b":status", b"100")])
        except ProtocolError:
            return  # the client has reset it already
        await self._flush()

    async def _send_data(self, stream_id: int) -> None:
        """Send one frame of a stream's answer, as far as the client's windows allow."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is None:
            self._untree(stream_id)
            return
        try:
            data = await buffer.pop(max(0, self._window(stream_id)))
            if not data and not buffer.complete:
                self.priority.block(stream_id)
                return
            if data:
                self.connection.send_data(stream_id, data, end_stream=buffer.complete)
            else:
                self.connection.end_stream(stream_id)
        except ProtocolError:
            # The stream is closed already, or h2 does not take what the application sends.
            self._reset(stream_id, ErrorCodes.INTERNAL_ERROR)
            await self._forget(stream_id)
            await self._flush()
            return
        if (upload := self._uploads.get(stream_id)) and upload.blocked_since is not None:
            upload.blocked_since = trio.current_time()
        if buffer.complete:
            await self._finish(stream_id)
        await self._flush()
        self._frames_sent += 1
        if not self._frames_sent % SENDS_PER_YIELD:
            # A socket that takes everything never waits, and an answer may have gigabytes.
            await trio.lowlevel.checkpoint()

    def _window(self, stream_id: int) -> int:
        """How many bytes of an answer one frame can carry now."""
        window = self.connection.local_flow_control_window(stream_id)
        return min(window, self.connection.max_outbound_frame_size)

    async def _finish(self, stream_id: int) -> None:
        """The answer is complete: a client that still sends its request is asked to stop."""
        upload = self._uploads.get(stream_id)
        if upload is not None and not upload.ended and not self._is_websocket(stream_id):
            self._reset(stream_id, ErrorCodes.NO_ERROR)
        await self._forget(stream_id)

    async def _abandon(self, stream_id: int, code: ErrorCodes) -> None:
        """Reset a stream from our side, and everything that it holds."""
        self._reset(stream_id, code)
        await self._forget(stream_id)
        await self._close_stream(stream_id)
        await self._flush()
        await self._tell_idle()

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        try:
            self.connection.reset_stream(stream_id, code)
        except ProtocolError:
            return

    async def _close_stream(self, stream_id: int) -> None:
        await super()._close_stream(stream_id)
        upload = self._uploads.pop(stream_id, None)
        if upload is not None:
            upload.over.set()
        if upload is not None and upload.unacknowledged:
            # What was never taken is void, and the connection's window needs it back.
            self.connection.acknowledge_received_data(upload.unacknowledged, stream_id)
            await self._flush()

    async def _forget(self, stream_id: int) -> None:
        """Drop a stream's buffer; whoever waits for it goes on."""
        buffer = self.stream_buffers.pop(stream_id, None)
        if buffer is not None:
            await buffer.close()
        self._untree(stream_id)

    def _untree(self, stream_id: int) -> None:
        try:
            self.priority.remove_stream(stream_id)
        except MissingStreamError:
            return
