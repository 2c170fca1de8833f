"""How a server ends, whatever its clients and backends do: over real sockets, as a real process."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.server.clients import bodies
from tests.server.harness import Served, serving, simulated

from paraudio.journal import Kind

pytestmark = pytest.mark.process

HALF_HEADER = b"POST /v1/tasks/run HTTP/1.1\r\nHost: test\r\nContent-"
HALF_BODY = (
    b"POST /v1/tasks/run HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
    b'Content-Length: 1000\r\n\r\n{"model": "sim", '
)
LONG_MS = 60_000
ISOLATIONS = ["thread", "process"]


async def running(served: Served, name: str = "sim", count: int = 1) -> Any:
    """Wait until requests run in a loaded model."""
    return await served.until(
        lambda seen: seen["active_slots"] == count and seen["state"] == "ready", name
    )


@pytest.mark.contract("time/shutdown_stalled_header", "beyond/g05_bounded_shutdown")
async def test_half_a_header_and_idle_connections_are_no_work(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, [simulated()]) as served,
        await served.connect() as silent,
        await served.connect() as half,
        await served.begin("/health/live") as idle,
    ):
        await half.send(HALF_HEADER)
        assert (await idle.answer()).status == 200
        ended = await served.stopped()
        assert await silent.rest() == b""
        assert await half.rest() == b""
    assert (ended.code, ended.cuts) == (0, [])
    assert ended.seconds < served.drain_s


@pytest.mark.contract("time/shutdown_stalled_live_body")
@pytest.mark.parametrize("signals", [1, 2])
async def test_half_a_body_is_cut_when_the_drain_is_over(tmp_path: Path, signals: int) -> None:
    drain_ms = 300 if signals == 1 else LONG_MS
    async with (
        serving(tmp_path, [simulated()], drain_ms=drain_ms) as served,
        await served.connect() as half,
    ):
        await half.send(HALF_BODY)
        assert (await served.get("/health/ready")).status == 200
        ended = await served.stopped(*[signal.SIGTERM] * signals)
        assert await half.rest() == b""
    assert ended.code == 3
    assert len(ended.cuts) == 1
    assert "POST /v1/tasks/run" in ended.cuts[0]
    assert ended.seconds < (1.3 if signals == 2 else served.bound_s)


@pytest.mark.contract("time/shutdown_non_reading_response", "beyond/g05_bounded_shutdown")
async def test_a_client_that_does_not_read_is_reset(tmp_path: Path) -> None:
    model = simulated(chunks=5000)
    async with serving(tmp_path, [model], drain_ms=300) as served:
        client = await served.connect(receive_buffer=4096)
        await client.ask("/v1/audio/speech", {**bodies.stream(), "input": "much to say " * 2000})
        assert await client.piece()
        ended = await served.stopped()
        client.leave()
    assert ended.code == 3
    assert any("POST /v1/audio/speech" in cut for cut in ended.cuts)
    assert ended.seconds < served.bound_s


@pytest.mark.contract("time/shutdown_active_finite_handler", "ops/ready/shutdown")
@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_running_request_finishes_within_the_drain(tmp_path: Path, isolation: str) -> None:
    async with serving(tmp_path, [simulated(run_ms=800)], isolation=isolation) as served:
        async with await served.begin("/v1/tasks/run", bodies.run()) as client:
            await running(served)
            served.signal()
            answer = await client.answer()
        ended = await served.ended()
    assert answer.status == 200
    assert answer.json["text"] == "hello"
    assert answer.headers["connection"] == "close"
    assert (ended.code, ended.cuts) == (0, [])
    assert ended.seconds < served.drain_s
    assert any("stopping: all is drained" in line for line in ended.said)


@pytest.mark.contract("time/shutdown_active_deferred_callback")
@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_stream_and_a_batch_finish_within_the_drain(tmp_path: Path, isolation: str) -> None:
    model = simulated(chunks=8, chunk_ms=100, run_ms=300, slots=2)
    async with serving(tmp_path, [model], "--parallel-jobs", isolation=isolation) as served:
        batch = {"model": "sim", "requests": [{"text": "one"}, {"text": "two"}]}
        async with (
            await served.begin("/v1/audio/speech", bodies.stream()) as speaking,
            await served.begin("/v1/tasks/batch", batch) as batching,
        ):
            await running(served, count=2)
            served.signal()
            spoken, batched = await speaking.answer(), await batching.answer()
        ended = await served.ended()
    assert [event["type"] for event in spoken.events[:-1]] == [
        *["speech.audio.delta"] * 8,
        "speech.audio.done",
    ]
    assert batched.events[-2]["type"] == "task.batch.done"
    assert batched.events[-2]["result_count"] == 2
    assert spoken.events[-1] == batched.events[-1] == "[DONE]"
    assert (ended.code, ended.cuts) == (0, [])


@pytest.mark.contract(
    "time/shutdown_queued_request", "time/shutdown_manager", "ops/shutting_down/shutdown"
)
async def test_whoever_queues_is_told_to_go_and_what_runs_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path, [simulated(run_ms=1000)]) as served:
        async with await served.begin("/v1/tasks/run", bodies.run()) as runner:
            await running(served)
            async with (
                await served.begin("/v1/tasks/run", bodies.run()) as queued,
                await served.begin("/v1/models/unload", {"id": "sim"}) as manager,
                await served.begin("/v1/tasks/unload_all_models", {}) as bulk,
            ):
                await served.until(
                    lambda seen: (seen["queued_requests"], seen["queued_managers"]) == (1, 2)
                )
                served.signal()
                for client in (queued, manager, bulk):
                    refused = await client.answer()
                    assert (refused.status, refused.code) == (503, "shutting_down")
                    assert refused.headers["retry-after"] == "5"
            assert (await runner.answer()).status == 200
        ended = await served.ended()
    assert (ended.code, ended.cuts) == (0, [])
    assert [event.facts["why"] for event in ended.events if event.kind is Kind.LEFT] == [
        "shutting_down"
    ] * 3


@pytest.mark.contract("time/shutdown_cold_load", "ops/loading/shutdown")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize(("load_ms", "code"), [(1000, 0), (LONG_MS, 3)])
async def test_a_cold_load_may_finish_within_the_drain(
    tmp_path: Path, isolation: str, load_ms: int, code: int
) -> None:
    drain_ms = 5000 if code == 0 else 300
    async with serving(
        tmp_path, [simulated(load_ms=load_ms)], drain_ms=drain_ms, isolation=isolation
    ) as served:
        async with await served.begin("/v1/tasks/run", bodies.run()) as driver:
            await served.until(lambda seen: seen["state"] == "loading")
            served.signal()
            if code == 0:
                assert (await driver.answer()).status == 200
            else:
                assert await driver.cut_off()
        ended = await served.ended()
    assert ended.code == code
    assert bool(ended.cuts) is bool(code)
    assert ended.seconds < served.bound_s
    published = [event for event in ended.events if event.kind is Kind.PUBLISHED]
    destroyed = [event for event in ended.events if event.kind is Kind.DESTROYED]
    assert len(published) == len(destroyed) == (1 if code == 0 else 0)


MANAGERS: dict[str, tuple[dict[str, Any], str, object]] = {
    "unloading": ({"unload_ms": 800}, "/v1/models/unload", {"id": "sim"}),
    "reconfiguring": ({}, "/v1/models/load", simulated(load_ms=800)),
}


@pytest.mark.contract(
    "time/shutdown_manager", "ops/unloading/shutdown", "ops/reconfiguring/shutdown"
)
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("state", MANAGERS)
@pytest.mark.parametrize("drain_ms", [5000, 100])
async def test_a_manager_in_progress_may_finish_within_the_drain(
    tmp_path: Path, isolation: str, state: str, drain_ms: int
) -> None:
    options, path, body = MANAGERS[state]
    async with serving(
        tmp_path, [simulated(**options)], drain_ms=drain_ms, isolation=isolation
    ) as served:
        assert (await served.run()).status == 200
        async with await served.begin(path, body) as manager:
            await served.until(lambda seen: seen["state"] == state)
            served.signal()
            if drain_ms == 5000:
                assert (await manager.answer()).status == 200
            else:
                await manager.rest()
        ended = await served.ended()
    assert ended.code == (0 if drain_ms == 5000 else 3), ended.cuts
    assert ended.seconds < served.bound_s


@pytest.mark.contract("time/shutdown_hung_backend", "beyond/g05_bounded_shutdown")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("drain_ms", [0, 300])
async def test_a_backend_that_ignores_its_stop_is_abandoned_or_killed(
    tmp_path: Path, isolation: str, drain_ms: int
) -> None:
    model = simulated(ignore_cancel=True, run_ms=LONG_MS)
    async with (
        serving(tmp_path, [model], drain_ms=drain_ms, cancel_ms=500, isolation=isolation) as served,
        await served.begin("/v1/tasks/run", bodies.run()) as client,
    ):
        await running(served)
        ended = await served.stopped()
        assert await client.cut_off()
    assert ended.code == 3
    assert any("'sim'" in cut for cut in ended.cuts)
    assert served.drain_s + served.cancel_s < ended.seconds < served.bound_s
    assert any(event.kind is Kind.CUT for event in ended.events)


@pytest.mark.contract("time/shutdown_hung_backend")
async def test_a_stopped_worker_does_not_outlive_its_server(tmp_path: Path) -> None:
    model = simulated(run_ms=LONG_MS)
    async with (
        serving(tmp_path, [model], drain_ms=0, cancel_ms=300, isolation="process") as served,
        await served.begin("/v1/tasks/run", bodies.run()) as client,
    ):
        await running(served)
        os.kill(await served.worker("sim"), signal.SIGSTOP)
        ended = await served.stopped()
        assert await client.cut_off()
    assert ended.code == 3
    assert ended.seconds < served.bound_s


@pytest.mark.contract("beyond/g05_bounded_shutdown")
@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_no_worker_outlives_a_server_that_was_killed(tmp_path: Path, isolation: str) -> None:
    models = [simulated("one", run_ms=LONG_MS), simulated("two", run_ms=LONG_MS)]
    async with (
        serving(tmp_path, models, isolation=isolation) as served,
        await served.begin("/v1/tasks/run", bodies.run("one")),
        await served.begin("/v1/tasks/run", bodies.run("two")),
    ):
        await running(served, "one")
        await running(served, "two")
        if isolation == "process":
            os.kill(await served.worker("two"), signal.SIGSTOP)
        ended = await served.stopped(signal.SIGKILL)
    assert ended.code == -signal.SIGKILL


@pytest.mark.contract("beyond/g05_bounded_shutdown")
async def test_a_second_signal_skips_the_drain_and_a_third_the_cancel(tmp_path: Path) -> None:
    model = simulated(ignore_cancel=True, run_ms=LONG_MS)
    async with (
        serving(tmp_path, [model], drain_ms=LONG_MS, cancel_ms=LONG_MS) as served,
        await served.begin("/v1/tasks/run", bodies.run()),
    ):
        await running(served)
        ended = await served.stopped(signal.SIGTERM, signal.SIGINT, signal.SIGTERM)
    assert ended.code == 3
    assert ended.seconds < 3
    assert [line.split("  ")[-1].strip() for line in ended.said if re.search("ing: SIG", line)] == [
        "draining: SIGTERM",
        "stopping: SIGINT",
        "leaving: SIGTERM",
    ]


@pytest.mark.contract(
    "ops/shutting_down/status", "ops/shutting_down/inference", "state/shutting_down"
)
async def test_readiness_and_requests_are_503_while_draining(tmp_path: Path) -> None:
    async with serving(tmp_path, [simulated(run_ms=1500)]) as served:
        async with (
            await served.begin("/v1/tasks/run", bodies.run()),
            await served.connect() as probe,
            await served.connect() as late,
        ):
            await running(served)
            # Two requests whose first bytes came before the signal, and whose rest comes after it.
            await probe.send(b"GET /health/ready HTTP/1.1\r\nHo")
            body = b'{"model":"sim","request":{"text":"late"}}'
            head = b"POST /v1/tasks/run HTTP/1.1\r\nContent-Type: application/json\r\n"
            await late.send(head)
            await running(served)
            served.signal()
            await served.heard("draining: SIGTERM")
            await probe.send(b"st: test\r\n\r\n")
            answer = await probe.rest()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b'"phase":"draining"' in answer
            assert b"connection: close" in answer.lower()
            await late.send(b"Host: test\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            refused = await late.rest()
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert b"shutting_down" in refused
            with pytest.raises(OSError, match="onnect"):
                await served.connect()
        ended = await served.ended()
    assert ended.code in {0, 3}
