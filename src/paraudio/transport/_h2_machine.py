"""HTTP/2's state machine: h2's, except that what is wrong with one stream ends that stream only.

h2 takes every mistake for the end of the connection, and every GOAWAY for the end of sending. RFC
9113 does not: a malformed request is an error of its stream (8.1.1), and a client that says GOAWAY
without an error still takes the answers that it waits for (6.8). All of that is decided here, at
the one place where h2 hands a frame on.

Frames that cost us more than their sender are paid from a budget: resets of streams, by whichever
side, settings, pings, and pieces of a body that hold nothing. A client that has spent it is told
ENHANCE_YOUR_CALM.
"""

from collections.abc import Callable
from typing import Final

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, Event, StreamReset
from h2.exceptions import (
    DenialOfServiceError,
    FlowControlError,
    NoSuchStreamError,
    ProtocolError,
    StreamIDTooLowError,
)
from h2.settings import SettingCodes
from hpack.exceptions import HPACKError
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
)

ENCODER_TABLE_BYTES: Final = 65_536
"""How much of the answers' headers is remembered, however much a client offers to remember."""

_CLOSED_STREAMS: Final = 4_096
"""How many streams are remembered after their end, for the frames that were under way to them."""

_OF_THE_CONNECTION: Final = (
    DenialOfServiceError,
    FlowControlError,
    NoSuchStreamError,
    StreamIDTooLowError,
)


class Budget:
    """So many at once, and so many a second.

    Args:
        burst: How many may be spent at once.
        per_s: How many come back in a second.
        now: The time, seconds.
    """

    def __init__(self, burst: float, per_s: float, now: Callable[[], float]) -> None:
        self._burst = self._left = burst
        self._per_s = per_s
        self._now = now
        self._at = now()

    def spend(self) -> None:
        """Take one, whether or not there is one."""
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s) - 1
        self._at = now

    @property
    def overdrawn(self) -> bool:
        """Whether more was taken than there was."""
        return self._left < 0


class Machine(H2Connection):
    """The server's end of one connection.

    Args:
        budget: What a client may have of the frames that cost more than they weigh.

    Attributes:
        budget: The same, for what is found out elsewhere.
    """

    MAX_CLOSED_STREAMS = _CLOSED_STREAMS

    def __init__(self, budget: Budget) -> None:
        super().__init__(H2Configuration(client_side=False, header_encoding=None))
        self.budget = budget

    def _receive_frame(self, frame: Frame) -> list[Event]:
        if _is_dear(frame):
            self.budget.spend()
        if self.budget.overdrawn:
            raise DenialOfServiceError("too many frames that ask for nothing")
        if isinstance(frame, PriorityFrame):
            return []  # nobody looks at them, so nothing about them can be wrong
        if isinstance(frame, GoAwayFrame) and frame.error_code == ErrorCodes.NO_ERROR:
            return [_farewell(frame)]
        if isinstance(frame, SettingsFrame):
            _bound(frame)
        elif isinstance(frame, HeadersFrame):
            frame.flags.discard("PRIORITY")
        try:
            events = super()._receive_frame(frame)
        except ProtocolError as error:
            if not self._is_of_one_stream(frame, error):
                raise
            events = self._give_up(frame)
        if any(isinstance(event, StreamReset) and not event.remote_reset for event in events):
            self.budget.spend()  # a client can make us reset as well as reset by itself
        return events

    def _is_of_one_stream(self, frame: Frame, error: ProtocolError) -> bool:
        """Whether nothing but its own stream is spoilt by a frame."""
        if not isinstance(frame, (HeadersFrame, DataFrame)) or frame.stream_id not in self.streams:
            return False
        if self.state_machine.state is ConnectionState.CLOSED:
            return False
        # A header block that cannot be unpacked leaves the unpacker in a state of its own.
        return not isinstance(error, _OF_THE_CONNECTION) and not isinstance(
            error.__cause__, HPACKError
        )

    def _give_up(self, frame: Frame) -> list[Event]:
        """Reset the stream of a frame, and give the connection's window its bytes back."""
        stream_id = frame.stream_id
        try:
            self.reset_stream(stream_id, ErrorCodes.PROTOCOL_ERROR)
        except ProtocolError:
            # Its own state machine has closed it already, without a word.
            self._prepare_for_sending([RstStreamFrame(stream_id, ErrorCodes.PROTOCOL_ERROR)])
        if isinstance(frame, DataFrame) and frame.flow_controlled_length:
            self.acknowledge_received_data(frame.flow_controlled_length, stream_id)
        reset = StreamReset(stream_id=stream_id, error_code=ErrorCodes.PROTOCOL_ERROR)
        reset.remote_reset = False
        return [reset]


_DEAR: Final = (GoAwayFrame, PingFrame, PriorityFrame, RstStreamFrame, SettingsFrame)


def _is_dear(frame: Frame) -> bool:
    """Whether a frame asks for nothing and costs something all the same."""
    if isinstance(frame, DataFrame):
        return not frame.data and "END_STREAM" not in frame.flags
    return isinstance(frame, _DEAR)


def _bound(frame: SettingsFrame) -> None:
    """Leave of a client's settings what we know, and no more memory than we like to give."""
    known = {code: value for code, value in frame.settings.items() if code in _KNOWN}
    table = known.get(SettingCodes.HEADER_TABLE_SIZE)
    if table is not None:
        known[SettingCodes.HEADER_TABLE_SIZE] = min(table, ENCODER_TABLE_BYTES)
    frame.settings = known


_KNOWN: Final = frozenset(int(code) for code in SettingCodes)


def _farewell(frame: GoAwayFrame) -> ConnectionTerminated:
    """What h2 says of a GOAWAY, without its belief that nothing can be sent any more."""
    event = ConnectionTerminated()
    event.error_code = ErrorCodes.NO_ERROR
    event.last_stream_id = frame.last_stream_id
    event.additional_data = frame.additional_data or None
    return event
