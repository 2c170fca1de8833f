"""Each operation in each state of one model."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario
from paraudio.conformance.scenarios import _stages
from paraudio.conformance.scenarios._stages import SetUp, Stage

Operation = Callable[[Bench, str, Stage], Awaitable[None]]


async def inference(bench: Bench, state: str, stage: Stage) -> None:
    """Served by what the model is, or will be; a load is shared or driven."""
    call = bench.run("a", 0.5)
    if state == "loading":
        seen = {"active": 2} if bench.slots > 1 else {"active": 1, "queued": 1}
        await bench.until("a", state="loading", **seen)
    if stage.spare_a:
        await bench.meanwhile(call, stage.hold_a)
    made = await bench.served(call, stage.path)
    if not stage.spare_a:
        bench.not_before(call, stage.free_a, f"the end of {state}")
    if state == "loading" and stage.hold_a is not None:
        driven = await bench.served(stage.hold_a, stage.path)
        same = made.get("generation") == driven.get("generation")
        bench.expect(same, f"a request that waited for a load got another one: {made}, {driven}")
    await _end(bench, stage, "ready")


async def register(bench: Bench, state: str, stage: Stage) -> None:
    """Exclusive: it waits for what came before, which keeps the old configuration."""
    change = bench.register("a", "/three", load=0.5)
    changed = await bench.good(change)
    bench.not_before(change, stage.free_a, f"the end of {state}")
    right = changed.get("loaded") is True and changed.get("reconfigured") is True
    bench.expect(right, f"{change}: {changed}, not loaded and reconfigured")
    if state in ("loading", "ready") and stage.hold_a is not None:
        await bench.served(stage.hold_a, "/one")
    await _end(bench, stage, "ready", "/three")


async def unload(bench: Bench, state: str, stage: Stage) -> None:
    """Exclusive: it waits for what came before, then nothing is loaded."""
    call = bench.unload("a")
    answer = await bench.good(call)
    bench.not_before(call, stage.free_a, f"the end of {state}")
    bench.expect(answer.get("loaded") is False, f"{call}: {answer}, not loaded: false")
    await _end(bench, stage, "unloaded")


async def bulk_unload(bench: Bench, state: str, stage: Stage) -> None:
    """Each model once, an idle one at once, unknown ones named."""
    call = bench.bulk("a", "b", "a", "nobody")
    await bench.until("b", state="unloaded")
    bench.still(stage.hold_a)
    answer = await bench.good(call)
    bench.not_before(call, stage.free_a, f"the end of {state}")
    both = sorted([bench.name("a"), bench.name("b")])
    right = sorted(answer["unloaded"]) == both and answer["not_found"] == [bench.name("nobody")]
    bench.expect(right, f"{call}: {answer}, not {both} and the unknown one")
    await _end(bench, stage, "unloaded")


async def status(bench: Bench, state: str, stage: Stage) -> None:
    """Seen as it is, without waiting for anything."""
    listed = await bench.row("a")
    shown = await bench.good(bench.start("status", "GET", f"/v1/models/{bench.name('a')}"))
    bench.still(stage.hold_a, stage.free_a)
    for row in (listed, shown):
        bench.expect(row.get("state") == state, f"state is {row.get('state')!r}, not {state!r}")
        if state != "reconfiguring":
            loaded = state == "ready"
            bench.expect(row.get("loaded") is loaded, f"{state}: loaded is {row.get('loaded')!r}")
            known = row.get("max_parallel_slots") is not None
            bench.expect(known is loaded, f"{state}: {row.get('max_parallel_slots')!r} slots")
        path = row.get("path")
        bench.expect(path in ("/one", stage.path), f"path is {path!r}")
        active = 1 if state in ("loading", "ready") else 0
        bench.expect(row.get("active_slots") == active, f"{row.get('active_slots')} slots active")
    await _end(bench, stage, stage.a_after)


async def _end(bench: Bench, stage: Stage, state: str, path: str | None = None) -> None:
    if stage.hold_a is not None:
        await bench.good(stage.hold_a)
    await bench.settled("a", state, path)


STATES: Final[dict[str, SetUp]] = {
    "unloaded": _stages.unloaded,
    "loading": _stages.loading,
    "ready": _stages.running,
    "reconfiguring": _stages.reconfiguring,
    "unloading": _stages.unloading,
}
OPERATIONS: Final[tuple[Operation, ...]] = (inference, register, unload, bulk_unload, status)


async def _play(state: str, operation: Operation, bench: Bench) -> None:
    await operation(bench, state, await STATES[state](bench))


def _cells(state: str, operation: Operation) -> tuple[str, ...]:
    cell = f"ops/{state}/{operation.__name__}"
    return (cell, f"state/{state}") if operation is status else (cell,)


SCENARIOS: Final = tuple(
    Scenario(
        f"{operation.__name__}, {state}",
        _cells(state, operation),
        partial(_play, state, operation),
    )
    for state in STATES
    for operation in OPERATIONS
)
