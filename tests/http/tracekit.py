"""A world whose requests are traced, and a look at their spans."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from tests.http.conftest import OpenWorld, World

from paraudio.http._spans import Spans, Spool
from paraudio.http._tracing import Tracing


class Traced:
    """A world, and the spans that came of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exporter = InMemorySpanExporter()
        self.spool = Spool(self.exporter)
        self.tracing = Tracing(Spans(self.spool))

    async def spans(self) -> list[ReadableSpan]:
        """The spans so far: the parts of each request in their order, then its own."""
        await self.spool.send()
        return list(self.exporter.get_finished_spans())

    async def one(self) -> ReadableSpan:
        (root,) = [span for span in await self.spans() if span.kind is SpanKind.SERVER]
        return root

    async def parts(self) -> list[ReadableSpan]:
        return [span for span in await self.spans() if span.kind is not SpanKind.SERVER]


@asynccontextmanager
async def tracing(open_world: OpenWorld, *models: Any, **more: Any) -> AsyncIterator[Traced]:
    async with open_world(*models, **more) as world:
        traced = Traced(world)
        core = world.client.app.core
        object.__setattr__(core, "tracing", traced.tracing)
        world.journal.follow(traced.tracing.observe)
        yield traced
        assert traced.tracing.open_stories == 0, "something is remembered of what is over"


def ms(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e6


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    """What a span says beside its name and its times."""
    assert span.attributes is not None
    return span.attributes
