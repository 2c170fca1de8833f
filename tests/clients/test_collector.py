"""Spans on their way to a collector, as a server sends them: OTLP over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.cases.conftest import RUN
from tests.server.clients import bodies
from tests.server.harness import serving, simulated

pytestmark = pytest.mark.process


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent; or, if it is deaf, never answers."""

    daemon_threads = True

    def __init__(self, *, deaf: bool) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.deaf = deaf
        self.spans: list[Span] = []
        self.names: set[str] = set()
        self.closing = threading.Event()
        self.asked = threading.Event()


class Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = self.server
        assert isinstance(collector, Collector)
        collector.asked.set()
        if collector.deaf:
            collector.closing.wait()
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            collector.names.add(named["service.name"])
            for scope in resource.scope_spans:
                collector.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@contextmanager
def collecting(*, deaf: bool = False) -> Iterator[Collector]:
    collector = Collector(deaf=deaf)
    thread = threading.Thread(target=collector.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield collector
    finally:
        collector.closing.set()
        collector.shutdown()
        thread.join()
        collector.server_close()


def environment(collector: Collector) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_SERVICE_NAME": "a-house",
        "no_proxy": "127.0.0.1",
    }


async def test_a_collector_gets_the_spans_of_each_request(tmp_path: Path) -> None:
    with collecting() as collector:
        model = simulated(load_ms=5, run_ms=5)
        async with serving(tmp_path, [model], environ=environment(collector)) as served:
            for _ in range(3):
                assert (await served.post(RUN, bodies.run())).status == 200
            ended = await served.stopped()
        assert ended.code == 0
    names = sorted(span.name for span in collector.spans)
    wanted = [f"POST {RUN}"] * 3 + ["load"] + ["queue"] * 3 + ["run"] * 3
    assert [name for name in names if not name.startswith("GET")] == wanted
    assert collector.names == {"a-house"}


async def test_a_collector_that_never_answers_delays_nothing(tmp_path: Path) -> None:
    with collecting(deaf=True) as collector:
        model = simulated(load_ms=5, run_ms=5)
        async with serving(tmp_path, [model], environ=environment(collector)) as served:
            assert (await served.post(RUN, bodies.run())).status == 200
            assert await trio_wait(collector.asked)
            assert (await served.post(RUN, bodies.run())).status == 200
            ended = await served.stopped()
        assert ended.seconds <= served.bound_s
        assert any("spans were lost" in line for line in ended.said)


async def trio_wait(event: threading.Event) -> bool:
    import trio

    return await trio.to_thread.run_sync(event.wait, 30)


@pytest.mark.parametrize("name", ["carrier_pigeon"])
async def test_an_exporter_that_is_not_installed_is_a_configuration_error(
    tmp_path: Path, name: str
) -> None:
    from tests.server.harness import in_threads, started

    async with in_threads(started(tmp_path, environ={"OTEL_TRACES_EXPORTER": name})) as served:
        ended = await served.ended()
    assert ended.code == 2
    assert any(name in line for line in ended.said)
