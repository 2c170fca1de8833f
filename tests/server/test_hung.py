"""A backend that ignores its stop, a queue that is full, a bound that passes: over real sockets."""

import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from tests.server.clients import bodies
from tests.server.harness import serving, simulated

from paraudio.journal import Kind

pytestmark = pytest.mark.process

HANG_MS = 300


@pytest.mark.contract("beyond/g04_hung_backend_contained", "time/timeout_zero_and_bulk")
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_hung_call_costs_its_own_slot_at_most(tmp_path: Path, isolation: str) -> None:
    models = [simulated("hangs", ignore_cancel=True, slots=2), simulated("fine")]
    async with serving(
        tmp_path,
        models,
        "--parallel-jobs",
        isolation=isolation,
        hang_timeout_ms=HANG_MS,
        drain_ms=500,
        cancel_ms=500,
    ) as served:
        assert (await served.run("fine")).status == 200
        assert (await served.run("hangs")).status == 200
        client = await served.begin("/v1/tasks/run", bodies.run("hangs", run_ms=60_000))
        await served.until(lambda seen: seen["active_slots"] == 1, "hangs")
        client.reset()
        if isolation == "process":
            await served.until(lambda seen: not seen["active_slots"], "hangs")
            bulk = (await served.post("/v1/tasks/unload_all_models", {})).json
            assert bulk == {"unloaded": ["hangs", "fine"]}
            ended = await served.stopped()
            assert (ended.code, ended.cuts) == (0, [])
            return
        await served.until(lambda seen: seen["stuck_slots"] == 1, "hangs")
        assert (await served.run("hangs")).status == 200, "the other slot serves"
        ready = await served.get("/health/ready")
        assert ready.json["stuck_slots"] == {"hangs": 1}
        assert ready.status == 200, "the model is still usable"
        unload = {"id": "hangs", "busy_timeout_ms": 100}
        refused = await served.post("/v1/models/unload", unload)
        assert (refused.status, refused.code) == (503, "slot_stuck")
        bulk = (await served.post("/v1/tasks/unload_all_models", {})).json
        assert bulk["unloaded"] == ["fine"]
        (failed,) = bulk["failed"]
        assert (failed["id"], failed["error"]["code"]) == ("hangs", "slot_stuck")
        assert (await served.run("hangs")).status == 200, "nobody is left behind a barrier"
        ended = await served.stopped()
    assert ended.code == 3
    assert any("'hangs'" in cut for cut in ended.cuts)
    assert ended.seconds < served.bound_s


@pytest.mark.contract(
    "beyond/g07_queue_bound",
    "time/admission_timeout_request",
    "time/admission_timeout_manager",
    "time/healthy_and_overdue_blockers",
)
async def test_bounds_of_waits_and_of_the_queue_hold(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, [simulated(run_ms=60_000)], max_queued_requests=2, drain_ms=0) as served,
        AsyncExitStack() as stack,
    ):

        async def begin(path: str, **more: object) -> object:
            body = {**bodies.run(), **more} if "run" in path else {"id": "sim", **more}
            return await stack.enter_async_context(await served.begin(path, body))

        await begin("/v1/tasks/run")
        await served.until(lambda seen: seen["active_slots"] and seen["loaded"])
        began = trio.current_time()
        waits = [
            await served.begin("/v1/models/unload", {"id": "sim", "busy_timeout_ms": 2000}),
            await served.begin("/v1/tasks/run", {**bodies.run(), "busy_timeout_ms": 2000}),
        ]
        await served.until(lambda seen: seen["queued_requests"] + seen["queued_managers"] == 2)
        full = await served.run()
        assert (full.status, full.code) == (503, "queue_full")
        assert int(full.headers["retry-after"]) > 0
        for client in waits:
            async with client:
                answer = await client.answer()
            assert (answer.status, answer.code) == (503, "server_busy")
            assert int(answer.headers["retry-after"]) > 0
            assert trio.current_time() - began >= 2
        hasty = await served.post("/v1/tasks/run", {**bodies.run(), "busy_timeout_ms": 100})
        assert (hasty.status, hasty.code) == (503, "server_busy")
        assert (await served.model())["active_slots"] == 1
        ended = await served.stopped()
    left = [event.facts["why"] for event in ended.events if event.kind is Kind.LEFT]
    assert left == ["timeout", "timeout"]
    refused = [event.facts["why"] for event in ended.events if event.kind is Kind.REFUSED]
    assert refused == ["queue_full", "server_busy"], "the last one was refused, not timed out"


@pytest.mark.contract(
    "time/disconnect_queued",
    "beyond/g01_waiter_leaves_on_disconnect",
    "time/disconnect_executing_offline",
    "time/disconnect_active_stream",
    "time/abandon_unstarted_response",
)
@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_only_whoever_leaves_is_gone(tmp_path: Path, isolation: str, how: str) -> None:
    model = simulated(chunks=1000, chunk_ms=20)
    async with serving(tmp_path, [model], isolation=isolation) as served:
        assert (await served.run()).status == 200
        ids = {"X_Request_Id": "streams"}
        stream = await served.begin("/v1/audio/speech", bodies.stream(), **ids)
        assert await stream.piece()
        line = []
        for name in ("first", "second", "third"):
            line.append(
                await served.begin("/v1/tasks/run", bodies.run(run_ms=10), X_Request_Id=name)
            )
            await served.until(lambda seen: seen["queued_requests"] == len(line))
        leaves = "leave" if how == "fin" else "reset"
        getattr(line[1], leaves)()
        await served.until(lambda seen: seen["queued_requests"] == 2, within_s=2)
        getattr(stream, leaves)()
        for client in (line[0], line[2]):
            async with client:
                assert (await client.answer()).json["text"] == "hello"
        # A response that is abandoned in the moment in which it would begin.
        for _ in range(20):
            getattr(await served.begin("/v1/audio/speech", bodies.stream()), leaves)()
        await served.until(lambda seen: not seen["active_slots"] + seen["queued_requests"])
        assert (await served.run()).status == 200
        ended = await served.stopped(signal.SIGINT)
    assert (ended.code, ended.cuts) == (0, [])
    granted = {
        event.facts["request"]: event.at for event in ended.events if event.kind is Kind.BOUND
    }
    assert "second" not in granted
    assert granted["streams"] < granted["first"] < granted["third"]
    seen = {
        event.facts["request"]: event.at
        for event in ended.events
        if event.kind is Kind.DISCONNECTED
    }
    assert {"streams", "second"} <= set(seen)
    run_ended = next(
        event.at
        for event in ended.events
        if event.kind is Kind.RUN_ENDED and event.facts["request"] == "streams"
    )
    assert run_ended <= granted["first"], "stopped before the next one started on its session"


@pytest.mark.contract("beyond/g11_memory_released_after_unload")
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_memory_comes_back_after_unloads(tmp_path: Path, isolation: str) -> None:
    model = simulated(memory_mb=64)
    async with serving(tmp_path, [model], isolation=isolation) as served:
        levels = []
        for _ in range(12):
            assert (await served.run()).status == 200
            assert (await served.post("/v1/models/unload", {"id": "sim"})).status == 200
            assert served.workers() == []
            levels.append(resident_mb(served.pid))
        assert (await served.stopped()).code == 0
    assert levels[-1] < levels[2] * 1.05 + 2, levels


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@pytest.mark.contract("beyond/g04_hung_backend_contained", "ops/loading/unload")
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_load_that_never_ends_is_given_up(tmp_path: Path, isolation: str) -> None:
    never = {"load_ms": 600_000, "load_ignores_cancel": True}
    models = [
        simulated("bounded", **never, load_timeout_ms=500),
        simulated("unwanted", **never),
        simulated("fine"),
    ]
    async with serving(tmp_path, models, isolation=isolation, hang_timeout_ms=HANG_MS) as served:
        late = await served.run("bounded")
        assert (late.status, late.code) == (504, "load_timeout")
        client = await served.begin("/v1/tasks/run", bodies.run("unwanted"))
        await served.until(lambda seen: seen["state"] == "loading", "unwanted")
        async with await served.begin("/v1/models/unload", {"id": "unwanted"}) as unload:
            await served.until(lambda seen: seen["queued_managers"] == 1, "unwanted")
            client.reset()
            assert (await unload.answer()).json == {"id": "unwanted", "loaded": False}
        abandoned = 1 if isolation == "thread" else 0
        for name in ("bounded", "unwanted"):
            model = await served.model(name)
            assert (model["state"], model["active_slots"]) == ("unloaded", 0)
            assert model["abandoned_calls"] == abandoned
        assert served.workers() == []
        assert (await served.run("fine")).status == 200
        ended = await served.stopped()
    lines = [f"model '{name}': load ignored its stop" for name in ("bounded", "unwanted")]
    assert ended.code == (3 if abandoned else 0), "a thread that never ends is cut off"
    assert [any(line in cut for cut in ended.cuts) for line in lines] == [bool(abandoned)] * 2
    assert ended.seconds < served.bound_s
    given_up = [event.model for event in ended.events if event.kind is Kind.ABANDONED]
    assert given_up == ["bounded", "unwanted"][: 2 * abandoned]


@pytest.mark.contract("beyond/g04_hung_backend_contained")
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_teardown_that_never_ends_does_not_keep_the_model(
    tmp_path: Path, isolation: str
) -> None:
    model = simulated(unload_ms=600_000)
    async with serving(tmp_path, [model], isolation=isolation, hang_timeout_ms=HANG_MS) as served:
        assert (await served.run()).status == 200
        assert (await served.post("/v1/models/unload", {"id": "sim"})).status == 200
        abandoned = 1 if isolation == "thread" else 0
        assert (await served.model())["abandoned_calls"] == abandoned
        metrics = (await served.get("/metrics")).body.decode()
        assert f'paraudio_abandoned_calls{{model="sim"}} {abandoned}.0' in metrics
        assert (await served.run()).status == 200
        assert (await served.model())["generation"] == 2
        ended = await served.stopped()
    assert ended.code == (3 if abandoned else 0)
    assert ended.seconds < served.bound_s
