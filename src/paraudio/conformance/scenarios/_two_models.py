"""Operations on A, on B and on both, in every situation of two models."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario
from paraudio.conformance.scenarios import _stages
from paraudio.conformance.scenarios._stages import SetUp, Stage

Operation = Callable[[Bench, Stage], Awaitable[None]]


async def request_a(bench: Bench, stage: Stage) -> None:
    """It runs beside what runs, or waits for what holds A and gets what that left."""
    call = bench.run("a", 0.5)
    if stage.spare_a:
        await bench.meanwhile(call, stage.hold_a)
    await bench.served(call, stage.path)
    if not stage.spare_a:
        bench.not_before(call, stage.free_a, "what holds a")
    await _end(bench, stage, a="ready")


async def request_b(bench: Bench, stage: Stage) -> None:
    """It waits for nothing that concerns A."""
    call = bench.run("b", 0.5)
    if stage.hold_b is None or stage.spare_b:
        await bench.meanwhile(call, stage.hold_a)
    await bench.served(call)
    if not stage.spare_b:
        bench.not_before(call, stage.free_b, "what holds b")
    await _end(bench, stage, b="ready")


async def reconfigure_a(bench: Bench, stage: Stage) -> None:
    """It waits for all that came before, and who comes later waits behind it."""
    change = bench.register("a", "/three", load=0.5)
    behind = None
    if stage.hold_a is not None:
        await bench.until("a", managers=2 if stage.hold_a is stage.hold_b else 1)
        behind = bench.run("a", 0.5)
    changed = await bench.good(change)
    bench.not_before(change, stage.free_a, "what holds a")
    bench.expect(changed.get("reconfigured") is True, f"{change}: {changed}, not reconfigured")
    if behind is not None:
        await bench.served(behind, "/three")
    await _end(bench, stage, a="ready", path="/three")


async def unload_a(bench: Bench, stage: Stage) -> None:
    """It waits for all that came before."""
    call = bench.unload("a")
    answer = await bench.good(call)
    bench.not_before(call, stage.free_a, "what holds a")
    bench.expect(answer.get("loaded") is False, f"{call}: {answer}, not loaded: false")
    await _end(bench, stage, a="unloaded")


async def unload_a_and_b(bench: Bench, stage: Stage) -> None:
    """Both barriers stand at once: B is retired as soon as B allows, A as soon as A does."""
    call = bench.bulk("b", "a")
    if stage.hold_a is not None and stage.hold_b is None:
        await bench.until("b", state="unloaded")
        bench.still(stage.hold_a)
    answer = await bench.good(call)
    bench.not_before(call, max(stage.free_a, stage.free_b), "what holds a and b")
    both = sorted([bench.name("a"), bench.name("b")])
    bench.expect(sorted(answer["unloaded"]) == both, f"{call}: {answer}, not {both}")
    await _end(bench, stage, a="unloaded", b="unloaded")


async def _end(
    bench: Bench,
    stage: Stage,
    *,
    a: str | None = None,
    b: str | None = None,
    path: str | None = None,
) -> None:
    """What held them has ended well, and both have come to their states."""
    for hold in (stage.hold_a, stage.hold_b):
        if hold is not None:
            await bench.good(hold)
    await bench.settled("a", a or stage.a_after, path)
    await bench.settled("b", b or stage.b_after)


OPERATIONS: Final[tuple[Operation, ...]] = (
    request_a,
    request_b,
    reconfigure_a,
    unload_a,
    unload_a_and_b,
)
SITUATIONS: Final[dict[str, SetUp]] = {
    "a_unloaded_b_ready": _stages.unloaded,
    "a_loading_b_ready": _stages.loading,
    "a_running_spare_b_ready": _stages.running,
    "a_full_queued_b_ready": _stages.full,
    "a_reconfiguring_b_running": _stages.reconfiguring_b_running,
    "a_unloading_slowly_b_ready": _stages.unloading,
    "both_loading_or_running": _stages.both_loading,
    "other_bulk_on_a_and_b": _stages.other_bulk,
}


async def _play(set_up: SetUp, operation: Operation, bench: Bench) -> None:
    await operation(bench, await set_up(bench))


SCENARIOS: Final = tuple(
    Scenario(
        f"{operation.__name__}, {situation}",
        (f"two/{situation}/{operation.__name__}",),
        partial(_play, set_up, operation),
        parallel=True if "spare" in situation else None,
    )
    for situation, set_up in SITUATIONS.items()
    for operation in OPERATIONS
)
