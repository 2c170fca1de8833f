"""A live job and the answer that grows with it: bytes in, pieces, events, bytes out.

All of it is one task that does one thing at a time: it waits for the client, or for the model, or
for the client to take what the model made. So what is read ahead is what the connection holds, and
a model that is slower than its client slows the client down.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import TypeAlias

import trio
from quart.wrappers import Response

from paraudio.engines import Job, Piece, Result, StreamEvent
from paraudio.engines.isolation import LiveHandle
from paraudio.errors import InvalidRequestError
from paraudio.http._ask import Ask
from paraudio.http._exchange import Exchange
from paraudio.http._ingest import bounds_of
from paraudio.http._live_body import LiveBody
from paraudio.http._live_pieces import Pieces
from paraudio.http._prepare import prepare_live
from paraudio.http._render import Timing
from paraudio.http._sse import Frames, streamed
from paraudio.http._warnings import note_warnings
from paraudio.http._work import Watch, check_audible, lease, named
from paraudio.lifecycle import Use

MakeFrames: TypeAlias = "Callable[[Job, Watch], Frames[StreamEvent]]"


class LiveWatch(Watch):
    """Times a live stream, against the sound that the model was given."""

    def __init__(self, exchange: Exchange, job: Job) -> None:
        super().__init__(exchange, job)
        self._heard_s = 0.0

    def hears(self, piece: Piece) -> None:
        """Note what the model is given."""
        if not isinstance(piece, str):
            self._heard_s += piece.seconds

    def timing(self, result: Result) -> Timing:
        """The model's own time, against the sound that it heard or made."""
        told = super().timing(result)
        return Timing(self.spent_s, self._heard_s or told.audio_s, told.first_s)


class LiveEvents:
    """The events of a live job; asking for the next one is what reads the body.

    Args:
        live: The job.
        body: Its input.
        pieces: Makes pieces of it.
        watch: Times it.
        checked: Called with the result, before anybody sees it.
        ask: What was asked for, for the names of its fields.
    """

    def __init__(
        self,
        live: LiveHandle,
        body: AsyncIterator[bytes],
        pieces: Pieces,
        *,
        watch: LiveWatch,
        checked: Callable[[Result], None],
        ask: Ask,
    ) -> None:
        self._live = live
        self._body = body
        self._pieces = pieces
        self._watch = watch
        self._checked = checked
        self._ask = ask
        self._read: deque[bytes] = deque()
        self._waiting: deque[Piece] = deque()
        self._events: deque[StreamEvent] = deque()
        self._reading = True
        self._finished = False

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        """Wait for the next event.

        Raises:
            InvalidRequestError: The body is not what the route takes.
            ParaudioError: A bound was passed, or the model failed.
        """
        try:
            while not self._events:
                await self._step()
        except InvalidRequestError as error:
            raise named(error, self._ask) from error.__cause__
        event = self._events.popleft()
        if event.result is not None:
            self._checked(event.result)
        return event

    async def _step(self) -> None:
        """Work one piece through, or take some of what was read, or read on, or finish."""
        if self._waiting:
            piece = self._waiting.popleft()
            self._watch.hears(piece)
            self._events += await self._watch.spent(self._live.feed(piece))
        elif self._read:
            await trio.lowlevel.checkpoint()
            self._waiting += self._pieces.take(self._read.popleft())
        elif self._reading:
            try:
                data, turn = await anext(self._body), self._pieces.turn
                self._read += [data[at : at + turn] for at in range(0, len(data), turn)]
            except StopAsyncIteration:
                self._reading = False
                self._waiting += self._pieces.end()
        elif not self._finished:
            self._finished = True
            self._events += await self._watch.spent(self._live.finish())
        else:
            raise StopAsyncIteration


async def open_live(
    exchange: Exchange, ask: Ask, pieces: Pieces, frames: MakeFrames, instead: str
) -> Response:
    """Begin a live job, and answer with its events while the body is still coming.

    Nothing of the body is read before the model is ready and the job has begun; whatever fails
    until then is a plain error.

    Args:
        exchange: The request; it takes the lease over.
        ask: What is asked for.
        pieces: Makes pieces of the body.
        frames: Makes the frames, once the job is prepared.
        instead: What a client may do where the model works on whole inputs only.

    Raises:
        InvalidRequestError: The request is wrong, or the model does not take live input.
        PayloadTooLargeError: The body is declared larger than it may be.
    """
    exchange.reading = False
    async with AsyncExitStack() as stack:
        use = await stack.enter_async_context(lease(exchange, ask))
        body = LiveBody(exchange, bounds_of(exchange.core.settings, use.spec))
        job = await prepare_live(exchange.core, use, ask)
        live = await _begin(stack, use, job, ask, instead)
        watch = LiveWatch(exchange, job)

        def checked(result: Result) -> None:
            check_audible(job, result, ask)
            exchange.core.meters.worked(use.spec.id, watch.timing(result).rtf)
            note_warnings(exchange, result)

        events = LiveEvents(live, body, pieces, watch=watch, checked=checked, ask=ask)
        framed = frames(job, watch)
        await body.open()
        exchange.hold(stack.pop_all())
        return streamed(exchange, None, events, framed)


async def _begin(stack: AsyncExitStack, use: Use, job: Job, ask: Ask, instead: str) -> LiveHandle:
    """Begin the job, which lives as long as the stack."""
    if not use.can_live:
        raise InvalidRequestError(
            f"model must be one that takes live input; {use.spec.id!r} of family "
            f"{use.spec.family} does not: {instead}",
            param="model",
        )
    try:
        return await stack.enter_async_context(use.live(job))
    except InvalidRequestError as error:
        raise named(error, ask) from error.__cause__
