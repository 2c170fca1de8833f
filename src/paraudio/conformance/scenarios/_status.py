"""What the list of models says while one goes through everything that can happen to it."""

from typing import Final

from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario

WATCHED: Final = ("state/models_counters", "beyond/g06_atomic_status")
"""The cells that every look at the models judges, whatever scenario it was taken for."""


async def counters_follow_what_happens(bench: Bench) -> None:
    """Each count goes up and down with who runs and waits, and each state is passed."""
    call = bench.register("a", load=1, unload=1)
    await bench.until("a", state="loading", active=0)
    bench.still(call)
    await bench.good(call)
    row = await bench.settled("a", "ready", "/one")
    bench.expect(row.get("slots") == bench.slots, f"{row.get('slots')} slots, not {bench.slots}")
    hold = bench.run("a", 3)
    await bench.until("a", active=1, queued=0, managers=0)
    unload = bench.unload("a")
    await bench.until("a", active=1, queued=0, managers=1)
    behind = bench.run("a")
    await bench.until("a", active=1, queued=1, managers=1)
    bench.still(hold)
    await bench.served(hold)
    await bench.until("a", state="unloading", active=0, queued=1, managers=0)
    bench.still(unload)
    await bench.good(unload)
    await bench.served(behind)
    await bench.settled("a", "ready", "/one")


SCENARIOS: Final = (
    Scenario("counters follow what happens", WATCHED, counters_follow_what_happens),
)
