"""What an attacker does to a server, one connection at a time; chance decides, from a seed."""

import base64
import json
import random
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import trio
from hyperframe.frame import SettingsFrame
from tests.http.wire import SEEDS, answers, json_request, mutated, request
from tests.transport.noise import PREFACE, Fields, Noise
from tools.served import Tally

HANGS_S: Final = 75.0
"""Nobody waits longer: the server's own longest patience is that of an idle connection, 30 s."""

QUIET_S: Final = 0.3
"""After a part of an answer, as much silence is taken for its end."""

BUSY: Final = frozenset({503, 504, 507})
"""What a server may say that is not at fault: that it has no room just now."""

VOICES: Final = ("voice", "voice", "apart")
TEXT: Final = "Good morning to everyone in the house. "
SOUND: Final = base64.b64encode(b"\x00\x40" * 6000).decode()
GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError)
"""How a connection ends that the server has had enough of, or the attacker."""

HEADS: Final[tuple[Fields, ...]] = (
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/v1/audio/speech"),
        (b":authority", b"x"),
    ],
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/v1/audio/transcriptions/live?model=ears"),
        (b":authority", b"x"),
    ],
    [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/v1/models"),
        (b":authority", b"x"),
    ],
    [
        (b":method", b"CONNECT"),
        (b":protocol", b"websocket"),
        (b":scheme", b"http"),
        (b":path", b"/v1/realtime?model=ears"),
        (b":authority", b"x"),
        (b"sec-websocket-version", b"13"),
    ],
)
BODIES: Final = (
    b"",
    b'{"model": "voice", "input": "hello", "stream_format": "sse"}',
    bytes(3200),
    b"\x88\x80\0\0\0\0",
)
EVENTS: Final[tuple[object, ...]] = (
    {"type": "input_audio_buffer.append", "audio": SOUND},
    {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(9600)).decode()},
    {"type": "input_audio_buffer.append", "audio": "!"},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {
        "type": "session.update",
        "session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}},
    },
    {"type": "session.update", "session": {"type": "transcription", "audio": {"input": 1}}},
    {"type": "conversation.item.delete", "item_id": "nothing"},
    {"type": None},
    [],
    "text",
)
MANAGED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("/v1/models/unload", {"id": "voice"}),
    ("/v1/models/unload", {"id": "ears"}),
    ("/v1/models/load", {"id": "apart"}),
    ("/v1/tasks/unload_models", {"model_ids": ["ears", "vad"], "fence": True}),
    ("/v1/tasks/unload_models", {"model_ids": ["voice", "nothing"]}),
    ("/v1/tasks/unload_all_models", {}),
)


@cache
def _context(*, http2: bool) -> ssl.SSLContext:
    """How an attacker speaks TLS: it trusts everybody. One for all, for each takes a megabyte."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
    return context


@dataclass(frozen=True)
class Target:
    """Where the server is.

    Attributes:
        port: Its port on this machine.
        trusted: What its certificate is trusted by, or None where it speaks no TLS.
    """

    port: int
    trusted: ssl.SSLContext | None

    async def connect(self, *, http2: bool = False) -> "Wire":
        """Connect; over TLS that takes the handshake."""
        raw = await trio.open_tcp_stream("localhost", self.port)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.trusted is None:
            return Wire(raw, raw)
        stream = trio.SSLStream(raw, _context(http2=http2), https_compatible=True)
        with trio.fail_after(HANGS_S):
            await stream.do_handshake()
        return Wire(raw, stream)


@dataclass
class Wire:
    """One connection.

    Attributes:
        raw: The connection.
        stream: What is spoken over it, which may be TLS.
    """

    raw: trio.SocketStream
    stream: trio.abc.Stream

    async def send(self, data: bytes, *, pieces: int = 1) -> None:
        """Send bytes, in so many pieces at least."""
        size = max(1, -(-len(data) // pieces))
        for at in range(0, len(data), size):
            await self.stream.send_all(data[at : at + size])
            await trio.lowlevel.checkpoint()

    async def heard(self) -> bytes:
        """What comes, until the server ends it or falls silent.

        Raises:
            trio.TooSlowError: Nothing comes, not even the end.
        """
        got = bytearray()
        with suppress(*GONE):
            with trio.fail_after(HANGS_S):
                got += await self.stream.receive_some(65536)
            with trio.move_on_after(HANGS_S):
                while got:
                    with trio.move_on_after(QUIET_S) as quiet:
                        more = await self.stream.receive_some(65536)
                    if quiet.cancelled_caught or not more:
                        break
                    got += more
        return bytes(got)

    def leave(self, dice: random.Random) -> None:
        """Be gone: in order, or by a reset; over TLS without a goodbye."""
        if dice.random() < 0.5:
            linger = struct.pack("ii", 1, 0)
            with suppress(OSError):
                self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.raw.socket.close()


class Attacker:
    """One attacker, who does one thing after the other.

    Args:
        target: The server.
        dice: What decides.
        tally: Where it is noted.
    """

    def __init__(self, target: Target, dice: random.Random, tally: Tally) -> None:
        self._target = target
        self._dice = dice
        self._tally = tally

    async def attack(self) -> None:
        """Attack for as long as it is let."""
        while True:
            name = self._dice.choice(tuple(ATTACKS))
            self._tally.seen[name] += 1
            try:
                await ATTACKS[name](self)
            except trio.TooSlowError:
                self._tally.wrong.append(f"{name}: no end within {HANGS_S} s")
            except GONE:
                self._tally.seen["cut off by the server"] += 1

    async def breaks(self) -> None:
        """Send broken requests, and hear what the server says of them."""
        data = mutated(self._dice)
        wire = await self._target.connect()
        try:
            with suppress(*GONE):  # it may have heard enough, and have said so
                await wire.send(data, pieces=self._dice.choice((1, 1, 3)))
            self._judge(data, await wire.heard())
        finally:
            wire.leave(self._dice)

    async def cuts(self) -> None:
        """Go in the middle of a request, or soon after it."""
        data = self._request()
        if self._dice.random() < 0.6:
            data = data[: self._dice.randrange(len(data))]
        wire = await self._target.connect()
        try:
            await wire.send(data)
            await trio.sleep(self._dice.choice((0, 0, 0.003, 0.03)))
            if self._target.trusted is None and self._dice.random() < 0.3:
                await wire.raw.send_eof()
                self._judge(data, await wire.heard())
        finally:
            wire.leave(self._dice)

    async def dawdles(self) -> None:
        """Send drop by drop, and take the answer so."""
        data = self._request()
        wire = await self._target.connect()
        try:
            await wire.send(data, pieces=self._dice.choice((20, 60)))
            with trio.move_on_after(self._dice.uniform(0, 3)):
                more = True
                while more:
                    more = bool(await wire.stream.receive_some(20))
                    await trio.sleep(0.005)
        finally:
            wire.leave(self._dice)

    async def takes_nothing(self) -> None:
        """Ask for much, and read none of it."""
        fields: dict[str, Any] = {"model": self._dice.choice(VOICES), "input": TEXT * 400}
        fields |= {"stream_format": "audio", "response_format": "pcm", "busy_timeout_ms": 500}
        wire = await self._target.connect()
        try:
            await wire.send(json_request("/v1/audio/speech", **fields))
            await trio.sleep(self._dice.uniform(0, 4))
        finally:
            wire.leave(self._dice)

    async def crowds(self) -> None:
        """Put many requests on one connection, and go or wait for all."""
        data = b"".join(self._request() for _ in range(self._dice.randrange(2, 12)))
        wire = await self._target.connect()
        try:
            async with trio.open_nursery() as nursery:

                async def send() -> None:
                    with suppress(*GONE):
                        await wire.send(data)

                nursery.start_soon(send)
                if self._dice.random() < 0.5:
                    await trio.sleep(self._dice.uniform(0, 0.2))
                else:
                    self._judge(data, await wire.heard())
                nursery.cancel_scope.cancel()
        finally:
            wire.leave(self._dice)

    async def makes_noise(self) -> None:
        """Send frames of HTTP/2 in no sensible order."""
        noise = Noise(self._dice.randrange(2**32), HEADS, BODIES)
        wire = await self._target.connect(http2=True)
        try:
            await wire.send(PREFACE + SettingsFrame(0, {}).serialize())
            for _ in range(self._dice.randrange(1, 25)):
                await wire.send(noise.packet())
                await trio.sleep(self._dice.choice((0, 0, 0.002, 0.02)))
        finally:
            wire.leave(self._dice)

    async def talks(self) -> None:
        """Talk sense and nonsense to a realtime session."""
        wire = await self._target.connect()
        try:
            fields = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
            key = f"Sec-WebSocket-Key: {base64.b64encode(self._dice.randbytes(16)).decode()}"
            model = self._dice.choice(("ears", "ears", "voice", "nothing"))
            await wire.send(request(f"GET /v1/realtime?model={model}", b"", *fields, key))
            heard = await wire.heard() if self._dice.random() < 0.9 else b""
            for _ in range(self._dice.randrange(20)):
                await wire.send(self._message())
                await trio.sleep(self._dice.choice((0, 0, 0.01, 0.05)))
            heard += await wire.heard()
            self._tally.seen[f"talks: {heard[9:12].decode('ascii', 'replace')}"] += 1
            if b'"server_error"' in heard:
                self._tally.wrong.append(f"talks: {heard[-500:]!r}")
        finally:
            wire.leave(self._dice)

    async def operates(self) -> None:
        """Load and unload, and sometimes do not wait for it."""
        path, fields = self._dice.choice(MANAGED)
        data = json_request(path, **fields, busy_timeout_ms=2000)
        wire = await self._target.connect()
        try:
            await wire.send(data)
            if self._dice.random() < 0.3:
                await trio.sleep(self._dice.uniform(0, 0.1))
            else:
                self._judge(data, await wire.heard())
            await trio.sleep(self._dice.uniform(0, 0.5))
        finally:
            wire.leave(self._dice)

    def _request(self) -> bytes:
        if self._dice.random() < 0.5:
            return self._dice.choice(SEEDS)
        fields: dict[str, Any] = {"model": self._dice.choice(VOICES), "input": TEXT}
        if self._dice.random() < 0.5:
            fields["stream_format"] = self._dice.choice(("sse", "audio"))
        if self._dice.random() < 0.3:
            fields["busy_timeout_ms"] = self._dice.randrange(50)
        kind = self._dice.choice(("wav", "pcm", "mp3", "opus", "flac", "aac"))
        return json_request("/v1/audio/speech", **fields, response_format=kind)

    def _message(self) -> bytes:
        """A frame with an event, or with something else."""
        dice, text = self._dice, json.dumps(self._dice.choice(EVENTS)).encode()
        match dice.randrange(12):
            case 0:
                return dice.randbytes(dice.randrange(1, 40))
            case 1:
                return _frame(dice.randbytes(30), opcode=dice.choice((1, 2, 8, 9, 10, 11)))
            case 2:
                half = len(text) // 2
                return (
                    _frame(text[:half], last=False)
                    + _frame(b"", opcode=9)
                    + _frame(text[half:], opcode=0)
                )
            case 3:
                return _frame(b"\x03\xe8", opcode=8)
            case _:
                return _frame(text)

    def _judge(self, sent: bytes, got: bytes) -> None:
        """Count the answers, and keep those that put the fault on the server."""
        for status, _, body in answers(got):
            self._tally.seen[f"answer {status}"] += 1
            if status >= 500 and status not in BUSY:
                self._tally.wrong.append(f"{status} {body[:300]!r} to {sent[:500]!r}")


def _frame(payload: bytes, *, opcode: int = 1, last: bool = True) -> bytes:
    """A frame of a websocket's client, masked with zeros (RFC 6455, 5.2)."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 2**16:
        length = bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        length = bytes([0x80 | 127]) + struct.pack(">Q", size)
    return bytes([(0x80 if last else 0) | opcode]) + length + bytes(4) + payload


ATTACKS: Final[Mapping[str, Callable[[Attacker], Awaitable[None]]]] = {
    "breaks requests": Attacker.breaks,
    "cuts requests off": Attacker.cuts,
    "dawdles": Attacker.dawdles,
    "takes no answer": Attacker.takes_nothing,
    "crowds a connection": Attacker.crowds,
    "makes noise of frames": Attacker.makes_noise,
    "talks nonsense": Attacker.talks,
    "operates": Attacker.operates,
}
"""What an attacker can do, by what it is called."""
