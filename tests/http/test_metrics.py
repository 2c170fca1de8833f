"""``/metrics``: what is counted is what happened."""

import time
from collections.abc import Iterable
from typing import Any

import prometheus_client
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.sounds import RATE, tone
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.engines import Audio, Job, Result
from paraudio.journal import Kind

SPEECH = "/v1/audio/speech"


class Figures:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.samples = {
            (sample.name.removeprefix("paraudio_"), frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def names(self) -> Iterable[str]:
        return {name for name, _ in self.samples}


async def scrape(world: World) -> Figures:
    reply = await world.client.get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Figures(reply.body.decode())


async def test_requests_waits_runs_and_loads_are_counted(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(session_options={"run_ms": 2000}, load_options={"load_ms": 3000})
    async with open_world(slow, EARS) as world:
        first = world.client.start("POST", SPEECH, {"model": "voice", "input": "a"})
        await trio.sleep(0.5)
        second = world.client.start("POST", SPEECH, {"model": "voice", "input": "b"})
        await trio.sleep(0.5)
        during = await scrape(world)
        assert during("slots", model="voice", state="active") == 1
        assert during("slots", model="voice", state="free") == 0
        assert during("slots", model="ears", state="free") == 1
        assert during("queue_depth", model="voice", claim="request") == 1
        assert during("model_loaded", model="voice") == 0
        await first.ended.wait()
        await second.ended.wait()
        after = await scrape(world)
        assert after("queue_depth", model="voice", claim="request") == 0
        assert after("model_loaded", model="voice") == 1
        labels = {"model": "voice", "claim": "request"}
        assert after("admission_wait_seconds_count", **labels) == 2
        assert after("admission_wait_seconds_sum", **labels) == pytest.approx(4.5)
        assert after("run_seconds_count", model="voice", outcome="ok") == 2
        assert after("run_seconds_sum", model="voice", outcome="ok") == pytest.approx(4)
        assert after("load_seconds_count", model="voice", outcome="ok") == 1
        assert after("load_seconds_sum", model="voice", outcome="ok") == pytest.approx(3)
        route = "/v1/audio/speech"
        assert after("http_requests_total", method="POST", route=route, status="200") == 2
        assert after("http_request_seconds_count", route=route) == 2
        assert after("real_time_factor_count", model="voice") == 2
        assert after("real_time_factor_sum", model="voice") > 0
        assert after("revision") == world.journal.revision
        assert after("running") == 1


def _laboured(job: Job) -> Result:
    time.sleep(0.05)  # this is the work
    return Result(text=job.text, audio=Audio(tone(0.1), RATE))


@pytest.mark.parametrize(
    ("path", "body", "runs"),
    [
        (SPEECH, {"input": "a"}, 1),
        (SPEECH, {"input": "a", "stream_format": "sse"}, 1),
        (SPEECH, {"input": "a", "stream_format": "audio"}, 1),
        ("/v1/tasks/run", {"text": "a"}, 1),
        ("/v1/tasks/stream", {"text": "a"}, 1),
        ("/v1/tasks/batch", {"requests": [{"text": "a"}, {"text": "b"}]}, 2),
    ],
)
async def test_the_work_of_every_route_is_measured_against_its_sound(
    open_scripted: OpenWorld, path: str, body: dict[str, Any], runs: int
) -> None:
    async with open_scripted(ScriptedFamily(_laboured), VOICE) as world:
        reply = await world.client.post(path, {"model": "voice", **body})
        assert reply.status == 200
        after = await scrape(world)
        assert after("real_time_factor_count", model="voice") == runs
        assert after("real_time_factor_sum", model="voice") >= 0.5 * runs


async def test_routes_are_few_whatever_clients_ask(world: World, autojump_clock: MockClock) -> None:
    for path in ("/v1/models/voice", "/v1/models/nobody", "/nowhere", "/nowhere/else"):
        await world.client.get(path)
    await world.client.call("BREW", "/nowhere")
    figures = await scrape(world)

    def count(method: str, route: str, status: str) -> float:
        return figures("http_requests_total", method=method, route=route, status=status)

    assert count("GET", "/v1/models/{model_id}", "200") == 1
    assert count("GET", "/v1/models/{model_id}", "404") == 1
    assert count("GET", "unmatched", "404") == 2
    assert count("other", "unmatched", "404") == 1


async def test_cancels_are_counted_by_cause(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 600_000})) as world:
        body = {"model": "voice", "input": "a"}
        running = world.client.start("POST", SPEECH, body, {"x-request-id": "run"})
        await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
        late = await world.client.post(SPEECH, {**body, "busy_timeout_ms": 1000})
        assert late.status == 503
        world.client.start("POST", SPEECH, body, {"x-request-id": "wait"})
        await wait_all_tasks_blocked()
        await world.client.call("DELETE", "/v1/requests/wait")
        world.client.start("POST", SPEECH, body)
        await wait_all_tasks_blocked()
        world.runtime.stop()
        await running.ended.wait()
        await wait_all_tasks_blocked()
        figures = await scrape(world)
        assert figures("cancels_total", cause="timeout") == 1
        assert figures("cancels_total", cause="by_id") == 1
        assert figures("cancels_total", cause="shutting_down") == 2
        assert figures("admission_left_total", model="voice", why="timeout") == 1
        assert figures("admission_left_total", model="voice", why="cancelled") == 1
        assert figures("run_seconds_count", model="voice", outcome="stopped") == 1
        route = "/v1/audio/speech"
        labels = {"method": "POST", "route": route}
        assert figures("http_requests_total", **labels, status="499") == 1
        assert figures("http_requests_total", **labels, status="503") == 3
        assert figures("running") == 0


async def test_failures_refusals_and_retirements_are_counted(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    broken = spec(id="broken", load_options={"fail_loads": 1})
    other = spec(id="other")
    async with open_world(
        broken, other, spec(max_queued_requests=1), runtime={"max_loaded_models": 1}
    ) as world:

        async def ask(model: str) -> int:
            return (await world.client.post(SPEECH, {"model": model, "input": "a"})).status

        assert await ask("broken") == 500
        assert await ask("other") == 200
        assert await ask("voice") == 200
        gate = world.gates.hold("run", model="voice")
        for _ in range(2):
            world.client.start("POST", SPEECH, {"model": "voice", "input": "a"})
        await gate.wait_held()
        assert await ask("voice") == 503
        gate.open()
        await world.wait_until(world.free)
        await world.client.post("/v1/tasks/unload_all_models")
        figures = await scrape(world)
        assert figures("load_seconds_count", model="broken", outcome="error") == 1
        assert figures("retired_total", model="other", why="evict") == 1
        assert figures("retired_total", model="voice", why="unload") == 1
        assert figures("admission_refused_total", model="voice", code="queue_full") == 1


async def test_stuck_slots_are_counted(open_world: OpenWorld, autojump_clock: MockClock) -> None:
    async with open_world(spec(session_options={"run_ms": 10**7, "ignore_cancel": True})) as world:
        call = world.client.start("POST", SPEECH, {"model": "voice", "input": "a"})
        await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
        call.hang_up()
        await world.wait_until(lambda: world.model().stuck_slots == 1)
        figures = await scrape(world)
        assert figures("stuck_total", model="voice") == 1
        assert figures("slots", model="voice", state="stuck") == 1
        assert figures("slots", model="voice", state="active") == 0
        await call.ended.wait()


async def test_nothing_is_registered_globally(world: World, autojump_clock: MockClock) -> None:
    await world.client.get("/health")
    known = prometheus_client.generate_latest().decode()
    assert "paraudio" not in known
    assert "process_resident_memory_bytes" in (await scrape(world)).names()


async def test_metrics_need_a_key_where_keys_are_set(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(settings={"api_keys": ("secret",)}) as world:
        assert (await world.client.get("/metrics")).status == 401
        allowed = await world.client.get("/metrics", {"authorization": "Bearer secret"})
        assert allowed.status == 200
