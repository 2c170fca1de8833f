"""The body of a live request, within the bounds of ``live_ingest``."""

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self, cast

import trio

from paraudio.config import Settings
from paraudio.errors import BodyTimeoutError, BodyTooLongError, PayloadTooLargeError
from paraudio.http._body import pieces
from paraudio.http._exchange import Exchange
from paraudio.spec import ModelSpec
from paraudio.transport import AppCall, PullBody, call_of


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a live upload may take; without a bound it is infinite.

    Attributes:
        idle_s: The longest pause between two pieces.
        total_s: The longest time from the first read to the end of the body.
        body_bytes: The largest body, or None.
        chunk_bytes: The largest chunk of a body in HTTP/1.1's chunked coding.
        send_s: The longest time that the client takes nothing of the answer.
    """

    idle_s: float
    total_s: float
    body_bytes: int | None
    chunk_bytes: int
    send_s: float


def bounds_of(settings: Settings, spec: ModelSpec) -> Bounds:
    """The server's bounds under those that the model has of its own."""
    merged = {**settings.live_ingest.model_dump(), **spec.live_ingest}
    return Bounds(
        idle_s=_seconds(merged["idle_timeout_ms"]),
        total_s=_seconds(merged["total_timeout_ms"]),
        body_bytes=merged["max_body_bytes"] or None,
        chunk_bytes=merged["max_chunk_bytes"],
        send_s=_seconds(merged["send_timeout_ms"]),
    )


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000 or math.inf


class LiveBody:
    """The pieces of a body as the client sends them; no more is read than is asked for.

    Made before the answer begins: a body that is declared too large is refused, and a client that
    waits for it is told to send. Cancelled, nothing of the body is lost.

    Raises:
        PayloadTooLargeError: More was declared, or has come, than the bounds allow.
        BodyTimeoutError: Nothing came for too long.
        BodyTooLongError: The end did not come in time.
    """

    def __init__(self, exchange: Exchange, bounds: Bounds) -> None:
        self._bounds = bounds
        self._call = _call_of(exchange)
        self._ends = math.inf
        body = exchange.request.body
        if isinstance(body, PullBody):
            body.limit(bounds.body_bytes)
            body.check()
        self._pieces: AsyncIterator[bytes] = pieces(exchange.request)

    async def open(self) -> None:
        """Begin to count, and ask for the body; before the first byte of the answer."""
        self._ends = trio.current_time() + self._bounds.total_s
        if self._call is not None:
            # Our own bounds hold from here on, and say which one it was.
            self._call.patience.body_stall_s = math.inf
            self._call.patience.send_stall_s = self._bounds.send_s
            await self._call.invite_body()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Wait for the next piece."""
        now = trio.current_time()
        idles = now + self._bounds.idle_s
        if now < self._ends:
            with trio.move_on_at(min(idles, self._ends)):
                piece = await anext(self._pieces)
                self._check_chunk()
                return piece
        if idles < self._ends:
            raise BodyTimeoutError(
                f"nothing of the body came for {_ms(self._bounds.idle_s)} ms "
                "(live_ingest.idle_timeout_ms); send silence too, or end the body"
            )
        raise BodyTooLongError(
            f"the body did not end within {_ms(self._bounds.total_s)} ms "
            "(live_ingest.total_timeout_ms)"
        )

    def _check_chunk(self) -> None:
        if self._call is not None and self._call.largest_chunk > self._bounds.chunk_bytes:
            raise PayloadTooLargeError(
                f"a chunk of the body has more than {self._bounds.chunk_bytes} bytes "
                "(live_ingest.max_chunk_bytes); send smaller chunks"
            )


def _call_of(exchange: Exchange) -> AppCall | None:
    return call_of(cast("dict[str, Any]", exchange.request.scope))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
