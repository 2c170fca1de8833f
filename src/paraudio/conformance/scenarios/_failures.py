"""Failures that the simulated family can be told to have: what each keeps, frees and answers."""

from collections.abc import Mapping
from typing import Any, Final

from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario
from paraudio.conformance._watch import Row
from paraudio.conformance.scenarios import _stages

_KEPT: Final = ("path", "slots", "state", "loaded", "max_parallel_slots", "generation", "config")


async def wrong_fields_change_nothing(bench: Bench) -> None:
    """A wrong task, mode, option, preset or unknown key is a 400, and the model as it was."""
    await bench.add("a")
    before = await bench.settled("a", "ready")
    wrong: tuple[Mapping[str, Any], ...] = (
        {"task": "midi"},
        {"mode": "sideways"},
        {"load_options": {"load_ms": -1}},
        {"session_options": {"no_such_option": 1}},
        {"default_voice_preset": "nobody"},
        {"no_such_key": 1},
    )
    for change in wrong:
        call = bench.load("a", {**bench.body("a", "/two"), **change})
        answer = await bench.refused(call, status=400)
        bench.expect(answer.error("param"), f"{change}: {answer} names no field")
        await _same(bench, before)
    await bench.served(bench.run("a"), "/one")


async def too_many_slots_change_nothing(bench: Bench) -> None:
    """The pool stays as it was, and a count that fits works next."""
    options = {"capacity": 2}
    await bench.add("a", slots=1, load_options=options)
    before = await bench.settled("a", "ready")
    call = bench.register("a", slots=4, load_options=options)
    answer = await bench.refused(call, status=400)
    bench.expect(answer.error("param") == "slots", f"{call}: {answer} does not name slots")
    await _same(bench, before)
    await bench.served(bench.run("a"))
    await bench.good(bench.register("a", slots=2, load_options=options))
    row = await bench.settled("a", "ready")
    bench.expect(row.get("slots") == 2, f"{row.get('slots')} slots after a resize to 2")


async def a_failing_probe_changes_nothing(bench: Bench) -> None:
    """What is built of a candidate fails before the old configuration is touched."""
    await bench.add("a")
    before = await bench.settled("a", "ready")
    call = bench.register("a", "/two", load_options={"fail_loads": 1})
    answer = await call.wait()
    bench.expect(answer.status in (400, 500), f"{call}: {answer}; it should be 400 or 500")
    await _same(bench, before)
    await bench.served(bench.run("a"), "/one")


async def a_load_that_fails_after_the_commit(bench: Bench) -> None:
    """The new configuration stands, unloaded; the next request loads it."""
    await bench.add("a", slots=1)
    call = bench.register("a", "/two", slots=1, load_options={"fail_loads": 1})
    await bench.refused(call, status=500)
    await bench.settled("a", "unloaded", "/two")
    await bench.served(bench.run("a"), "/two")
    await bench.settled("a", "ready", "/two")


async def the_next_waiter_drives_another_load(bench: Bench) -> None:
    """The driver of a failed load gets a 500, who waited with it gets a result."""
    options = {"fail_loads": 2}
    await bench.refused(bench.register("a", load=3, load_options=options), status=500)
    driver = bench.run("a")
    await bench.until("a", state="loading", active=1)
    follower = bench.run("a")
    seen = {"active": 2} if bench.slots > 1 else {"active": 1, "queued": 1}
    await bench.until("a", state="loading", **seen)
    bench.still(driver)
    await bench.refused(driver, status=500)
    await bench.served(follower)
    bench.in_order(driver, follower)
    await bench.settled("a", "ready")


async def a_missing_session_fails_the_load(bench: Bench) -> None:
    """500, nothing left; the next attempt is a new one."""
    await bench.refused(bench.register("a", load_options={"null_sessions": 1}), status=500)
    await bench.settled("a", "unloaded")
    await bench.served(bench.run("a"))
    await bench.settled("a", "ready")


async def a_failing_clone_publishes_nothing(bench: Bench) -> None:
    """A pool that is not complete is no pool."""
    await bench.refused(bench.register("a", load_options={"fail_clone": 2}), status=500)
    row = await bench.settled("a", "unloaded")
    bench.expect(row.get("loaded") is False, f"a part of a pool is published: {row}")
    await bench.served(bench.run("a"))
    await bench.settled("a", "ready")


async def a_failed_preparation_frees_its_slot(bench: Bench) -> None:
    """500 before anything is streamed; the session works on."""
    await bench.add("a", session_options={"fail_prepares": bench.slots})
    for _ in range(bench.slots):
        await bench.refused(bench.run("a"), status=500)
    await bench.settled("a", "ready")
    await bench.served(bench.run("a"))


async def a_failed_run_frees_its_slot(bench: Bench) -> None:
    """500, or an error event in a stream that has begun; the model works on."""
    await bench.add("a")
    await bench.refused(bench.run("a", 0.5, fail=True), status=500)
    stream = bench.stream("a", 0.5, fail=True)
    answer = await stream.wait()
    events = answer.events
    told = answer.status == 500 or any('"error"' in event for event in events)
    bench.expect(told, f"{stream}: {answer} tells no error")
    bench.expect("[DONE]" not in events, f"{stream}: an error that ends as if all were well")
    await bench.settled("a", "ready")
    for _ in range(bench.slots):
        await bench.served(bench.run("a"))


async def a_refused_registration_leaves_no_entry(bench: Bench) -> None:
    """400, and the registry as it was."""
    call = bench.load("a", {**bench.body("a"), "task": "midi"})
    await bench.refused(call, status=400)
    await bench.refused(bench.start("look", "GET", f"/v1/models/{bench.name('a')}"), status=404)
    await bench.add("a")
    await bench.settled("a", "ready")


async def a_slow_teardown_holds_nobody_else(bench: Bench) -> None:
    """Not loaded any more at once; answered when it is over; others go on."""
    stage = await _stages.unloading(bench)
    row = await bench.row("a")
    await bench.meanwhile(bench.run("b"), stage.hold_a)
    gone = row.get("loaded") is False and row.get("max_parallel_slots") is None
    bench.expect(gone, f"shown as loaded during its teardown: {row}")
    if stage.hold_a is not None:
        await bench.good(stage.hold_a)
        bench.not_before(stage.hold_a, stage.free_a, "the teardown")
    await bench.settled("a", "unloaded")


async def _same(bench: Bench, before: Row) -> None:
    after = await bench.until("a", active=0, queued=0, managers=0)
    changed = {
        name: (before.get(name), after.get(name))
        for name in _KEPT
        if before.get(name) != after.get(name)
    }
    bench.expect(not changed, f"a refused change left its mark: {changed}")


SCENARIOS: Final = (
    Scenario(
        "wrong fields change nothing",
        ("fail/invalid_before_live_change",),
        wrong_fields_change_nothing,
    ),
    Scenario(
        "too many slots change nothing",
        ("fail/unsupported_capacity_on_existing",),
        too_many_slots_change_nothing,
        parallel=True,
    ),
    Scenario(
        "a failing probe changes nothing",
        ("fail/capacity_probe_of_changed_replacement",),
        a_failing_probe_changes_nothing,
        parallel=True,
    ),
    Scenario(
        "a load that fails after the commit",
        ("fail/load_failure_after_commit",),
        a_load_that_fails_after_the_commit,
    ),
    Scenario(
        "the next waiter drives another load",
        ("fail/initial_load_loader_failure",),
        the_next_waiter_drives_another_load,
    ),
    Scenario(
        "a missing session fails the load",
        ("fail/initial_load_null_primary",),
        a_missing_session_fails_the_load,
    ),
    Scenario(
        "a failing clone publishes nothing",
        ("fail/initial_load_partial_clone",),
        a_failing_clone_publishes_nothing,
        parallel=True,
    ),
    Scenario(
        "a failed preparation frees its slot",
        ("fail/preparation_failure",),
        a_failed_preparation_frees_its_slot,
    ),
    Scenario(
        "a failed run frees its slot", ("fail/execution_failure",), a_failed_run_frees_its_slot
    ),
    Scenario(
        "a refused registration leaves no entry",
        ("fail/publication_failure_before_commit",),
        a_refused_registration_leaves_no_entry,
    ),
    Scenario(
        "a slow teardown holds nobody else",
        ("fail/slow_teardown",),
        a_slow_teardown_holds_nobody_else,
    ),
)
