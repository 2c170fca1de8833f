"""HTTP/2 frames in no sensible order."""

import random
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

Fields: TypeAlias = list[tuple[bytes, bytes]]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FIELDS: Final[Fields] = [
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":method", b"CONNECT"),
    (b":scheme", b"http"),
    (b":path", b"/read"),
    (b":path", b"/"),
    (b":authority", b"x"),
    (b":protocol", b"websocket"),
    (b":status", b"100"),
    (b"sec-websocket-version", b"13"),
    (b"content-length", b"5"),
    (b"X", b"y"),
]
GOOD: Final[Sequence[Fields]] = [
    [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/read"), (b":authority", b"x")],
    [
        (b":method", b"CONNECT"),
        (b":protocol", b"websocket"),
        (b":scheme", b"http"),
        (b":path", b"/ws"),
        (b":authority", b"x"),
        (b"sec-websocket-version", b"13"),
    ],
]


PIECES: Final = (b"", b"hello", b"\x81\x85\0\0\0\0hello", b"\x88\x80\0\0\0\0")


class Noise:
    """Makes frames; a seed makes the same ones again.

    Args:
        seed: The seed.
        heads: Fields of requests that would be answered.
        pieces: What bodies and websockets are made of.
    """

    def __init__(
        self, seed: int, heads: Sequence[Fields] = GOOD, pieces: Sequence[bytes] = PIECES
    ) -> None:
        self.random = random.Random(seed)
        self.encoder = Encoder()
        self.highest = 1
        self._heads = heads
        self._pieces = pieces

    def stream(self) -> int:
        if self.random.random() < 0.1:
            self.highest += 2
        return max(1, self.highest - 2 * self.random.randrange(3))

    def flags(self, *possible: str) -> list[str]:
        return [flag for flag in possible if self.random.random() < 0.7]

    def head(self) -> Frame:
        fields = self.random.choice(self._heads)
        if self.random.random() < 0.3:
            fields = self.random.sample(FIELDS, self.random.randrange(1, 8))
        block = self.encoder.encode(fields)
        if self.random.random() < 0.9:
            self.highest += 2
        ends = ["END_HEADERS"] if self.random.random() < 0.99 else []
        return HeadersFrame(self.stream(), block, flags=[*self.flags("END_STREAM"), *ends])

    def rest_of_a_head(self) -> Frame:
        return ContinuationFrame(self.stream(), b"", flags=self.flags("END_HEADERS"))

    def data(self) -> Frame:
        piece = self.random.choice(self._pieces)
        return DataFrame(self.stream(), piece, flags=self.flags("END_STREAM"))

    def reset(self) -> Frame:
        return RstStreamFrame(self.stream(), self.random.randrange(20))

    def window(self) -> Frame:
        if self.random.random() < 0.5:
            return WindowUpdateFrame(0, 1000)
        return WindowUpdateFrame(self.stream(), self.random.choice([1, 1000, 2**31 - 1]))

    def settings(self) -> Frame:
        return SettingsFrame(0, {self.random.randrange(9): self.random.choice([0, 1, 65_535])})

    def goaway(self) -> Frame:
        return GoAwayFrame(0, self.highest, self.random.randrange(2))

    def other(self) -> Frame:
        return self.random.choice(
            [
                PingFrame(0, b"12345678"),
                PriorityFrame(self.stream(), depends_on=self.stream()),
                PushPromiseFrame(self.stream(), 2, b"", flags=["END_HEADERS"]),
            ]
        )

    def packet(self) -> bytes:
        makers: list[Callable[[], Frame]] = [self.head] * 6 + [self.data] * 5
        makers += [self.reset, self.window]
        if self.random.random() < 0.1:
            makers += [self.goaway, self.settings, self.other, self.rest_of_a_head]
        data = b"".join(
            self.random.choice(makers)().serialize() for _ in range(self.random.randrange(1, 6))
        )
        if self.random.random() < 0.03:
            at = self.random.randrange(len(data))
            data = data[:at] + self.random.randbytes(1) + data[at + 1 :]
        return data
