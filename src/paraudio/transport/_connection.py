"""One connection: its reader, its writer, its phases, and the nursery that its calls live in.

There are two ways to end one. ``finish``: we have said all that there is to say; the rest is sent
and the socket closed in order. ``leave``: the client is gone or has stalled; the socket is reset
at once, which also ends sends that are stuck in a shield, and the calls are cancelled. Both only
wake the connection's own task, which does the ending, so nobody closes under the hands of another.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H2ProtocolAssumedError
from hypercorn.utils import parse_socket_addr

from paraudio.transport._asgi import Cut
from paraudio.transport._call import AppCall, Patience
from paraudio.transport._h2 import H2
from paraudio.transport._h11 import H11
from paraudio.transport._inbox import BodyInbox, MessageInbox
from paraudio.transport._lateness import Lateness
from paraudio.transport._limits import READ_SIZE, SEND_SIZE
from paraudio.transport._phase import Phase
from paraudio.transport._shared import Shared
from paraudio.transport._stream import GuardedStream

_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)

_FAREWELL_S: Final = 1.0
"""The longest that the last bytes of a connection, such as the end of TLS, may take."""


class Connection:
    """One connection of one client.

    Attributes:
        phase: What it is doing; the population changes it.
        since: When it entered that phase, seconds of the loop's clock.
        scope: Cancelled to end everything about it.
        half_closed_since: When the client was seen to have closed its sending side, or None.
    """

    def __init__(self, shared: Shared, stream: trio.SocketStream) -> None:
        self.scope = trio.CancelScope()
        self.phase = Phase.IDLE if shared.ssl_context is None else Phase.HEAD
        self.since = trio.current_time()
        self.half_closed_since: float | None = None
        self.app = shared.app
        self.config = shared.config
        self.context = shared.context
        self.tls = shared.ssl_context is not None
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None
        self._shared = shared
        self._limits = shared.limits
        self._raw = GuardedStream(stream)
        self._stream: trio.abc.Stream = self._raw
        self._lateness = Lateness()
        self._send_lock = trio.Lock()
        self._reader = trio.CancelScope()
        self._reading = False
        self._left = False
        self._farewell = b""
        self._calls: set[AppCall] = set()
        self._idle = trio.Event()
        self._nursery: trio.Nursery
        self._protocol: H11 | H2 | None = None

    def __str__(self) -> str:
        client = f"{self.client[0]}:{self.client[1]}" if self.client else "a local client"
        return f"{client}, {', '.join(sorted(map(str, self._calls))) or self.phase.value}"

    # What its protocol sees.

    @property
    def running(self) -> int:
        """How many calls of the application run on this connection."""
        return len(self._calls)

    def readable(self) -> bool:
        """Whether something of the client waits in the socket, or its end does."""
        return self._raw.readable()

    def spawn(self, func: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task in the connection's nursery."""
        self._nursery.start_soon(func, *args)

    def call(self, inbox: BodyInbox | MessageInbox) -> AppCall:
        """Make a call of the application in the connection's nursery."""
        stall = self._limits.slow_client_timeout_s
        patience = Patience(body_stall_s=stall, send_stall_s=stall)
        return AppCall(
            self.app,
            inbox,
            patience,
            nursery=self._nursery,
            report=self._shared.report,
            began=self._call_began,
            ended=self._call_ended,
            readable=self.readable,
            cut_stalled=self._cut_stalled,
        )

    async def send(self, event: Event) -> None:
        """Send bytes, learn whether a request is in progress, or end the connection."""
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Updated):
            self._update(idle=event.idle)
        elif isinstance(event, Cut):
            self.leave()
        else:
            self.finish()

    # What the server and its sweeper see.

    @property
    def busy(self) -> bool:
        """Whether ending it now takes something from somebody; half a head is no request yet."""
        return bool(self._calls)

    @property
    def parked(self) -> bool:
        """Whether a request is in progress and nobody reads the socket, so nobody sees it close."""
        return self.phase is Phase.ACTIVE and not self._reading and self.fileno() != -1

    def fileno(self) -> int:
        """The socket's descriptor, or -1 once it is closed."""
        return self._raw.socket.fileno()

    def stalled(self, now: float) -> bool:
        """Whether the client takes or sends nothing although we wait for it."""
        default = self._limits.slow_client_timeout_s
        sending = self._raw.sending_since
        if sending is not None:
            limit = max((call.patience.send_stall_s for call in self._calls), default=default)
            return self._lateness.passed(sending, limit, now, self._raw.writable)
        if self.phase is not Phase.ACTIVE:
            return False
        if isinstance(self._protocol, H2):
            self._protocol.sweep(now)
            return False
        if not self._calls:
            return self.late(self.since, default, now)
        return any(
            self.late(call.starving_since, call.patience.body_stall_s, now) for call in self._calls
        )

    def late(self, since: float | None, limit: float, now: float) -> bool:
        """Whether the client should have sent something by now, and nothing of it waits here."""
        return self._lateness.passed(since, limit, now, self.readable)

    def dawdles(self, now: float) -> bool:
        """Whether the rest of a frame is awaited for too long, on a connection that is in use."""
        if not self._reading or not isinstance(self._protocol, H2):
            return False
        return self.late(self._protocol.held_since, self._limits.slow_client_timeout_s, now)

    def finish(self) -> None:
        """Close in order: nothing more is read; what is to be said is sent."""
        self._enter(Phase.CLOSING)
        self._reader.cancel("the connection ends")

    def leave(self) -> None:
        """The client is gone, or as good as gone: reset the socket and cancel what runs for it."""
        self._left = True
        self._raw.abort()
        self.finish()

    def time_out(self) -> None:
        """The head of a request did not come in time: say so where that can be heard, and end."""
        # A server that leaves has no time to linger for one who may not read it.
        if self._protocol is not None and not self._shared.draining:
            self._farewell = self._protocol.farewell()
        if self._farewell:
            self.finish()
        else:
            self.leave()

    def stop(self) -> None:
        """Cancel everything, and reset the socket so that nothing can hold that up."""
        self.scope.cancel("the server stops")
        self._raw.abort()

    def drain(self) -> None:
        """No new request is served: let what runs run, and say so where the client can hear it."""
        if self._protocol is not None and self.phase is Phase.ACTIVE:
            self._protocol.drain()

    # Its life.

    async def run(self) -> None:
        """Serve the client until it leaves or we are done; the socket is closed in any case."""
        try:
            family = self._raw.socket.family
            self.client = parse_socket_addr(family, self._raw.socket.getpeername())
            self.server = parse_socket_addr(family, self._raw.socket.getsockname())
            async with trio.open_nursery() as self._nursery:
                with self._reader:
                    await self._serve()
                await self._end()
        except OSError:
            return  # the client was gone before we could ask who it is
        finally:
            self._raw.abort()

    async def _serve(self) -> None:
        """Read until the client leaves, or until the reader's scope is cancelled."""
        http2 = False
        if self._shared.ssl_context is not None:
            stream = trio.SSLStream(self._raw, self._shared.ssl_context, server_side=True)
            self._stream = stream
            try:
                await stream.do_handshake()
            except _GONE:
                self.leave()
                return
            http2 = stream.selected_alpn_protocol() == "h2"
            self._enter(Phase.IDLE)
        await self._speak(H2(self) if http2 else H11(self))
        while data := await self._read():
            await self._take(data)
            if self.phase is Phase.ACTIVE:
                continue
            if self._shared.draining:
                self.finish()
                return
            self._see_head()
        await self._see_off()

    def _see_head(self) -> None:
        """What has begun has a deadline of its own, whoever else waits."""
        assert self._protocol is not None  # noqa: S101 - only a protocol reads
        if self.phase is Phase.IDLE and self._protocol.begun:
            self._enter(Phase.HEAD)
        elif self.phase is Phase.HEAD and not self._protocol.begun:
            self._enter(Phase.IDLE)

    async def _speak(self, protocol: H11 | H2) -> None:
        self._protocol = protocol
        await protocol.initiate()

    async def _read(self) -> bytes:
        self._reading = True
        try:
            return bytes(await self._stream.receive_some(READ_SIZE))
        except _GONE:
            self.leave()
            return b""
        finally:
            self._reading = False

    async def _take(self, data: bytes) -> None:
        assert self._protocol is not None  # noqa: S101 - `_speak` came first
        try:
            await self._protocol.handle(RawData(data))
        except H2ProtocolAssumedError as preface:
            data = preface.data
        else:
            return
        # Out here, so that no report of what fails next shows these bytes as well.
        if self.phase is Phase.HEAD:
            self._enter(Phase.IDLE)
        await self._speak(H2(self))
        await self._protocol.handle(RawData(data))

    async def _see_off(self) -> None:
        """The client has closed its sending side; wait for its answer only if we are asked to."""
        grace = self._limits.half_close_grace_s
        waits = self.phase is Phase.ACTIVE and grace > 0
        if waits and not (self._protocol and self._protocol.owed(0.0)):
            self.half_closed_since = trio.current_time()
            with trio.move_on_after(grace):
                await self._idle.wait()
        if self.phase is Phase.ACTIVE:
            self.leave()

    async def _end(self) -> None:
        now = trio.current_time()
        idle_s = now - self.since if self.phase is Phase.IDLE else 0.0
        owed = self._protocol is not None and self._protocol.owed(idle_s)
        self._enter(Phase.CLOSING)
        if self._protocol is not None:
            await self._protocol.handle(Closed())
        for call in list(self._calls):
            call.leave()
        await self._write(self._farewell)
        if not self._left:
            await self._close(self._limits.linger_s if owed else 0.0)

    async def _close(self, linger_s: float) -> None:
        self._raw.linger_s = linger_s
        with trio.move_on_after(max(linger_s, _FAREWELL_S)):
            async with self._send_lock:
                await self._stream.aclose()
        self._raw.abort()

    async def _write(self, data: bytes) -> None:
        if self._left or not data:
            return
        rest = memoryview(data)
        try:
            if self._stream is self._raw and not self._send_lock.locked():
                rest = rest[self._raw.send_now(data) :]
            if rest:
                # Shielded: a part may be on the wire. The sweeper, or whoever stops us, resets the
                # socket, and that ends the wait.
                with trio.CancelScope(shield=True):
                    async with self._send_lock:
                        for at in range(0, len(rest), SEND_SIZE):
                            await self._stream.send_all(rest[at : at + SEND_SIZE])
        except _GONE:
            self.leave()

    def _update(self, *, idle: bool) -> None:
        if idle and self.phase is Phase.ACTIVE:
            self._enter(Phase.IDLE)
            self._idle.set()
            if self._shared.draining:
                self.finish()
            elif isinstance(self._protocol, H2):
                self._see_head()  # its reader may wait already
        elif not idle and self.phase in (Phase.IDLE, Phase.HEAD):
            self._enter(Phase.ACTIVE)
            if self._idle.is_set():
                self._idle = trio.Event()

    def _enter(self, phase: Phase) -> None:
        if phase is not self.phase and self.phase is not Phase.CLOSING:
            self._shared.population.move(self, phase)
            self.since = trio.current_time()

    def _cut_stalled(self) -> None:
        # What stalls may be for another stream of HTTP/2, and its user somebody else.
        shared = isinstance(self._protocol, H2) and len(self._calls) > 1
        if self._raw.sending_since is not None and not shared:
            self.leave()

    def _call_began(self, call: AppCall) -> None:
        self._calls.add(call)
        self._shared.call_began()

    def _call_ended(self, call: AppCall) -> None:
        self._calls.remove(call)
        self._shared.call_ended()
