"""The way that every inference route shares: lease, job, run or stream, answer.

A lease is bound before anything that depends on the model is looked at. It is released when the
answer is complete in memory, or, for a stream, when its exchange ends.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import trio
from quart.wrappers import Response

from paraudio.engines import Audio, Job, Result, StreamEvent
from paraudio.errors import InvalidRequestError
from paraudio.http._ask import Ask
from paraudio.http._exchange import Exchange
from paraudio.http._prepare import prepare
from paraudio.http._render import Timing
from paraudio.http._sse import Frames, no_result, streamed
from paraudio.http._warnings import note_warnings, warning_headers
from paraudio.lifecycle import Use
from paraudio.spec import ModelSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done:
    """A job that ended well.

    Attributes:
        spec: The configuration that it ran under.
        job: The job.
        result: What came out.
        timing: How long it took.
    """

    spec: ModelSpec
    job: Job
    result: Result
    timing: Timing

    def headers(self) -> dict[str, str]:
        """What is measured and warned of, as headers."""
        return {**self.timing.headers(), **warning_headers(self.result)}


Render: TypeAlias = Callable[[Done], Awaitable[Response]]


def lease(exchange: Exchange, ask: Ask) -> AbstractAsyncContextManager[Use]:
    """The model that a request asks for, for as long as the block lasts."""
    exchange.model = ask.model
    use = exchange.core.runtime.use(ask.model, request=exchange.id, bound_ms=ask.bound_ms)
    exchange.use = use
    return use


async def perform(exchange: Exchange, ask: Ask, render: Render) -> Response:
    """Run a job and answer with what ``render`` makes of it, all under one lease.

    Cancelled: the run is stopped, and the lease is released when the session is free.

    Raises:
        InvalidRequestError: The request is wrong, for the model or in itself.
        ParaudioError: Admission, load or run failed.
    """
    async with lease(exchange, ask) as use:
        job = await prepare(exchange.core, use, ask)
        began = trio.current_time()
        result = await run(use, job, ask)
        wall_s = trio.current_time() - began
        timing = timing_of(job, result, wall_s)
        exchange.core.meters.worked(use.spec.id, timing.rtf)
        note_warnings(exchange, result)
        return await render(Done(use.spec, job, result, timing))


async def run(use: Use, job: Job, ask: Ask) -> Result:
    """Run a job; what it says of its fields is said in the route's own words."""
    try:
        result = await use.run(job)
    except InvalidRequestError as error:
        raise named(error, ask) from error.__cause__
    check_audible(job, result, ask)
    return result


async def open_stream(
    exchange: Exchange, ask: Ask, frames: Callable[[Job, "Watch"], Frames[StreamEvent]]
) -> Response:
    """Start a stream and answer with its events, from the first one on.

    A family that cannot stream runs the whole job; its result is streamed when the model is free
    again. Whatever fails before the first event is a plain error, before any header.

    Args:
        exchange: The request; it takes the lease over.
        ask: What is asked for.
        frames: Makes the frames, once the job is prepared.
    """
    async with AsyncExitStack() as stack:
        use = await stack.enter_async_context(lease(exchange, ask))
        job = await prepare(exchange.core, use, ask)
        watch = Watch(exchange, job)
        begun = await watch.spent(start_events(stack, use, job, ask))
        events: AsyncIterator[StreamEvent] = Measured(exchange, job, watch, begun)
        try:
            first = await anext(events)
        except StopAsyncIteration:
            raise no_result() from None
        if first.result is not None:
            check_audible(job, first.result, ask)
        framed = frames(job, watch)
        if use.can_stream:
            exchange.hold(stack.pop_all())
        response = streamed(exchange, first, events, framed)
        if first.audio is not None:
            response.headers.update(rate_header(first.audio))
        return response


async def start_events(
    stack: AsyncExitStack, use: Use, job: Job, ask: Ask
) -> AsyncIterator[StreamEvent]:
    """Start a job as a stream that lives as long as the stack; run it whole where that is all."""
    if not use.can_stream:
        return whole(await run(use, job, ask))
    try:
        return await stack.enter_async_context(use.stream(job))
    except InvalidRequestError as error:
        raise named(error, ask) from error.__cause__


class Stopwatch:
    """Adds up how long the model is at work; it runs within each block.

    Attributes:
        spent_s: Seconds of work so far: no wait for a slot or for a client that reads slowly.
    """

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = trio.current_time()

    def __exit__(self, *exc_info: object) -> None:
        self.spent_s += trio.current_time() - self._began

    async def spent(self, work: Awaitable[T]) -> T:
        """Wait for some of the work."""
        with self:
            return await work


class Watch(Stopwatch):
    """Times one stream: from its request to its first delta, and the work up to its result.

    Args:
        exchange: The request.
        job: What the stream is about.
    """

    def __init__(self, exchange: Exchange, job: Job) -> None:
        super().__init__()
        self._exchange = exchange
        self._job = job
        self._first_s: float | None = None
        self._made_s = 0.0

    def delta(self, audio: Audio | None = None) -> None:
        """Note a delta, and the sound that was made with it."""
        if self._first_s is None:
            self._first_s = trio.current_time() - self._exchange.started
        if audio is not None:
            self._made_s += audio.seconds

    def timing(self, result: Result) -> Timing:
        """What there is to say of the stream when its result is there."""
        timing = timing_of(self._job, result, self.spent_s, self._first_s)
        return Timing(self.spent_s, self._made_s or timing.audio_s, self._first_s)


class Measured:
    """The events of a stream; the work is measured, and the result and its warnings noted."""

    def __init__(
        self, exchange: Exchange, job: Job, watch: Watch, events: AsyncIterator[StreamEvent]
    ) -> None:
        self._exchange = exchange
        self._job = job
        self._watch = watch
        self._events = events
        self._audio_s = 0.0

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        """The next event."""
        event = await self._watch.spent(anext(self._events))
        if event.audio is not None:
            self._audio_s += event.audio.seconds
        if event.result is not None:
            timing = timing_of(self._job, event.result, self._watch.spent_s)
            if not timing.audio_s:
                timing = Timing(timing.wall_s, self._audio_s)
            self._exchange.core.meters.worked(self._exchange.model or "", timing.rtf)
            note_warnings(self._exchange, event.result)
        return event


class Whole:
    """The events of a result that was there at once."""

    def __init__(self, result: Result) -> None:
        events = [StreamEvent(result=result)]
        if result.audio is not None:
            events.insert(0, StreamEvent(audio=result.audio))
        elif result.text:
            events.insert(0, StreamEvent(text=result.text))
        elif result.speaker_turns:
            events.insert(0, StreamEvent(turns=result.speaker_turns))
        self._events = iter(events)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        """The next event."""
        try:
            return next(self._events)
        except StopIteration:
            raise StopAsyncIteration from None


def whole(result: Result) -> AsyncIterator[StreamEvent]:
    """A result as the events of a stream."""
    return Whole(result)


def check_audible(job: Job, result: Result, ask: Ask) -> None:
    """Refuse a text of which nothing was spoken: silence is no success.

    Raises:
        InvalidRequestError: The result has no sound.
    """
    if job.task == "tts" and (result.audio is None or not len(result.audio.samples)):
        param = ask.called("text")
        raise InvalidRequestError(
            f"{param} must be a text with something to speak; this model found nothing in it",
            param=param,
        )


def rate_header(audio: Audio) -> dict[str, str]:
    """The sample rate of a sound, which bare samples do not say."""
    return {"X-Paraudio-Sample-Rate": str(audio.rate)}


def timing_of(job: Job, result: Result, wall_s: float, first_s: float | None = None) -> Timing:
    """Measure a run against the sound that it made, else against the sound that it worked on."""
    sound: Audio | None = result.audio if result.audio is not None else job.audio
    return Timing(wall_s, 0.0 if sound is None else sound.seconds, first_s)


def named(error: InvalidRequestError, ask: Ask) -> InvalidRequestError:
    """The same error with the request's own word for the field, in its message too."""
    return error if error.param is None else error.call_it(ask.called(error.param))
