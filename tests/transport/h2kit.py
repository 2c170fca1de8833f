"""An HTTP/2 client that can break the rules."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events
import trio
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, Frame
from tests.transport.kit import Client, Served


@dataclass
class H2Answer:
    """What came on one stream."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    reset: h2.errors.ErrorCodes | int | None = None
    before: list[bytes] = field(default_factory=list)
    """The statuses of what came before the answer."""


class H2Client:
    """One connection; answers are collected by stream while something is waited for.

    Attributes:
        reading: Whether the window is given back for bodies that arrive.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        # Not checked, so that headers can be wrong.
        self.connection = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.answers: defaultdict[int, H2Answer] = defaultdict(H2Answer)
        self.reading = True
        self.goaway: h2.events.ConnectionTerminated | None = None

    async def start(self) -> "H2Client":
        self.connection.initiate_connection()
        await self.flush()
        await self._pump()
        return self

    async def flush(self) -> None:
        await self.client.send(self.connection.data_to_send())

    async def begin(
        self,
        path: bytes | None = b"/",
        *,
        method: bytes = b"GET",
        headers: Iterable[tuple[bytes, bytes]] = (),
        end: bool = True,
    ) -> int:
        """Send the head of a request; returns its stream."""
        stream = self.connection.get_next_available_stream_id()
        head = [(b":method", method), (b":authority", b"test")]
        if path is not None:
            head += [(b":scheme", b"http"), (b":path", path)]
        self.connection.send_headers(stream, [*head, *headers], end_stream=end)
        await self.flush()
        return stream

    async def upload(self, stream: int, data: bytes, *, end: bool = True) -> None:
        """Send a body as fast as the windows allow."""
        while data:
            window = self.connection.local_flow_control_window(stream)
            size = min(window, self.connection.max_outbound_frame_size, len(data))
            if size:
                self.connection.send_data(stream, data[:size])
                data = data[size:]
                await self.flush()
            else:
                await self._pump()
        if end:
            self.connection.end_stream(stream)
            await self.flush()

    async def raw_data(self, stream: int, data: bytes) -> None:
        """Send DATA behind the back of our own state machine."""
        await self.client.send(DataFrame(stream, data).serialize())

    async def frames(self, *frames: Frame) -> None:
        """Send frames behind the back of our own state machine."""
        await self.client.send(b"".join(frame.serialize() for frame in frames))

    async def head(self, *headers: tuple[bytes, bytes], end: bool = True) -> int:
        """Send a head that nobody has looked at; returns its stream."""
        stream = self.connection.get_next_available_stream_id()
        self.connection.send_headers(stream, list(headers), end_stream=end)
        await self.flush()
        return stream

    async def reset(self, stream: int) -> None:
        self.connection.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        await self.flush()

    async def answer(self, stream: int) -> H2Answer:
        """Wait until a stream has ended, or was reset before its end."""
        answer = self.answers[stream]
        while not answer.ended and answer.reset is None:
            await self._pump()
        return answer

    async def ask(self, path: bytes = b"/") -> H2Answer:
        return await self.answer(await self.begin(path))

    async def until_goaway(self) -> h2.events.ConnectionTerminated:
        while self.goaway is None:
            await self._pump()
        return self.goaway

    async def _pump(self) -> None:
        data = await self.client.stream.receive_some(65536)
        if not data:
            raise trio.EndOfChannel
        for event in self.connection.receive_data(data):
            self._note(event)
        await self.flush()

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.InformationalResponseReceived):
            self.answers[event.stream_id].before.append(dict(event.headers)[b":status"])
        elif isinstance(event, h2.events.ResponseReceived):
            answer = self.answers[event.stream_id]
            answer.headers = {bytes(name): bytes(value) for name, value in event.headers}
            answer.status = int(answer.headers[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            self.answers[event.stream_id].body += event.data
            if self.reading:
                self.connection.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id
                )
        elif isinstance(event, h2.events.StreamEnded):
            self.answers[event.stream_id].ended = True
        elif isinstance(event, h2.events.StreamReset):
            self.answers[event.stream_id].reset = event.error_code
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = event


async def connect_h2(served: Served, *, buffers: int | None = None) -> H2Client:
    """Connect with prior knowledge, or by ALPN where there is TLS."""
    return await H2Client(await served.connect(buffers=buffers, alpn=["h2"])).start()


def many_streams_allowed(client: H2Client) -> None:
    """Let a client forget how many streams the server has allowed it."""
    client.connection.remote_settings = Settings(
        client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: 10_000}
    )
