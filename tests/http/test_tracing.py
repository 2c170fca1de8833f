"""Spans of requests: what is told of each, and that nothing is imported where nobody asked."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.http import realtimekit
from tests.http.conftest import OpenWorld, spec
from tests.http.tracekit import facts, ms, tracing
from trio.testing import MockClock

from paraudio.errors import ConfigError
from paraudio.http import _spans
from paraudio.http._spans import Spans, Spool, exporter_name, open_tracing
from paraudio.http._tracing import MAX_PARTS, MAX_STORIES, Told, Tracing
from paraudio.journal import Event, Kind

SPEECH = "/v1/audio/speech"
HELLO = {"model": "voice", "input": "hello"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


async def test_a_request_is_a_span_with_its_wait_load_and_run(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(load_options={"load_ms": 40}, session_options={"run_ms": 20})
    async with tracing(open_world, slow) as traced:
        before = time.time_ns()
        headers = {"x-request-id": "one", "traceparent": f"00-{TRACE}-{PARENT}-01"}
        assert (await traced.world.client.post(SPEECH, HELLO, headers)).status == 200
        root = await traced.one()
        queue, load, run = await traced.parts()
    assert root.name == "POST /v1/audio/speech"
    assert dict(facts(root)) == {
        "http.request.method": "POST",
        "http.route": "/v1/audio/speech",
        "http.response.status_code": 200,
        "paraudio.request.id": "one",
        "paraudio.model": "voice",
        "paraudio.task": "tts",
    }
    assert root.context is not None
    assert root.parent is not None
    assert f"{root.context.trace_id:032x}" == TRACE
    assert f"{root.parent.span_id:016x}" == PARENT
    assert [queue.name, load.name, run.name] == ["queue", "load", "run"]
    assert all(span.parent == root.context for span in (queue, load, run))
    assert facts(load)["paraudio.generation"] == 1
    assert facts(run)["paraudio.outcome"] == "ok"
    assert ms(load) >= 40
    assert ms(run) >= 20
    assert ms(root) >= ms(load) + ms(run)
    assert abs((root.end_time or 0) - before) < 60e9, "times are those of the wall clock"


async def test_a_wait_is_as_long_as_the_work_before_it(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with tracing(open_world) as traced:
        gate = traced.world.gates.hold("run")
        first = traced.world.client.start("POST", SPEECH, HELLO)
        await gate.wait_held()
        second = traced.world.client.start("POST", SPEECH, HELLO)
        await traced.world.wait_until(lambda: traced.world.model().queued_requests == 1)
        await trio.sleep(3)
        gate.open()
        await first.ended.wait()
        await second.ended.wait()
        waits = [ms(span) for span in await traced.parts() if span.name == "queue"]
    assert min(waits) < 100
    assert max(waits) >= 3000


async def test_a_client_that_leaves_is_the_cause(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with tracing(open_world) as traced:
        gate = traced.world.gates.hold("run")
        call = traced.world.client.start("POST", SPEECH, HELLO, {"x-request-id": "gone"})
        await gate.wait_held()
        # As the transport tells it: nothing here has a socket.
        traced.world.journal(Kind.DISCONNECTED, request="gone")
        call.hang_up()
        gate.open()
        await call.ended.wait()
        root = await traced.one()
        *_, run = await traced.parts()
    assert facts(root)["paraudio.cancel.cause"] == "client_left"
    assert "http.response.status_code" not in facts(root)
    assert root.status.status_code is StatusCode.UNSET, "it is no fault of the server"
    assert run.status.status_code is StatusCode.ERROR
    assert run.status.description == "stopped"


async def test_a_cancel_by_id_is_the_cause(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with tracing(open_world) as traced:
        gate = traced.world.gates.hold("run")
        call = traced.world.client.start("POST", SPEECH, HELLO, {"x-request-id": "one"})
        await gate.wait_held()
        ending = traced.world.client.start("DELETE", "/v1/requests/one")
        await trio.testing.wait_all_tasks_blocked()
        gate.open()
        await call.ended.wait()
        await ending.ended.wait()
        spans = {span.name: span for span in await traced.spans()}
    root = spans["POST /v1/audio/speech"]
    assert facts(root)["paraudio.cancel.cause"] == "by_id"
    assert facts(root)["error.type"] == "request_cancelled"
    assert facts(root)["http.response.status_code"] == 499
    assert "DELETE /v1/requests/{request_id}" in spans


async def test_a_wait_that_is_too_long_is_an_error_of_the_wait_and_the_request(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with tracing(open_world) as traced:
        gate = traced.world.gates.hold("run")
        first = traced.world.client.start("POST", SPEECH, HELLO, {"x-request-id": "first"})
        await gate.wait_held()
        asked = {**HELLO, "busy_timeout_ms": 50}
        reply = await traced.world.client.post(SPEECH, asked, {"x-request-id": "second"})
        assert reply.status == 503
        gate.open()
        await first.ended.wait()
        roots = [span for span in await traced.spans() if span.kind is SpanKind.SERVER]
        (second,) = [one for one in roots if facts(one)["paraudio.request.id"] == "second"]
        waits = [span for span in await traced.parts() if span.status.description == "timeout"]
    assert facts(second)["error.type"] == "server_busy"
    assert facts(second)["paraudio.cancel.cause"] == "timeout"
    assert second.status.status_code is StatusCode.ERROR
    assert [span.name for span in waits] == ["queue"]


async def test_a_load_that_fails_is_told(open_world: OpenWorld, autojump_clock: MockClock) -> None:
    async with tracing(open_world, spec(load_options={"fail_loads": 1})) as traced:
        reply = await traced.world.client.post(SPEECH, HELLO)
        assert reply.status == 500
        root = await traced.one()
        (load,) = [span for span in await traced.parts() if span.name == "load"]
    assert load.status.status_code is StatusCode.ERROR
    assert root.status.status_code is StatusCode.ERROR
    assert facts(root)["error.type"] == reply.error()["code"]


@pytest.mark.parametrize("stream_format", ["sse", "audio"])
async def test_a_stream_that_fails_is_told_although_it_began_well(
    open_world: OpenWorld, autojump_clock: MockClock, stream_format: str
) -> None:
    async with tracing(open_world, spec(session_options={"run_ms": 50, "chunks": 2})) as traced:
        asked = {**HELLO, "stream_format": stream_format, "options": {"fail": True}}
        await traced.world.client.start("POST", SPEECH, asked).ended.wait()
        root = await traced.one()
    assert facts(root)["http.response.status_code"] == 200
    assert facts(root)["error.type"] == "server_error"
    assert root.status.status_code is StatusCode.ERROR


async def test_what_is_refused_is_a_span_and_no_error_of_the_server(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with tracing(open_world) as traced:
        await traced.world.client.post(SPEECH, {"model": "nobody", "input": "a"})
        root = await traced.one()
    assert facts(root)["error.type"] == "model_not_found"
    assert "paraudio.task" not in facts(root)
    assert root.status.status_code is StatusCode.UNSET


async def test_a_parent_that_was_not_sampled_keeps_its_request_out(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with tracing(open_world) as traced:
        await traced.world.client.post(SPEECH, HELLO, {"traceparent": f"00-{TRACE}-{PARENT}-00"})
        assert await traced.spans() == []
        for broken in ("", "x", f"00-{'0' * 32}-{PARENT}-01", "00-" + "z" * 60):
            reply = await traced.world.client.post(SPEECH, HELLO, {"traceparent": broken})
            assert reply.status == 200
        roots = [span for span in await traced.spans() if span.kind is SpanKind.SERVER]
    assert [span.parent for span in roots] == [None] * 4


async def test_a_websocket_is_one_span_from_its_head_to_its_close(open_world: OpenWorld) -> None:
    async with tracing(open_world) as traced, trio.open_nursery() as nursery:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        socket = await realtimekit.connect(traced.world.client.app, nursery, headers=headers)
        assert await traced.spans() == []
        socket.leave()
        await socket.ended.wait()
        root = await traced.one()
    assert root.name == "GET /v1/realtime"
    assert facts(root)["paraudio.model"] == "ears"
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == PARENT


def event(kind: Kind, **facts: Any) -> Event:
    return Event(1, 0.0, kind, "voice", {"ticket": 1, **facts})


class Kept:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Told, int, str | None]] = []

    def tell(self, told: Told, story: Any) -> None:
        self.told.append((told, len(story.parts), story.cause))


def end_of(request: str, **more: Any) -> Told:
    known = {"id": request, "method": "POST", "route": "/", "headers": {}, "started": 0.0}
    rest = {"ended": 1.0, "model": None, "task": None, "status": 200, "code": None}
    return Told(**{**known, **rest, "fault": False, "cancelled": False, **more})


def test_what_is_remembered_is_bounded() -> None:
    kept = Kept()
    tracing = Tracing(kept)
    for number in range(MAX_STORIES + 10):
        tracing.observe(
            event(Kind.QUEUED, ticket=number, manager=False, bound_ms=None, request=f"r{number}")
        )
        tracing.observe(event(Kind.RELEASED, ticket=number, slots=[0]))
    assert tracing.open_stories == MAX_STORIES
    many = "many"
    tracing.observe(event(Kind.QUEUED, manager=False, bound_ms=None, request=many))
    for _ in range(2 * MAX_PARTS):
        tracing.observe(event(Kind.RUN_STARTED, request=many, slot=0, generation=1))
        tracing.observe(event(Kind.RUN_ENDED, request=many, outcome="ok"))
    tracing.ended(end_of(many))
    assert [(told.id, parts) for told, parts, _ in kept.told] == [(many, MAX_PARTS)]


def test_what_belongs_to_no_request_is_not_told() -> None:
    kept = Kept()
    tracing = Tracing(kept)
    tracing.observe(event(Kind.QUEUED, manager=True, bound_ms=None, request=None))
    tracing.observe(event(Kind.GRANTED, slots=[0]))
    tracing.observe(event(Kind.LOAD_STARTED, generation=1, config=1))
    tracing.observe(event(Kind.RELEASED, slots=[0]))
    assert (tracing.open_stories, kept.told) == (0, [])


class Slow(SpanExporter):
    """An exporter that never gets through, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert spans
        if self.error is not None:
            raise self.error
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.closed = True


@pytest.mark.parametrize("error", [None, OSError("nobody listens")])
async def test_spans_that_cannot_be_sent_are_counted_and_hold_nothing_up(
    error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(Slow(error))
    spans = Spans(spool)
    for number in range(3):
        Tracing(spans).ended(end_of(str(number)))
    await spool.send()
    spool.close()
    assert spool.lost == 3
    assert len([one for one in caplog.records if "cannot be sent" in one.getMessage()]) == 1
    assert "3 spans were lost" in caplog.text


async def test_spans_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_spans, "MAX_WAITING", 20)
    exporter = InMemorySpanExporter()
    spool = Spool(exporter)
    tracing = Tracing(Spans(spool))
    for number in range(25):
        tracing.ended(end_of(str(number)))
    assert spool.lost == 5
    await spool.send()
    assert len(exporter.get_finished_spans()) == 20


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "a"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:4318"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, None),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "True"}, None),
    ],
    ids=str,
)
def test_the_environment_decides(environ: dict[str, str], name: str | None) -> None:
    assert exporter_name(environ) == name


async def test_an_exporter_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="carrier_pigeon"):
        async with open_tracing({"OTEL_TRACES_EXPORTER": "carrier_pigeon"}):
            pass


@pytest.mark.parametrize(
    "asking", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
)
async def test_the_variable_that_was_set_is_named_where_the_extra_is_missing(
    monkeypatch: pytest.MonkeyPatch, asking: str
) -> None:
    monkeypatch.setattr("paraudio.http._spans.entry_points", lambda **_: ())
    with pytest.raises(ConfigError, match=f"^{asking} asks for spans") as caught:
        async with open_tracing({asking: "http://collector:4318"}):
            pass
    assert caught.value.param == asking
    assert "OTEL_TRACES_EXPORTER" not in caught.value.message


async def test_without_a_wish_there_is_no_tracing() -> None:
    async with open_tracing({}) as tracing:
        assert tracing is None


async def test_what_waits_at_the_end_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(_spans, "_exporter", lambda *_: exporter)
    async with open_tracing({"OTEL_TRACES_EXPORTER": "memory"}) as tracing:
        assert tracing is not None
        tracing.ended(end_of("the-last"))
    (span,) = exporter.get_finished_spans()
    assert facts(span)["paraudio.request.id"] == "the-last"


def test_nothing_of_opentelemetry_is_imported_where_nobody_asks() -> None:
    code = (
        "import sys, trio, paraudio.server\n"
        "from paraudio.http import open_tracing\n"
        "async def main():\n"
        "    async with open_tracing() as tracing: assert tracing is None\n"
        "trio.run(main)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
