"""Server-sent events, and the sending of what a model makes piece by piece.

Sending holds no lease: that is the exchange's. It only pulls, so a client that reads slowly slows
the model down, and a client that leaves ends the pull where it stands.
"""

import math
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from quart.wrappers import Response
from quart_trio.wrappers import TrioResponse

from paraudio.errors import BackendError
from paraudio.http._errors import Answer, split_cancelled
from paraudio.http._exchange import Exchange
from paraudio.http._heartbeat import kept_alive, quiet_s
from paraudio.http._respond import dump
from paraudio.spec import Json
from paraudio.transport import Writer, WrittenBody

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
DONE: Final = b"data: [DONE]\n\n"

_STREAM_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def sse(value: Mapping[str, object]) -> bytes:
    """One event: one JSON line."""
    return b"data: " + dump(value) + b"\n\n"


def sse_error(answer: Answer) -> bytes:
    """The last event of a stream that failed."""
    return sse({"type": "error", "error": answer.error})


class Frames(Protocol[T_contra]):
    """Turns what a model makes into the bytes of one stream; plain code, used for one stream."""

    content_type: str

    async def event(self, event: T_contra) -> bytes:
        """The bytes of one event; none where the client is told nothing."""

    def end(self) -> bytes:
        """The last bytes of a stream that ended well.

        Raises:
            BackendError: The model ended it before its result.
        """

    def failed(self, answer: Answer) -> bytes | None:
        """The last bytes of a stream that failed; None where it can only be cut off."""


class EventFrames(Frames[T_contra]):
    """Frames that are server-sent events: deltas, then one event with the whole, then the mark.

    Attributes:
        done: The event that ends the stream, once the result has come.
    """

    content_type = EVENT_STREAM

    def __init__(self) -> None:
        self.done: Mapping[str, Json] | None = None

    def end(self) -> bytes:
        """``done``, and the end mark."""
        if self.done is None:
            raise no_result()
        return sse(self.done) + DONE

    def failed(self, answer: Answer) -> bytes:
        """An error event."""
        return sse_error(answer)


def streamed(
    exchange: Exchange, first: T | None, events: AsyncIterator[T], frames: Frames[T]
) -> Response:
    """An answer that sends the events of a stream as they come, and says how it ended.

    Args:
        exchange: The request.
        first: The event that was there before the headers; without one the headers are sent at
            once, for a client that sends on when it has seen them.
        events: The others.
        frames: How they look.
    """
    every_s = math.inf
    if frames.content_type == EVENT_STREAM:
        every_s = quiet_s(exchange.core.settings)
    pumped = partial(pump, exchange, first, events, frames)

    async def write_to(write: Writer) -> None:
        await kept_alive(write, every_s, pumped)

    return stream_answer(WrittenBody(write_to), frames.content_type)


async def pump(
    exchange: Exchange, first: T | None, events: AsyncIterator[T], frames: Frames[T], write: Writer
) -> None:
    """Send the events of a stream as they come, and say how it ended.

    Args:
        exchange: The request.
        first: The event that was there before the headers, or None.
        events: The others.
        frames: How they look.
        write: Sends bytes; returns when the socket has taken them.

    Raises:
        Exception: What ended the stream, where the client can only be told by cutting it off.
    """
    try:
        if first is None:
            await write(b"")
        else:
            await _send(first, frames, write)
        async for event in events:
            await _send(event, frames, write)
        await write(frames.end())
    except (Exception, BaseExceptionGroup) as error:
        cancelled, ours = split_cancelled(error)
        if ours is None:
            raise
        answer = exchange.answer_to(ours)
        last = None if cancelled else frames.failed(answer)
        if last is None:
            raise
        await write(last)


async def _send(event: T, frames: Frames[T], write: Writer) -> None:
    if piece := await frames.event(event):
        await write(piece)


def stream_answer(body: WrittenBody, content_type: str) -> Response:
    """An answer with a streamed body, which proxies pass on as it comes."""
    response = TrioResponse(body, content_type=content_type, headers=_STREAM_HEADERS)
    response.timeout = None
    return response


def no_result() -> BackendError:
    """The error for a stream that ended before its result."""
    return BackendError("the model ended its stream before the result")
