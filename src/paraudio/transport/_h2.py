"""HTTP/2: hypercorn's protocol class, with streams that cannot hurt each other or stay behind.

Different from hypercorn's: a stream's body is acknowledged when the application has taken it, so
one slow application holds up its own stream only; streams that stall are cut one by one; a stream
too many is refused alone; draining says GOAWAY and lets what runs run. Priorities are ignored (RFC
9113 deprecates them), and CONNECT is for websockets (RFC 8441). Of what is wrong with frames and
with single streams `_h2_machine` decides; how answers leave is in `_h2_sending`.
"""

from functools import partial
from typing import Any, Final

import h2.events
import trio
from h2.connection import ConnectionState as H2State
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import (
    Body,
    EndBody,
    Request,
)
from hypercorn.utils import filter_pseudo_headers
from hyperframe.frame import GoAwayFrame

from paraudio.transport._call import AppCall
from paraudio.transport._frames import BlockTooLargeError, FrameMeter, FrameTooLargeError
from paraudio.transport._h2_requests import Refusal, refusal_of
from paraudio.transport._h2_sending import H2Sending
from paraudio.transport._h2_streams import Outbox, Upload, declared_length, waits_to_be_told
from paraudio.transport._http_stream import HttpRequest
from paraudio.transport._inbox import BodyInbox, MessageInbox
from paraudio.transport._limits import (
    H2_STREAM_WINDOW,
    H2_STREAMS,
    TURN,
)
from paraudio.transport._link import Link
from paraudio.transport._websocket import H2Websocket

_DEFAULT_WINDOW: Final = 65_535

_ROOM_FOR_BIG_HEADS: Final = 2
"""A head that is larger than it may be, but not by more than this, is told so on its stream."""

_QUIET_S: Final = 1.0
"""After an answer the client's frames about it (windows, settings) may be under way this long."""


class H2(H2Sending):
    """One HTTP/2 connection."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        most = _ROOM_FOR_BIG_HEADS * link.config.h2_max_header_list_size
        self.connection.decoder.max_header_list_size = most
        self._meter = FrameMeter(most)
        self._unit: int | None = None
        self.begun_since: float | None = None

    def _settings(self, streams: int) -> Settings:
        return Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
                SettingCodes.INITIAL_WINDOW_SIZE: H2_STREAM_WINDOW,
                SettingCodes.ENABLE_CONNECT_PROTOCOL: 1,
            },
        )

    def owed(self, idle_s: float) -> bool:
        """Whether the client may be sending still, after ``idle_s`` seconds without a request."""
        return idle_s < _QUIET_S or self.connection.state_machine.state is H2State.CLOSED

    @property
    def begun(self) -> bool:
        """Whether a part of the preface, of a frame or of a header block has come."""
        return self._meter.begun

    @property
    def held_since(self) -> float | None:
        """Since when the rest of a frame has been awaited, but for a body that somebody reads."""
        return None if self._meter.body_of in self._uploads else self.begun_since

    def farewell(self) -> bytes:
        """What a client is told that did not complete what it had begun."""
        self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
        return self.connection.data_to_send()

    def sweep(self, now: float) -> None:
        """Reset the streams whose client has stalled or left; the connection goes on."""
        for stream_id, upload in list(self._uploads.items()):
            # A websocket whose client has closed its side, behind what nobody takes.
            left = upload.ended and not upload.parting and self._is_websocket(stream_id)
            if left or upload.late(now, self._link.readable):
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
        self.connection.local_settings = self._settings(H2_STREAMS)
        self.connection.initiate_connection()
        # A stream too many is refused by us, and alone: for h2 it would end the connection.
        self.connection.local_settings = self._settings(H2_STREAMS + TURN)
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
            await self._break_off(ErrorCodes.FRAME_SIZE_ERROR)
        except BlockTooLargeError:
            await self._break_off(ErrorCodes.ENHANCE_YOUR_CALM)
        unit = self._meter.units if self._meter.begun else None
        if unit != self._unit:
            self._unit = unit
            self.begun_since = None if unit is None else trio.current_time()

    async def _break_off(self, code: ErrorCodes) -> None:
        self.connection.close_connection(code)
        await self._flush()
        await self.send(Closed())

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
                await self._tell_idle()
            elif isinstance(event, h2.events.ConnectionTerminated) and not event.error_code:
                # In order: what the client has asked for it still takes.
                self._parting = True
                await self._tell_idle()
            else:
                await super()._handle_events([event])
        await self._flush()

    async def _begin(self, event: h2.events.RequestReceived) -> None:
        if self.context.terminated.is_set() or self._link.running >= H2_STREAMS:
            # Safe to try elsewhere, and says so. The count holds calls whose streams are long
            # reset.
            self._budget.spend()
            self._reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        length = declared_length(event.headers)
        if event.stream_ended is not None and length:
            self._budget.spend()
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        refusal = refusal_of(event.headers, self.config.h2_max_header_list_size)
        if refusal is not None:
            self._refuse(event, refusal)
            return
        await self._start(event, length)

    def _refuse(self, event: h2.events.RequestReceived, refusal: Refusal) -> None:
        stream_id = event.stream_id
        try:
            # Nobody waits for the window of a client that asks for nothing.
            silent = refusal.silent or self._window(stream_id) < len(refusal.body)
            headers = refusal.headers + self.config.response_headers("h2")
            self.connection.send_headers(stream_id, headers, end_stream=silent)
            if not silent:
                self.connection.send_data(stream_id, refusal.body, end_stream=True)
        except ProtocolError:
            return  # the client has reset it already
        if event.stream_ended is None:
            self._reset(event.stream_id, ErrorCodes.NO_ERROR)

    async def _start(self, event: h2.events.RequestReceived, length: int | None) -> None:
        stream_id = event.stream_id
        pseudo = {name: value for name, value in event.headers if name.startswith(b":")}
        method = pseudo[b":method"].decode("ascii")

        waits = False
        taken = partial(self._acknowledge, stream_id)
        stream: HttpRequest | H2Websocket
        if method == "CONNECT":
            call = self._link.call(MessageInbox())
            stream = H2Websocket(*self._given(call, stream_id), taken=taken)
            length = None
        else:
            wanted = partial(self._invite, stream_id)
            call = self._link.call(BodyInbox(wanted=wanted, taken=taken, bounded=False))
            stream = HttpRequest(*self._given(call, stream_id))
            waits = event.stream_ended is None and waits_to_be_told(event.headers)
        self._uploads[stream_id] = Upload(call, declared=length, waits=waits)
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
                method=method.upper(),
                raw_path=pseudo[b":path"],
                state=self.connection_state,
            )
        )

    def _given(self, call: AppCall, stream_id: int) -> tuple[Any, ...]:
        """What hypercorn's streams are made of."""
        return (
            self.app,
            self.config,
            self.context,
            call,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            stream_id,
        )

    async def _receive_body(self, event: h2.events.DataReceived) -> None:
        upload = self._uploads.get(event.stream_id)
        if upload is not None:
            upload.received += len(event.data)
            upload.waits = False
        # Of a websocket that we have closed, the client's own goodbye is to be heard still.
        deaf = upload is None or (upload.call.over and not self._is_websocket(event.stream_id))
        if upload is None or deaf:
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            return
        upload.unacknowledged += event.flow_controlled_length
        padding = event.flow_controlled_length - len(event.data)
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            await stream.handle(Body(event.stream_id, data=event.data))
        await self._acknowledge(event.stream_id, padding)

    async def _end_body(self, stream_id: int) -> None:
        upload, stream = self._uploads.get(stream_id), self.streams.get(stream_id)
        if upload is not None:
            upload.ended = True
            upload.over.set()
            if upload.broken:
                # Shorter than its head said, and ended by trailers, where h2 does not look.
                self._budget.spend()
                await self._abandon(stream_id, ErrorCodes.PROTOCOL_ERROR)
                return
        if stream is not None:
            await stream.handle(EndBody(stream_id))

    async def _say_goaway(self) -> None:
        await self._flush()
        frame = GoAwayFrame(0, last_stream_id=self.connection.highest_inbound_stream_id)
        # By hand: h2 would take it for the end of the connection and send nothing after it.
        await self.send(RawData(data=frame.serialize()))
