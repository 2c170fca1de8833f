"""The body of a live request, within the bounds of ``live_ingest``."""

import math
from collections.abc import AsyncIterator
from typing import Any, Self, cast

import trio

from paraudio.errors import BodyTimeoutError, BodyTooLongError, PayloadTooLargeError
from paraudio.http._body import pieces
from paraudio.http._exchange import Exchange
from paraudio.http._ingest import Bounds
from paraudio.transport import AppCall, Deadline, PullBody, call_of


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
        self._whole = Deadline(math.inf, self._waits)
        body = exchange.request.body
        if isinstance(body, PullBody):
            body.limit(bounds.body_bytes)
            body.check()
        self._pieces: AsyncIterator[bytes] = pieces(exchange.request)

    async def open(self) -> None:
        """Begin to count, and ask for the body; before the first byte of the answer."""
        self._whole.at = trio.current_time() + self._bounds.total_s
        if self._call is not None:
            # Our own bounds hold from here on, and say which one it was.
            self._call.patience.body_stall_s = math.inf
            self._call.patience.send_stall_s = self._bounds.send_s
            await self._call.invite_body()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Wait for the next piece; who was stopped for a while looks at what came meanwhile."""
        pause = Deadline(trio.current_time() + self._bounds.idle_s, self._waits)
        while True:
            first = min(self._whole, pause, key=lambda deadline: deadline.at)
            if trio.current_time() < first.at:
                with trio.move_on_at(first.at):
                    piece = await anext(self._pieces)
                    self._check_chunk()
                    return piece
            if await first.is_over():
                raise self._paused() if first is pause else self._too_long()

    def _waits(self) -> bool:
        return self._call is not None and self._call.waiting()

    def _paused(self) -> BodyTimeoutError:
        return BodyTimeoutError(
            f"nothing of the body came for {_ms(self._bounds.idle_s)} ms "
            "(live_ingest.idle_timeout_ms); send silence too, or end the body"
        )

    def _too_long(self) -> BodyTooLongError:
        return BodyTooLongError(
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
