"""HTTP/2: hypercorn's protocol class, with streams that cannot hurt each other or stay behind.

Different from hypercorn's: a stream's body is acknowledged when the application has taken it, so
one slow application holds up its own stream only; a stream is forgotten however it ends; a
client that gives no window holds up its own answer; an answer
that was cut short is reset, and so is a request that was answered before it was complete; streams
that stall are cut one by one; draining says GOAWAY and lets what runs run. Priorities are ignored
(RFC 9113 deprecates them), and so are CONNECT and websockets, which clients speak over HTTP/1.1.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast

import h2.events
import h11
import trio
from h2.connection import ConnectionState as H2State
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Request, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.typing import AppWrapper, ConnectionState, TaskGroup, WorkerContext
from hypercorn.utils import filter_pseudo_headers
from hyperframe.frame import GoAwayFrame
from priority.priority import MissingStreamError

from paraudio.errors import ParaudioError
from paraudio.transport._frames import FrameMeter, FrameTooLargeError
from paraudio.transport._h2_streams import Outbox, Upload
from paraudio.transport._http_stream import HttpRequest
from paraudio.transport._inbox import BodyInbox
from paraudio.transport._limits import H2_STREAM_WINDOW, H2_STREAMS, MAX_FIELDS
from paraudio.transport._link import Link
from paraudio.transport._refusals import large_head, no_target, rendered

_DEFAULT_WINDOW: Final = 65_535

_QUIET_S: Final = 1.0
"""After an answer the client's frames about it (windows, settings) may be under way this long."""


class H2(H2Protocol):
    """One HTTP/2 connection."""

    def __init__(self, link: Link) -> None:
        super().__init__(
            cast("AppWrapper", link.app),
            link.config,
            cast("WorkerContext", link.context),
            cast("TaskGroup", link),
            ConnectionState({}),
            link.tls,
            link.client,
            link.server,
            link.send,
        )
        self._link = link
        self._uploads: dict[int, Upload] = {}
        self._meter = FrameMeter()
        header_bytes = link.config.h2_max_header_list_size
        self.connection.decoder.max_header_list_size = header_bytes
        self.connection.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: H2_STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: header_bytes,
                SettingCodes.INITIAL_WINDOW_SIZE: H2_STREAM_WINDOW,
            },
        )

    def owed(self, idle_s: float) -> bool:
        """Whether the client may be sending still, after ``idle_s`` seconds without a request."""
        return idle_s < _QUIET_S or self.connection.state_machine.state is H2State.CLOSED

    @property
    def begun(self) -> bool:
        """Whether a part of a request's head has come; frames of their own do not count."""
        return False

    def sweep(self, now: float) -> None:
        """Reset the streams whose client has stalled; the connection goes on."""
        for stream_id, upload in list(self._uploads.items()):
            blocked = upload.blocked_since
            if upload.call.starves(now) or (
                blocked is not None and now - blocked > upload.call.patience.send_stall_s
            ):
                upload.blocked_since = None
                self._link.spawn(self._abandon, stream_id, ErrorCodes.CANCEL)

    def drain(self) -> None:
        """Tell the client that no further stream is served; those that run go on."""
        self._link.spawn(self._say_goaway)

    async def initiate(
        self,
        headers: list[tuple[bytes, bytes]] | None = None,  # noqa: ARG002 - no upgrade from 1.1 here
        settings: bytes | None = None,  # noqa: ARG002
    ) -> None:
        """Send the settings, and a connection window that no single stream can use up."""
        self.connection.initiate_connection()
        self.connection.increment_flow_control_window(
            H2_STREAMS * H2_STREAM_WINDOW - _DEFAULT_WINDOW
        )
        await self._flush()
        self._link.spawn(self.send_task)

    async def handle(self, event: Event) -> None:
        """Take what the connection read, or learn that it is over."""
        if isinstance(event, Closed) and self.connection.state_machine.state is not H2State.CLOSED:
            self.connection.close_connection()
            await self._flush()
        if isinstance(event, RawData):
            await self._take(event.data)
            return
        await super().handle(event)
        if isinstance(event, Closed):
            for stream_id in list(self.stream_buffers):
                await self._forget(stream_id)

    async def _take(self, data: bytes) -> None:
        """Take what was read, a few frames at a time."""
        try:
            for index, piece in enumerate(self._meter.turns(data)):
                if index:
                    await trio.lowlevel.checkpoint()
                await super().handle(RawData(piece))
        except FrameTooLargeError:
            self.connection.close_connection(ErrorCodes.FRAME_SIZE_ERROR)
            await self._flush()
            await self.send(Closed())

    async def stream_send(self, event: StreamEvent) -> None:
        """Send what a stream has for the client."""
        if isinstance(event, (Body, EndBody)):
            with self._blocked(event.stream_id):
                await super().stream_send(event)
        elif isinstance(event, StreamClosed):
            await self._part(event.stream_id)
        else:
            if isinstance(event, Response):
                # h2 would send what h11 refuses: a line break within a header, for one.
                h11.Response(headers=event.headers, status_code=event.status_code)
            await super().stream_send(event)

    @contextmanager
    def _blocked(self, stream_id: int) -> Iterator[None]:
        """Within the block the answer waits for the client to take something."""
        upload = self._uploads.get(stream_id)
        if upload is None:
            yield
            return
        upload.blocked_since = trio.current_time()
        try:
            yield
        finally:
            upload.blocked_since = None

    async def _part(self, stream_id: int) -> None:
        """The application has ended: so does the stream, with a reset if the answer broke off."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is None or buffer.complete:
            await self._close_stream(stream_id)
            await self.send(Updated(idle=not self.streams))
            return
        if buffer.buffer:
            # What was sent may say what went wrong.
            with self._blocked(stream_id):
                await buffer.drain()
        await self._abandon(stream_id, ErrorCodes.INTERNAL_ERROR)

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.RequestReceived):
                await self._begin(event)
            elif isinstance(event, h2.events.DataReceived):
                await self._receive_body(event)
            elif isinstance(event, h2.events.StreamEnded):
                await self._end_body(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                await self._close_stream(event.stream_id)
                await self._forget(event.stream_id)
                await self.send(Updated(idle=not self.streams))
            elif not isinstance(event, h2.events.PriorityUpdated):
                await super()._handle_events([event])
        await self._flush()

    async def _begin(self, event: h2.events.RequestReceived) -> None:
        if self.context.terminated.is_set() or self._link.running >= H2_STREAMS:
            # Safe to try elsewhere, and says so. The count holds calls whose streams are long
            # reset.
            self._reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        pseudo = {name: value for name, value in event.headers if name.startswith(b":")}
        method, path = pseudo[b":method"], pseudo.get(b":path", b"")
        if len(event.headers) > MAX_FIELDS:
            self._refuse(event, method, large_head())
            return
        if not _is_served(method, path):
            self._refuse(event, method, no_target(method))
            return
        await self._start(event, method.decode("ascii").upper(), path)

    def _refuse(
        self, event: h2.events.RequestReceived, method: bytes, error: ParaudioError
    ) -> None:
        stream_id = event.stream_id
        fields, body = rendered(error)
        headers = [(b":status", b"%d" % error.status), *fields]
        try:
            # Nobody waits for the window of a client that asks for nothing.
            silent = method == b"HEAD" or self._window(stream_id) < len(body)
            self.connection.send_headers(
                stream_id, headers + self.config.response_headers("h2"), end_stream=silent
            )
            if not silent:
                self.connection.send_data(stream_id, body, end_stream=True)
        except ProtocolError:
            return  # the client has reset it already
        if event.stream_ended is None:
            self._reset(event.stream_id, ErrorCodes.NO_ERROR)

    async def _start(self, event: h2.events.RequestReceived, method: str, path: bytes) -> None:
        stream_id = event.stream_id

        async def taken(count: int) -> None:
            await self._acknowledge(stream_id, count)

        call = self._link.call(BodyInbox(taken=taken, bounded=False))
        self._uploads[stream_id] = Upload(call)
        stream = HttpRequest(
            self.app,
            self.config,
            self.context,
            cast("TaskGroup", call),
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            stream_id,
        )
        self.streams[stream_id] = stream
        self.stream_buffers[stream_id] = Outbox(self.context.event_class)
        self.priority.insert_stream(stream_id)
        self.priority.block(stream_id)
        await self.send(Updated(idle=False))
        await stream.handle(
            Request(
                stream_id,
                headers=filter_pseudo_headers(event.headers),
                http_version="2",
                method=method,
                raw_path=path,
                state=self.connection_state,
            )
        )

    async def _receive_body(self, event: h2.events.DataReceived) -> None:
        upload = self._uploads.get(event.stream_id)
        if upload is None or upload.call.over:
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            return
        upload.unacknowledged += event.flow_controlled_length
        padding = event.flow_controlled_length - len(event.data)
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            await stream.handle(Body(event.stream_id, data=event.data))
        await self._acknowledge(event.stream_id, padding)

    async def _acknowledge(self, stream_id: int, count: int) -> None:
        """Give the client back the window for bytes that nobody holds any more."""
        upload = self._uploads.get(stream_id)
        if upload is None or not count:
            return
        count = min(count, upload.unacknowledged)
        upload.unacknowledged -= count
        self.connection.acknowledge_received_data(count, stream_id)
        await self._flush()

    async def _end_body(self, stream_id: int) -> None:
        upload, stream = self._uploads.get(stream_id), self.streams.get(stream_id)
        if upload is not None:
            upload.ended = True
        if stream is not None:
            await stream.handle(EndBody(stream_id))

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

    def _window(self, stream_id: int) -> int:
        """How many bytes of an answer one frame can carry now."""
        window = self.connection.local_flow_control_window(stream_id)
        return min(window, self.connection.max_outbound_frame_size)

    async def _finish(self, stream_id: int) -> None:
        """The answer is complete: a client that still sends its request is asked to stop."""
        upload = self._uploads.get(stream_id)
        if upload is not None and not upload.ended:
            self._reset(stream_id, ErrorCodes.NO_ERROR)
        await self._forget(stream_id)

    async def _abandon(self, stream_id: int, code: ErrorCodes) -> None:
        """Reset a stream from our side, and everything that it holds."""
        self._reset(stream_id, code)
        await self._forget(stream_id)
        await self._close_stream(stream_id)
        await self._flush()
        await self.send(Updated(idle=not self.streams))

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        try:
            self.connection.reset_stream(stream_id, code)
        except ProtocolError:
            return

    async def _close_stream(self, stream_id: int) -> None:
        await super()._close_stream(stream_id)
        upload = self._uploads.pop(stream_id, None)
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

    async def _say_goaway(self) -> None:
        await self._flush()
        frame = GoAwayFrame(0, last_stream_id=self.connection.highest_inbound_stream_id)
        # By hand: h2 would take it for the end of the connection and send nothing after it.
        await self.send(RawData(data=frame.serialize()))


def _is_served(method: bytes, path: bytes) -> bool:
    """Whether a request names something that can be served."""
    if method == b"CONNECT" or not path.isascii() or not method.isascii():
        return False
    return path.startswith(b"/") or (path == b"*" and method == b"OPTIONS")
