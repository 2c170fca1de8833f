"""Situations that several scenarios start from: model A in some state, model B beside it.

The models are called ``a`` and ``b``. A stage lasts four units from when it has come about, as far
as the server's own pace allows: that is how long whatever holds A takes.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from paraudio.conformance._bench import Bench
from paraudio.conformance._wire import Call

LONG = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A situation that has come about.

    Attributes:
        hold_a: What keeps A from being idle, or None.
        hold_b: The same for B.
        free_a: Nobody who has to wait for what holds A is done before this moment.
        free_b: The same for B.
        path: Where whoever comes to A now is served from.
        a_after: The state that A comes to if nothing more is asked of it.
        b_after: The same for B.
        spare_a: Whether a request to A runs at once.
        spare_b: Whether a request to B runs at once.
    """

    hold_a: Call | None = None
    hold_b: Call | None = None
    free_a: float = -inf
    free_b: float = -inf
    path: str = "/one"
    a_after: str = "ready"
    b_after: str = "ready"
    spare_a: bool = False
    spare_b: bool = True


SetUp = Callable[[Bench], Awaitable[Stage]]


async def unloaded(bench: Bench) -> Stage:
    """A is registered and not loaded."""
    await bench.add("b")
    await bench.add_cold("a", load=1)
    return Stage(a_after="unloaded")


async def loading(bench: Bench) -> Stage:
    """A request drives A's load."""
    await bench.add("b")
    await bench.add_cold("a", load=LONG)
    driver = bench.run("a")
    await bench.until("a", state="loading", active=1)
    return Stage(hold_a=driver, free_a=bench.after(driver, LONG))


async def running(bench: Bench) -> Stage:
    """One request runs on A."""
    await bench.add("b")
    await bench.add("a")
    hold = bench.run("a", LONG)
    await bench.until("a", state="ready", active=1)
    spare = bench.slots > 1
    return Stage(hold_a=hold, free_a=bench.after(hold, LONG), spare_a=spare)


async def full(bench: Bench) -> Stage:
    """Every slot of A is taken, and one request queues."""
    await bench.add("b")
    await bench.add("a")
    first = bench.run("a", LONG)
    for _ in range(bench.slots - 1):
        bench.run("a", LONG)
    await bench.until("a", active=bench.slots)
    bench.run("a", 0.5)
    await bench.until("a", active=bench.slots, queued=1)
    return Stage(hold_a=first, free_a=bench.after(first, LONG))


async def reconfiguring(bench: Bench, b_units: float = 0) -> Stage:
    """A's configuration is being replaced; with ``b_units``, B runs a request meanwhile."""
    await bench.add("b")
    await bench.add("a")
    # With several slots a candidate is built once to be probed, and maybe once more to be used.
    load = LONG / 2 if bench.slots > 1 else LONG
    change = bench.register("a", "/two", load=load)
    await bench.until("a", state="reconfiguring")
    stage = Stage(hold_a=change, free_a=bench.after(change, load), path="/two")
    if not b_units:
        return stage
    hold_b = bench.run("b", b_units)
    await bench.until("b", active=1)
    return Stage(
        hold_a=change,
        free_a=stage.free_a,
        path="/two",
        hold_b=hold_b,
        free_b=bench.after(hold_b, b_units),
        spare_b=bench.slots > 1,
    )


async def reconfiguring_b_running(bench: Bench) -> Stage:
    """A's configuration is being replaced while B runs a request."""
    return await reconfiguring(bench, 1.5)


async def unloading(bench: Bench) -> Stage:
    """A is being torn down, slowly."""
    await bench.add("b")
    await bench.add("a", unload=LONG)
    hold = bench.unload("a")
    await bench.until("a", state="unloading")
    return Stage(hold_a=hold, free_a=bench.after(hold, LONG), a_after="unloaded")


async def both_loading(bench: Bench) -> Stage:
    """Requests drive the loads of both."""
    await bench.add_cold("a", load=LONG)
    await bench.add_cold("b", load=LONG)
    hold_a, hold_b = bench.run("a"), bench.run("b")
    await bench.until("a", state="loading", active=1)
    await bench.until("b", state="loading", active=1)
    return Stage(
        hold_a=hold_a,
        hold_b=hold_b,
        free_a=bench.after(hold_a, LONG),
        free_b=bench.after(hold_b, LONG),
        spare_b=False,
    )


async def other_bulk(bench: Bench) -> Stage:
    """Both run a request, and another bulk unload waits for both."""
    await bench.add("a")
    await bench.add("b")
    run_a, run_b = bench.run("a", LONG), bench.run("b", LONG)
    await bench.until("a", active=1)
    await bench.until("b", active=1)
    other = bench.bulk("a", "b")
    await bench.until("a", active=1, managers=1)
    await bench.until("b", active=1, managers=1)
    return Stage(
        hold_a=other,
        hold_b=other,
        free_a=bench.after(run_a, LONG),
        free_b=bench.after(run_b, LONG),
        a_after="unloaded",
        b_after="unloaded",
        spare_b=False,
    )
