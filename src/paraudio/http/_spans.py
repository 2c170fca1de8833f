"""Spans for OpenTelemetry: made of what `Tracing` tells, and sent from a task of ours.

The SDK brings threads and an exit hook of its own for that. Here the export is a task in a scope:
it is waited for at the end, for a bounded time, and can hold nothing up. The libraries are imported
only where the environment asks for spans.
"""

import logging
import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

import trio

from paraudio.errors import ConfigError
from paraudio.http._tracing import Part, Story, Told, Tracing

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

MAX_WAITING: Final = 10_000
"""Spans that wait for their export; what comes on top is lost, and counted."""
MAX_BATCH: Final = 512
PAUSE_S: Final = 1.0
"""Between two exports, so that few large ones are sent."""
LAST_S: Final = 0.5
"""How long the last export may take, within the second that a shutdown has beyond its phases."""

_ASKED_BY: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)
_NS: Final = 1_000_000_000


def exporter_name(environ: Mapping[str, str]) -> str | None:
    """The exporter that the environment asks for, or None where it asks for none."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if not any(environ.get(name) for name in _ASKED_BY):
        return None
    name = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    return None if name == "none" else name


@asynccontextmanager
async def open_tracing(environ: Mapping[str, str] = os.environ) -> AsyncIterator[Tracing | None]:
    """Open what makes and sends spans, where the standard's ``OTEL_`` variables ask for them.

    Args:
        environ: The environment; without an endpoint or an exporter in it nothing is imported.

    Yields:
        What follows the journal, or None.

    Raises:
        ConfigError: The environment asks for spans, and the extra ``otel`` or the exporter is not
            installed.

    Left: what waits is sent, as far as that is possible within `LAST_S`. Cancelled: it is lost.
    """
    name = exporter_name(environ)
    if name is None:
        yield None
        return
    exporter = _exporter(name, environ)
    spool = Spool(exporter)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(spool.run)
        try:
            yield Tracing(Spans(spool))
        finally:
            nursery.cancel_scope.cancel("the last spans have been made")
    with trio.move_on_after(LAST_S):
        await spool.send()
    spool.close()


def _exporter(name: str, environ: Mapping[str, str]) -> "SpanExporter":
    """Find an exporter by the name that the standard gives it."""
    known = name
    if name == "otlp":
        protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
        )
        known = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    found = entry_points(group="opentelemetry_traces_exporter", name=known)
    if not found:
        asked = next(asking for asking in _ASKED_BY if environ.get(asking))
        raise ConfigError(
            f"{asked} asks for spans by {name!r}, and no exporter {known!r} is "
            "installed; the extra otel brings otlp over http and console: in a clone "
            "python3 -m uv run --extra otel paraudio, or pip install '.[otel]'",
            param=asked,
        )
    exporter: SpanExporter = next(iter(found)).load()()
    return exporter


class Spool:
    """Spans on their way out: taken at once, sent in batches from a thread of Trio's.

    Args:
        exporter: What sends them; it may block.

    Attributes:
        lost: Spans that could not be sent.
    """

    def __init__(self, exporter: "SpanExporter") -> None:
        self.lost = 0
        self._exporter = exporter
        self._waiting: deque[ReadableSpan] = deque()
        self._failed = False

    # What the SDK calls.

    def on_start(self, span: "Span", parent_context: "Context | None" = None) -> None:
        """Take no notice."""

    def _on_ending(self, span: "Span") -> None:
        """Take no notice."""

    def on_end(self, span: "ReadableSpan") -> None:
        """Take a span that is complete."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if len(self._waiting) >= MAX_WAITING:
            self.lost += 1
        else:
            self._waiting.append(span)

    def shutdown(self) -> None:
        """Take no notice: the scope closes it."""

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Take no notice: the scope sends what waits."""
        del timeout_millis
        return True

    # What its scope calls.

    async def run(self) -> None:
        """Send batches, with a pause between two, until cancelled."""
        while True:
            await trio.sleep(PAUSE_S)
            await self.send()

    async def send(self) -> None:
        """Send everything that waits. Cancelled: the batch on its way counts as lost."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
            try:
                result = await trio.to_thread.run_sync(
                    self._exporter.export, batch, abandon_on_cancel=True
                )
            except trio.Cancelled:
                self.lost += len(batch)
                raise
            except Exception as error:
                self._note_lost(len(batch), error)
            else:
                if result.name != "SUCCESS":
                    self._note_lost(len(batch), result.name)

    def close(self) -> None:
        """Say what was lost, and let the exporter go."""
        self.lost += len(self._waiting)
        if self.lost:
            log.warning("%d spans were lost", self.lost)
        if not self._failed and not self._waiting:
            self._exporter.shutdown()

    def _note_lost(self, count: int, reason: object) -> None:
        self.lost += count
        if not self._failed:
            self._failed = True
            log.warning("spans cannot be sent, and are lost from here on: %s", reason)


class Spans:
    """Makes the spans of a request; a `Sink`.

    Args:
        spool: What takes them; the sampler, the resource and the limits are those of the SDK, which
            reads them from the environment.
    """

    def __init__(self, spool: Spool) -> None:
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - where it is asked for

        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(spool)  # type: ignore[arg-type]  # it has all that is called
        self._tracer: Tracer = provider.get_tracer("paraudio")

    def tell(self, told: Told, story: Story) -> None:
        """Make the spans of one request."""
        from opentelemetry import propagate, trace  # noqa: PLC0415 - where it is asked for

        clock = _Clock()
        carrier = {name.lower(): value for name, value in told.headers.items()}
        root = self._tracer.start_span(
            f"{told.method} {told.route}",
            context=propagate.extract(carrier),
            kind=trace.SpanKind.SERVER,
            start_time=clock.ns(told.started),
            attributes=_attributes(told, story),
        )
        if told.fault:
            root.set_status(trace.StatusCode.ERROR)
        within = trace.set_span_in_context(root)
        for part in story.parts:
            span = self._tracer.start_span(
                part.name,
                context=within,
                start_time=clock.ns(part.began),
                attributes=_part_attributes(part),
            )
            if part.error is not None:
                span.set_status(trace.StatusCode.ERROR, part.error)
            span.end(clock.ns(told.ended if part.ended is None else part.ended))
        root.end(clock.ns(told.ended))


class _Clock:
    """The server's clock in wall time, as the two stand to each other at this moment."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - math.floor(trio.current_time() * _NS)

    def ns(self, at: float) -> int:
        """Nanoseconds of the Unix epoch."""
        return self._offset_ns + math.floor(at * _NS)


def _attributes(told: Told, story: Story) -> dict[str, str | int]:
    """What the standard and we say of a request."""
    found: dict[str, str | int | None] = {
        "http.request.method": told.method,
        "http.route": told.route,
        "http.response.status_code": told.status or None,
        "error.type": told.code or (str(told.status) if told.fault else None),
        "paraudio.request.id": told.id,
        "paraudio.model": told.model,
        "paraudio.task": told.task,
        "paraudio.cancel.cause": story.cause,
    }
    return {name: value for name, value in found.items() if value is not None}


def _part_attributes(part: Part) -> dict[str, str | int | float | bool]:
    """What we say of a wait, a load or a run."""
    found: dict[str, str | int | float | bool] = {"paraudio.model": part.model}
    for name, value in part.facts.items():
        if isinstance(value, str | int | float):
            found[f"paraudio.{name}"] = value
    if part.ended is None:
        found["paraudio.unfinished"] = True
    if part.error is not None:
        found["error.type"] = part.error
    return found
