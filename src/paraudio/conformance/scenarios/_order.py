"""Arrival order: who came first is served first, and who is exclusive is alone."""

from collections.abc import Callable
from typing import Final

from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario
from paraudio.conformance._wire import Call
from paraudio.conformance.scenarios import _stages


async def requests_share_slots_in_order(bench: Bench) -> None:
    """As many as there are slots run at once, each in a session of its own; then the next."""
    await bench.add("a")
    first = [bench.run("a", 3)]
    for count in range(2, bench.slots + 1):
        first.append(bench.run("a", 3))
        await bench.until("a", active=count)
    await bench.until("a", active=bench.slots)
    later = [bench.run("a", 1)]
    await bench.until("a", active=bench.slots, queued=1)
    for count in range(2, bench.slots + 2):
        later.append(bench.run("a", 1))
        await bench.until("a", active=bench.slots, queued=count)
    bench.still(first[0])
    sessions = [(await bench.served(call)).get("session") for call in first]
    bench.expect(len(set(sessions)) == bench.slots, f"requests shared a session: {sessions}")
    for call in later:
        await bench.served(call)
        bench.not_before(call, bench.after(first[0], 3), "a slot")
    bench.in_order(later[0], later[-1])
    await bench.settled("a", "ready")


async def a_manager_waits_for_older_work(bench: Bench) -> None:
    """A request, a stream or a batch that came before ends first; a later request comes after."""
    kinds: dict[str, Callable[[str, float], Call]] = {
        "a": bench.run,
        "b": bench.stream,
        "c": bench.batch,
    }
    for key, begin in kinds.items():
        await bench.add(key)
        hold = begin(key, 3)
        await bench.until(key, active=1)
        change = bench.register(key, "/two", load=0.5)
        await bench.until(key, active=1, managers=1)
        later = bench.run(key, 0.5)
        await bench.until(key, active=1, managers=1, queued=1)
        bench.still(hold)
        await bench.good(change)
        bench.not_before(change, bench.after(hold, 3), f"the {hold}")
        await bench.served(later, "/two")
        answer = await hold.wait()
        bench.expect(answer.status == 200, f"{hold}: {answer}; it should be 200")
        await bench.settled(key, "ready", "/two")


async def a_request_waits_for_an_older_manager(bench: Bench) -> None:
    """It gets the configuration that results; at its bound it leaves, and never held a slot."""
    stage = await _stages.reconfiguring(bench)
    hurried = bench.run("a", bound_ms=bench.ms(1))
    patient = bench.run("a", 0.5)
    await bench.meanwhile(hurried, stage.hold_a)
    await bench.refused(hurried, "server_busy")
    await bench.served(patient, "/two")
    bench.not_before(patient, stage.free_a, "the reconfiguration")
    await bench.settled("a", "ready", "/two")


async def managers_come_one_after_the_other(bench: Bench) -> None:
    """An unload retires what an older registration loaded, a later one loads again."""
    await bench.add("a")
    hold = bench.run("a", 4)
    await bench.until("a", active=1)
    first = bench.register("a", "/two", load=0.5, unload=0.5)
    await bench.until("a", managers=1)
    second = bench.unload("a")
    await bench.until("a", managers=2)
    third = bench.register("a", "/three", load=0.5)
    await bench.until("a", managers=3)
    bench.still(hold)
    for call in (first, second, third):
        await bench.good(call)
        bench.not_before(call, bench.after(hold, 4), "the running request")
    bench.in_order(hold, first, second, third)
    await bench.settled("a", "ready", "/three")


async def models_do_not_wait_for_each_other(bench: Bench) -> None:
    """Whatever A does, slow as it is, B's requests, loads and unloads go on."""
    stage = await _stages.loading(bench)
    waiting = bench.unload("a")
    await bench.until("a", managers=1)
    await bench.served(bench.run("b"))
    await bench.good(bench.unload("b"))
    await bench.meanwhile(again := bench.run("b"), stage.hold_a)
    await bench.served(again)
    await bench.good(waiting)
    await bench.settled("a", "unloaded")
    await bench.settled("b", "ready")


async def bulks_do_not_lock_each_other(bench: Bench) -> None:
    """Two that select the same models in different orders both come to their end."""
    stage = await _stages.other_bulk(bench)
    second = bench.bulk("b", "a")
    await bench.until("a", managers=2)
    await bench.until("b", managers=2)
    both = sorted([bench.name("a"), bench.name("b")])
    for call in (stage.hold_a, second):
        if call is not None:
            answer = await bench.good(call)
            bench.expect(sorted(answer["unloaded"]) == both, f"{call}: {answer}, not {both}")
            bench.not_before(call, max(stage.free_a, stage.free_b), "the running requests")
    await bench.settled("a", "unloaded")
    await bench.settled("b", "unloaded")


async def a_bulk_and_single_operations_queue(bench: Bench) -> None:
    """Each model's own order decides, and what is registered after the snapshot is not part."""
    await bench.add("b")
    await bench.add("a")
    hold = bench.run("a", 4)
    await bench.until("a", active=1)
    bulk = bench.bulk("a", "b", "c")
    await bench.until("a", managers=1)
    await bench.add("c")
    change = bench.register("a", "/two", load=0.5)
    await bench.until("a", managers=2)
    bench.still(hold)
    answer = await bench.good(bulk)
    bench.expect(answer["not_found"] == [bench.name("c")], f"{bulk}: {answer}; c came later")
    await bench.good(change)
    bench.not_before(bulk, bench.after(hold, 4), "the running request")
    bench.in_order(bulk, change)
    await bench.settled("a", "ready", "/two")
    await bench.settled("b", "unloaded")
    await bench.settled("c", "ready")


async def a_bulk_whose_client_leaves_holds_nothing(bench: Bench) -> None:
    """Its waiting barriers leave; what it unloaded stays so."""
    await bench.add("b")
    await bench.add("a")
    hold = bench.run("a", 4)
    await bench.until("a", active=1)
    bulk = bench.bulk("a", "b")
    await bench.until("a", managers=1)
    await bench.until("b", state="unloaded")
    bulk.leave()
    await bench.until("a", managers=0)
    bench.still(hold)
    await bench.served(hold)
    await bench.served(bench.run("a"))
    await bench.settled("a", "ready")
    await bench.settled("b", "unloaded")


SCENARIOS: Final = (
    Scenario(
        "requests share slots in order",
        ("order/request_then_request", "phase/queued", "phase/executing"),
        requests_share_slots_in_order,
    ),
    Scenario(
        "a manager waits for older work",
        ("order/request_then_manager", "phase/active_stream_or_batch"),
        a_manager_waits_for_older_work,
    ),
    Scenario(
        "a request waits for an older manager",
        ("order/manager_then_request",),
        a_request_waits_for_an_older_manager,
    ),
    Scenario(
        "managers come one after the other",
        ("order/manager_then_manager",),
        managers_come_one_after_the_other,
    ),
    Scenario(
        "models do not wait for each other",
        ("order/different_models_either_order",),
        models_do_not_wait_for_each_other,
    ),
    Scenario(
        "bulks do not lock each other",
        ("order/bulk_then_overlapping_bulk",),
        bulks_do_not_lock_each_other,
    ),
    Scenario(
        "a bulk and single operations queue",
        ("order/bulk_with_single",),
        a_bulk_and_single_operations_queue,
    ),
    Scenario(
        "a bulk whose client leaves holds nothing",
        ("order/bulk_cancelled_or_partly_published",),
        a_bulk_whose_client_leaves_holds_nothing,
    ),
)
