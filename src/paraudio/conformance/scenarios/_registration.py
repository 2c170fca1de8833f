"""New registrations, and what a registration may say of slots."""

from typing import Final

from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario

_WRONG_SLOTS: Final[tuple[object, ...]] = (None, True, "2", 1.5, 0, 17)


async def publishes_one_entry(bench: Bench) -> None:
    """It is listed once, loading, and answers when it is loaded."""
    call = bench.register("a", load=2)
    row = await bench.until("a", state="loading")
    bench.still(call)
    bench.expect(row.get("loaded") is False, f"loaded while it loads: {row}")
    answer = await bench.good(call)
    bench.not_before(call, bench.after(call, 2), "the load")
    right = answer.get("loaded") is True and answer.get("reconfigured") is False
    bench.expect(right, f"{call}: {answer}, not loaded, or reconfigured")
    listed = await bench.good(bench.start("list", "GET", "/v1/models"))
    count = sum(row["id"] == bench.name("a") for row in listed["data"])
    bench.expect(count == 1, f"it is listed {count} times")
    await bench.settled("a", "ready", "/one")


async def the_second_of_one_id_queues(bench: Bench) -> None:
    """It changes the entry when the first has loaded it."""
    first = bench.register("a", load=3)
    await bench.until("a", state="loading")
    second = bench.register("a", "/two", load=0.5)
    await bench.until("a", state="loading", managers=1)
    bench.still(first)
    await bench.good(first)
    changed = await bench.good(second)
    bench.not_before(second, bench.after(first, 3), "the first load")
    bench.expect(changed.get("reconfigured") is True, f"{second}: {changed}, not reconfigured")
    bench.in_order(first, second)
    await bench.settled("a", "ready", "/two")


async def different_ids_do_not_wait(bench: Bench) -> None:
    """A quick load overtakes a slow one that began before it."""
    slow = bench.register("a", load=5)
    await bench.until("a", state="loading")
    quick = bench.register("b")
    await bench.meanwhile(quick, slow)
    await bench.good(quick)
    await bench.good(slow)
    await bench.settled("a", "ready")
    await bench.settled("b", "ready")


async def a_failed_first_load_leaves_an_entry(bench: Bench) -> None:
    """500, registered, unloaded; the next request loads it."""
    await bench.refused(bench.register("a", load_options={"fail_loads": 1}), status=500)
    await bench.settled("a", "unloaded", "/one")
    await bench.served(bench.run("a"), "/one")
    await bench.settled("a", "ready")


async def too_many_slots_leave_an_entry(bench: Bench) -> None:
    """400 that names slots; registered and unloaded until a registration corrects it."""
    wrong = bench.register("a", slots=4, load_options={"capacity": 2})
    answer = await bench.refused(wrong, status=400)
    bench.expect(answer.error("param") == "slots", f"{wrong}: {answer} does not name slots")
    bench.expect("2" in str(answer.error("message")), f"{wrong}: {answer} names no capacity")
    row = await bench.settled("a", "unloaded")
    bench.expect(row.get("max_parallel_slots") is None, f"unloaded, with a capacity: {row}")
    await bench.good(bench.register("a", slots=2, load_options={"capacity": 2}))
    await bench.settled("a", "ready")


async def serial_models_have_one_slot(bench: Bench) -> None:
    """A registration that says nothing of slots gets one."""
    await bench.add("a")
    row = await bench.settled("a", "ready")
    bench.expect(row.get("slots") == 1, f"slots is {row.get('slots')!r}")


async def serial_policy_refuses_any_slots(bench: Bench) -> None:
    """Whatever its value, the key is refused by name, and nothing is published."""
    for value in (1, 2, *_WRONG_SLOTS):
        await _refused_slots(bench, value)


async def without_slots_a_model_has_one(bench: Bench) -> None:
    """The parallel policy does not give more than was asked for."""
    body = bench.body("a")
    del body["slots"]
    await bench.good(bench.load("a", body))
    row = await bench.settled("a", "ready")
    bench.expect(row.get("slots") == 1, f"slots is {row.get('slots')!r}")


async def one_to_sixteen_slots_are_taken(bench: Bench) -> None:
    """A model has as many as it was given."""
    for count in (1, 2, 16):
        await bench.add(f"m{count}", slots=count)
        row = await bench.settled(f"m{count}", "ready")
        seen = (row.get("slots"), row.get("max_parallel_slots"))
        bench.expect(seen == (count, 16), f"slots and capacity are {seen}, not {(count, 16)}")


async def wrong_slots_are_refused(bench: Bench) -> None:
    """Null, booleans, strings, fractions, 0 and 17 are 400, and nothing is published."""
    for value in _WRONG_SLOTS:
        await _refused_slots(bench, value)


async def _refused_slots(bench: Bench, value: object) -> None:
    call = bench.load("a", {**bench.body("a"), "slots": value})
    answer = await bench.refused(call, status=400)
    named = "slots" in str(answer.error("param"))
    bench.expect(named, f"{call}: {answer} does not name slots")
    gone = bench.start("look", "GET", f"/v1/models/{bench.name('a')}")
    await bench.refused(gone, status=404)


SCENARIOS: Final = (
    Scenario(
        "a registration publishes one entry",
        ("register_new/publishes_one_entry_under_lease",),
        publishes_one_entry,
    ),
    Scenario(
        "the second registration of an ID queues",
        ("register_new/concurrent_same_id_queues",),
        the_second_of_one_id_queues,
    ),
    Scenario(
        "registrations of different IDs do not wait for each other",
        ("register_new/different_ids_independent",),
        different_ids_do_not_wait,
    ),
    Scenario(
        "a failed first load leaves an entry",
        ("register_new/first_load_failure_stays_registered",),
        a_failed_first_load_leaves_an_entry,
    ),
    Scenario(
        "too many slots leave an entry",
        (
            "register_new/unsupported_count_stays_registered_unloaded",
            "startup/slots_over_capacity_publishes_nothing",
        ),
        too_many_slots_leave_an_entry,
        parallel=True,
    ),
    Scenario(
        "serial models have one slot",
        ("startup/no_flag_no_slots",),
        serial_models_have_one_slot,
        parallel=False,
    ),
    Scenario(
        "the serial policy refuses any slots",
        ("startup/no_flag_any_slots_rejected",),
        serial_policy_refuses_any_slots,
        parallel=False,
    ),
    Scenario(
        "without slots a model has one",
        ("startup/flag_no_slots_capacity_one",),
        without_slots_a_model_has_one,
        parallel=True,
    ),
    Scenario(
        "one to sixteen slots are taken",
        ("startup/flag_slots_1_to_16",),
        one_to_sixteen_slots_are_taken,
        parallel=True,
    ),
    Scenario(
        "wrong slots are refused",
        ("startup/slots_schema_rejected",),
        wrong_slots_are_refused,
        parallel=True,
    ),
)
