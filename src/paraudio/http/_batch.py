"""Several jobs under one lease: each result is sent as it comes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol, TypeAlias

from quart.wrappers import Response

from paraudio.engines import Job, Result
from paraudio.errors import InvalidRequestError
from paraudio.http._ask import Ask, transcription_ask
from paraudio.http._body import read_form
from paraudio.http._core import Route
from paraudio.http._errors import Answer
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields
from paraudio.http._multipart import Form
from paraudio.http._prepare import prepare_all
from paraudio.http._render import Timing
from paraudio.http._sources import Uploaded
from paraudio.http._sse import (
    DONE,
    EVENT_STREAM,
    Frames,
    no_result,
    sse,
    sse_error,
    streamed,
)
from paraudio.http._transcripts import text_of
from paraudio.http._warnings import note_warnings, warning_fields
from paraudio.http._work import Done, Stopwatch, lease, named, run, timing_of
from paraudio.lifecycle import Use
from paraudio.spec import Json, ModelSpec

Numbered: TypeAlias = tuple[int, Result]
Timed: TypeAlias = tuple[int, Result, float]
"""A result with the seconds of work that it took."""

Render: TypeAlias = Callable[[int, Done], Awaitable[Mapping[str, object]]]


class BatchFrames(Frames[Timed]):
    """One event a result, one at the end."""

    content_type = EVENT_STREAM

    def __init__(
        self,
        exchange: Exchange,
        render: Render,
        done: str,
        spec: ModelSpec,
        jobs: Sequence[Job],
        *,
        together: bool,
    ) -> None:
        """Prepare the frames of one batch.

        Args:
            exchange: The request.
            render: Makes the event of a result.
            done: The type of the last event.
            spec: The configuration that the jobs run under.
            jobs: All of them; a result names its job by its index.
            together: Whether the jobs run at the same time, and not one after the other.
        """
        self._exchange = exchange
        self._render = render
        self._type = done
        self._spec = spec
        self._jobs = jobs
        self._together = together
        self._count = 0
        self._wall_s = 0.0
        self._audio_s = 0.0

    async def event(self, event: Timed) -> bytes:
        """The event of one result."""
        index, result, wall_s = event
        job = self._jobs[index]
        timing = timing_of(job, result, wall_s)
        self._count += 1
        self._wall_s = max(self._wall_s, wall_s) if self._together else self._wall_s + wall_s
        self._audio_s += timing.audio_s
        if not self._together:
            self._exchange.core.meters.worked(self._spec.id, timing.rtf)
        note_warnings(self._exchange, result)
        return sse(await self._render(index, Done(self._spec, job, result, timing)))

    def end(self) -> bytes:
        """The event that ends the batch, and the end mark."""
        if self._count < len(self._jobs):
            raise no_result()
        timing = Timing(self._wall_s, self._audio_s)
        if self._together:
            self._exchange.core.meters.worked(self._spec.id, timing.rtf)
        count = self._count
        return sse({"type": self._type, "result_count": count, "timing": timing.json()}) + DONE

    def failed(self, answer: Answer) -> bytes:
        """An error event; the results before it stand."""
        return sse_error(answer)


class MakeFrames(Protocol):
    """Makes the frames of a batch whose jobs are prepared."""

    def __call__(self, spec: ModelSpec, jobs: Sequence[Job], *, together: bool) -> BatchFrames:
        """Make them; see `BatchFrames`."""


async def open_batch(
    exchange: Exchange,
    asks: Sequence[Ask],
    frames: MakeFrames,
    *,
    native: bool,
) -> Response:
    """Start a batch and answer with its results, from the first one on.

    Args:
        exchange: The request; it takes the lease over.
        asks: One or more, all of one model.
        frames: Makes the frames, once the jobs are prepared.
        native: Whether a session that has no batch of its own is refused; else it runs the jobs
            one after the other.

    Raises:
        InvalidRequestError: A request of the batch is wrong, or the model has no native batch.
    """
    async with AsyncExitStack() as stack:
        use = await stack.enter_async_context(lease(exchange, asks[0]))
        jobs = await prepare_all(exchange.core, use, asks)
        if native and not use.can_batch:
            raise InvalidRequestError(
                f"model must be one that runs batches; {use.spec.id!r} does not", param="model"
            )
        watch = Stopwatch()
        try:
            if use.can_batch:
                together = await watch.spent(stack.enter_async_context(use.run_batch(jobs)))
                results: AsyncIterator[Timed] = Together(together, watch)
            else:
                results = OneByOne(use, jobs, asks)
            first = await anext(results)
        except StopAsyncIteration:
            raise no_result() from None
        except InvalidRequestError as error:
            # A native batch does not say whose job it refuses; only a name that all share is right.
            same = all(ask.names == asks[0].names for ask in asks)
            raise (named(error, asks[0]) if same else error) from error.__cause__
        framed = frames(use.spec, jobs, together=use.can_batch)
        exchange.hold(stack.pop_all())
        return streamed(exchange, first, results, framed)


class OneByOne:
    """Runs jobs in order, each when its result is asked for."""

    def __init__(self, use: Use, jobs: Sequence[Job], asks: Sequence[Ask]) -> None:
        self._use = use
        self._work: Iterator[tuple[int, tuple[Job, Ask]]]
        self._work = iter(enumerate(zip(jobs, asks, strict=True)))

    def __aiter__(self) -> AsyncIterator[Timed]:
        return self

    async def __anext__(self) -> Timed:
        """The result of the next job."""
        for index, (job, ask) in self._work:
            watch = Stopwatch()
            result = await watch.spent(run(self._use, job, ask))
            return index, result, watch.spent_s
        raise StopAsyncIteration


class Together:
    """The results of a native batch, each with the work that was done until it came."""

    def __init__(self, results: AsyncIterator[Numbered], watch: Stopwatch) -> None:
        """Follow a batch.

        Args:
            results: Its results, as they come.
            watch: Has timed its beginning.
        """
        self._results = results
        self._watch = watch

    def __aiter__(self) -> AsyncIterator[Timed]:
        return self

    async def __anext__(self) -> Timed:
        """The next result; waits for no client, so its reading is no work."""
        index, result = await self._watch.spent(anext(self._results))
        return index, result, self._watch.spent_s


async def transcribe_batch(exchange: Exchange) -> Response:
    """Write down what several recordings say, in one native batch."""
    with await read_form(exchange) as form:
        names: list[str] = [upload.filename for upload in form.files]

        async def render(index: int, done: Done) -> dict[str, Json]:
            return {
                "type": "batch.transcription.result",
                "index": index,
                "filename": names[index],
                "text": text_of(done.result),
                "timing": done.timing.json(),
                **warning_fields(done.result),
            }

        frames = partial(BatchFrames, exchange, render, "batch.transcription.done")
        return await open_batch(exchange, _asks(form), frames, native=True)


def _asks(form: Form) -> list[Ask]:
    if not form.files:
        raise InvalidRequestError("file is missing: send one or more sound files", param="file")
    fields = Fields(form.values(), form=True)
    return [transcription_ask(fields, Uploaded(file, file.field), "asr") for file in form.files]


ROUTES = (Route("POST", "/v1/batches/transcriptions", transcribe_batch),)
