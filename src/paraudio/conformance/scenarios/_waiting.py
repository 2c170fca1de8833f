"""Bounds of waiting, clients that leave, bounds of queues, and requests by their ID."""

import secrets
from typing import Any, Final

import trio

from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario
from paraudio.conformance._verdicts import BrokenError, NotApplicableError, TooSlowError
from paraudio.conformance._wire import Call

_FOREVER: Final = 60.0
"""Units of a run that is over only if it is stopped: more than anything waits for."""


async def fill(bench: Bench, units: float, **more: Any) -> Call:
    """Register A and take all its slots for so many units; returns the first request."""
    await bench.add("a", **more)
    first = bench.run("a", units)
    for _ in range(bench.slots - 1):
        bench.run("a", units)
    await bench.until("a", active=bench.slots)
    return first


async def a_request_leaves_at_its_bound(bench: Bench) -> None:
    """503 at the bound, not before; who runs goes on."""
    hold = await fill(bench, 6)
    call = bench.run("a", bound_ms=bench.ms(2.5))
    await bench.meanwhile(call, hold)
    await bench.refused(call, "server_busy")
    _full_wait(bench, call, hold, 2.5)
    await bench.served(hold)
    await bench.settled("a", "ready")


async def a_manager_leaves_at_its_bound(bench: Bench) -> None:
    """503 at the bound; who waited behind it is let in."""
    await bench.add("a")
    hold = bench.run("a", 7)
    await bench.until("a", active=1)
    call = bench.unload("a", bound_ms=bench.ms(2.5))
    await bench.until("a", managers=1)
    behind = bench.run("a", 0.5)
    await bench.until("a", managers=1, queued=1)
    await bench.refused(call, "server_busy")
    _full_wait(bench, call, hold, 2.5)
    if bench.slots > 1:
        await bench.meanwhile(behind, hold)
        bench.not_before(behind, bench.after(call, 2.5), "the manager's bound")
    bench.still(hold)
    await bench.served(behind)
    await bench.served(hold)
    await bench.settled("a", "ready")


def _full_wait(bench: Bench, call: Call, hold: Call, bound: float) -> None:
    """It waited for its bound; refused sooner, it may only be if what it met was held too long."""
    if call.ended_at >= bench.after(hold, bound) and call.ended_at < bench.after(call, bound):
        raise TooSlowError(f"{call} came when {hold} had run for its bound already")
    bench.not_before(call, bench.after(call, bound), "its bound")


async def overdue_holders_are_not_waited_for(bench: Bench) -> None:
    """503 at once where every slot has been held for longer than the bound; else a wait."""
    hold = await fill(bench, 8)
    await bench.pass_time(trio.current_time() + 2 * bench.unit_s)
    hopeless = bench.run("a", bound_ms=bench.ms(1.5))
    await bench.meanwhile(hopeless, hold)
    await bench.refused(hopeless, "server_busy")
    if hopeless.ended_at > bench.after(hopeless, 1.5):
        raise TooSlowError(f"{hopeless} waited, though all slots were held for longer than that")
    patient = bench.run("a", bound_ms=bench.ms(60))
    await bench.until("a", queued=1)
    await bench.served(patient)
    await bench.settled("a", "ready")


async def one_healthy_holder_allows_a_wait(bench: Bench) -> None:
    """With an overdue holder and a fresh one, a newcomer waits, and may be served."""
    await bench.add("a")
    overdue = bench.run("a", 9)
    await bench.until("a", active=1)
    await bench.pass_time(bench.after(overdue, 3))
    fresh = bench.run("a", 2)
    await bench.until("a", active=2)
    hopeful = bench.run("a", bound_ms=bench.ms(2.9))
    await bench.until("a", active=2, queued=1)
    await bench.meanwhile(hopeful, overdue)
    answer = await hopeful.wait()
    if answer.status == 503 and hopeful.ended_at - hopeful.sent_at > bench.unit_s:
        raise TooSlowError(f"{hopeful} reached its bound before the fresh request had ended")
    await bench.served(hopeful)
    await bench.served(fresh)
    await bench.served(overdue)
    await bench.settled("a", "ready")


async def no_bound_and_bulks_wait(bench: Bench) -> None:
    """A bulk waits longer than the model's bound, and 0 never fails fast."""
    hold = await fill(bench, 5, busy_timeout_ms=bench.ms(1))
    await bench.pass_time(bench.after(hold, 1.5))
    bulk = bench.bulk("a")
    await bench.until("a", managers=1)
    bench.still(hold)
    await bench.good(bulk)
    bench.not_before(bulk, bench.after(hold, 5), "the running request")
    await bench.settled("a", "unloaded")
    await bench.add("b", busy_timeout_ms=0)
    hold = bench.run("b", 3)
    for _ in range(bench.slots - 1):
        bench.run("b", 3)
    await bench.until("b", active=bench.slots)
    endless = bench.run("b", bound_ms=0)
    await bench.until("b", queued=1)
    bench.still(hold)
    await bench.served(endless)
    bench.not_before(endless, bench.after(hold, 3), "a slot")
    await bench.settled("b", "ready")


async def a_queued_client_that_leaves(bench: Bench) -> None:
    """Its place is gone while the others still run; it uses no slot and starts no load."""
    hold = await fill(bench, 5)
    before = await bench.row("a")
    leaver, stays = bench.run("a", _FOREVER), None
    await bench.until("a", queued=1)
    stays = bench.run("a", 0.5)
    await bench.until("a", queued=2)
    leaver.leave()
    await bench.until("a", active=bench.slots, queued=1)
    bench.still(hold)
    await bench.served(stays)
    row = await bench.settled("a", "ready")
    same = row.get("generation") == before.get("generation")
    bench.expect(same, "a load was started for somebody who had left")


async def a_driver_that_leaves(bench: Bench) -> None:
    """Its load goes on to its end, and the slot is free then."""
    await bench.add_cold("a", load=4)
    driver = bench.run("a", _FOREVER)
    row = await bench.until("a", state="loading", active=1)
    driver.leave()
    await bench.settled("a", "ready")
    await bench.served(bench.run("a"))
    after = await bench.row("a")
    same = row.get("generation") == after.get("generation")
    bench.expect(same, "the load was given up when the client that drove it left")


async def a_follower_that_leaves(bench: Bench) -> None:
    """It gives its slot up at once; the load is not its."""
    await bench.add_cold("a", load=5)
    driver = bench.run("a")
    await bench.until("a", state="loading", active=1)
    follower = bench.run("a", _FOREVER)
    await bench.until("a", state="loading", active=2)
    follower.leave()
    await bench.until("a", state="loading", active=1)
    bench.still(driver)
    await bench.served(driver)
    await bench.settled("a", "ready")


async def a_running_client_that_leaves(bench: Bench) -> None:
    """Its run is stopped, and its slot serves the next one."""
    await bench.add("a")
    hold = bench.run("a", _FOREVER)
    await bench.until("a", active=1)
    await bench.pass_time(trio.current_time() + bench.unit_s / 2)
    hold.leave()
    await bench.settled("a", "ready")
    for _ in range(bench.slots + 1):
        await bench.served(bench.run("a"))


async def a_streaming_client_that_leaves(bench: Bench) -> None:
    """Its stream ends, and the next one is whole."""
    await bench.add("a")
    stream = bench.stream("a", _FOREVER, chunks=80)
    await stream.begun.wait()
    await bench.until("a", active=1)
    stream.leave()
    await bench.settled("a", "ready")
    answer = await bench.stream("a", 0.5).wait()
    whole = answer.status == 200 and answer.events[-1:] == ["[DONE]"]
    bench.expect(whole, f"the next stream is not whole: {answer.status} {answer.events[-2:]}")


async def clients_that_leave_at_any_moment(bench: Bench) -> None:
    """Before their answer begins, as it begins, or after: nothing stays held."""
    await bench.add("a")
    for step in range(12):
        call = bench.run("a") if step % 2 else bench.stream("a", 0, chunks=1)
        with trio.move_on_after(step * 0.002):
            await call.ended.wait()
        call.leave()
    await bench.settled("a", "ready")
    for _ in range(bench.slots + 1):
        await bench.served(bench.run("a"))


async def an_admitted_request_counts_during_the_load(bench: Bench) -> None:
    """Its slot is active although nothing runs yet."""
    await bench.add_cold("a", load=3)
    call = bench.run("a")
    row = await bench.until("a", state="loading", active=1)
    bench.still(call)
    bench.expect(row.get("queued_requests") == 0, f"it counts as queued: {row}")
    await bench.served(call)
    await bench.settled("a", "ready")


async def a_full_queue_refuses(bench: Bench) -> None:
    """503 `queue_full` with Retry-After, at once."""
    hold = await fill(bench, 6, max_queued_requests=1)
    waits = bench.run("a")
    await bench.until("a", queued=1)
    refused = bench.run("a")
    await bench.meanwhile(refused, hold)
    await bench.refused(refused, "queue_full")
    await bench.served(waits)
    await bench.settled("a", "ready")


async def requests_are_listed_and_cancelled(bench: Bench) -> None:
    """By the ID that their client gave: with their phase and place, until somebody ends them."""
    found = await bench.start("list of requests", "GET", "/v1/requests").wait()
    if found.status == 404:
        raise NotApplicableError("this server has no /v1/requests")
    await bench.add("a")
    names = [f"cf-{secrets.token_hex(6)}" for _ in range(bench.slots + 1)]
    calls = []
    for count, name in enumerate(names):
        calls.append(bench.run("a", _FOREVER, request=name))
        running = min(count + 1, bench.slots)
        await bench.until("a", active=running, queued=count + 1 - running)
    listed = await bench.good(bench.start("list of requests", "GET", "/v1/requests"))
    rows = {row.get("id"): row for row in listed["data"]}
    if missing := set(names) - rows.keys():
        raise BrokenError(f"requests in progress are not listed: {missing}")
    waiting = rows[names[-1]]
    seen = (waiting.get("phase"), waiting.get("position"), waiting.get("model"))
    bench.expect(seen == ("queued", 0, bench.name("a")), f"the one that waits is shown as {seen}")
    bench.expect(waiting.get("age_ms", -1) >= 0, f"it has no age: {waiting}")
    for name in reversed(names):
        await bench.good(bench.start(f"cancel of {name}", "DELETE", f"/v1/requests/{name}"))
    for call in calls:
        answer = await call.wait()
        bench.expect(answer.status >= 400, f"a cancelled request was answered with {answer}")
    await bench.settled("a", "ready")
    await bench.served(bench.run("a"))


async def a_fence_takes_what_comes_meanwhile(bench: Bench) -> None:
    """A model that is registered while a fenced bulk drains is unloaded by it."""
    await bench.add("a")
    hold = bench.run("a", 5)
    await bench.until("a", active=1)
    bulk = bench.bulk("a", "c", fence=True)
    await bench.until("a", managers=1)
    late = bench.register("c")
    await late.wait()
    bench.still(hold)
    answer = await bench.good(bulk)
    both = sorted([bench.name("a"), bench.name("c")])
    bench.expect(sorted(answer["unloaded"]) == both, f"{bulk}: {answer}, not {both}")
    await bench.settled("a", "unloaded")
    await bench.settled("c", "unloaded")


SCENARIOS: Final = (
    Scenario(
        "a request leaves at its bound",
        ("time/admission_timeout_request",),
        a_request_leaves_at_its_bound,
    ),
    Scenario(
        "a manager leaves at its bound",
        ("time/admission_timeout_manager",),
        a_manager_leaves_at_its_bound,
    ),
    Scenario(
        "overdue holders are not waited for",
        ("time/healthy_and_overdue_blockers",),
        overdue_holders_are_not_waited_for,
    ),
    Scenario(
        "one healthy holder allows a wait",
        ("time/healthy_and_overdue_blockers",),
        one_healthy_holder_allows_a_wait,
        parallel=True,
    ),
    Scenario("no bound and bulks wait", ("time/timeout_zero_and_bulk",), no_bound_and_bulks_wait),
    Scenario(
        "a queued client that leaves",
        ("time/disconnect_queued", "beyond/g01_waiter_leaves_on_disconnect"),
        a_queued_client_that_leaves,
    ),
    Scenario(
        "a driver that leaves",
        ("time/disconnect_waiting_initialization", "beyond/g02_initializer_disconnect_keeps_load"),
        a_driver_that_leaves,
    ),
    Scenario(
        "a follower that leaves",
        ("time/disconnect_waiting_initialization", "beyond/g02_initializer_disconnect_keeps_load"),
        a_follower_that_leaves,
        parallel=True,
    ),
    Scenario(
        "a running client that leaves",
        ("time/disconnect_executing_offline", "beyond/g03_running_inference_cancelled"),
        a_running_client_that_leaves,
    ),
    Scenario(
        "a streaming client that leaves",
        ("time/disconnect_active_stream",),
        a_streaming_client_that_leaves,
    ),
    Scenario(
        "clients that leave at any moment",
        ("time/abandon_unstarted_response",),
        clients_that_leave_at_any_moment,
    ),
    Scenario(
        "an admitted request counts during the load",
        ("phase/admitted_initializing",),
        an_admitted_request_counts_during_the_load,
    ),
    Scenario("a full queue refuses", ("beyond/g07_queue_bound",), a_full_queue_refuses),
    Scenario(
        "requests are listed and cancelled",
        ("beyond/g10_request_listing_and_cancel",),
        requests_are_listed_and_cancelled,
    ),
    Scenario(
        "a fence takes what comes meanwhile",
        ("beyond/g12_fenced_bulk_unload",),
        a_fence_takes_what_comes_meanwhile,
    ),
)
