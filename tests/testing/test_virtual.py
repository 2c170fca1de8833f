"""The virtual isolation: delays on the loop's clock, calls that can be held and seen."""

from collections.abc import AsyncIterator, Mapping

import pytest
import trio
import trio.testing
from tests.contract.census import CountedFamily
from tests.engines.odd_families import OddFamily, odd_load
from trio.testing import MockClock

from paraudio.engines import Job, Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import SessionHandle
from paraudio.errors import BackendCrashedError, BackendError, InvalidRequestError, LoadError
from paraudio.spec import Json
from paraudio.testing import Gates, VirtualIsolation, open_virtual_isolation


def load(
    options: Mapping[str, Json] | None = None, session: Mapping[str, Json] | None = None
) -> Load:
    return Load(
        "/m", "tts", "offline", None, None, options or {}, session or {}, model_id="m", generation=2
    )


def say(text: str, **options: Json) -> Job:
    return Job(task="tts", text=text, options=options)


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def isolation(gates: Gates) -> AsyncIterator[VirtualIsolation]:
    async with open_virtual_isolation(hang_timeout_s=10, gates=gates) as it:
        yield it


async def open_session(isolation: VirtualIsolation, given: Load) -> SessionHandle:
    return await (await isolation.load(SimulatedFamily(), given)).session()


async def test_delays_pass_on_the_clock_of_the_loop(
    isolation: VirtualIsolation, autojump_clock: MockClock
) -> None:
    model = await isolation.load(
        SimulatedFamily(), load({"load_ms": 60_000, "unload_ms": 3_000}, {"run_ms": 2_000})
    )
    assert trio.current_time() == 60
    session = await model.session()
    await session.run(say("x"))
    assert trio.current_time() == 62
    await session.close()
    await model.close()
    assert trio.current_time() == 65


async def test_a_stop_takes_no_time(isolation: VirtualIsolation, autojump_clock: MockClock) -> None:
    session = await open_session(isolation, load({}, {"run_ms": 60_000}))
    with trio.move_on_after(5):
        await session.run(say("x"))
    assert trio.current_time() == 5
    assert not session.busy


async def test_a_call_that_ignores_its_stop_hangs_for_its_own_time(
    isolation: VirtualIsolation, autojump_clock: MockClock
) -> None:
    session = await open_session(isolation, load({}, {"run_ms": 60_000, "ignore_cancel": True}))
    with trio.move_on_after(5):
        await session.run(say("x"))
    assert trio.current_time() == 15
    assert isolation.abandoned() == ["model 'm', session 1: run ignored its stop and still runs"]
    await session.wait_idle()
    assert trio.current_time() == 60
    assert isolation.abandoned() == []


@pytest.mark.parametrize(("can_kill", "busy_after"), [(False, True), (True, False)])
async def test_killing_is_for_those_who_can(
    can_kill: bool, busy_after: bool, autojump_clock: MockClock
) -> None:
    async with open_virtual_isolation(hang_timeout_s=1, can_kill=can_kill) as isolation:
        given = load({"load_ms": 500}, {"run_ms": 60_000, "ignore_cancel": True})
        session = await open_session(isolation, given)
        with trio.move_on_after(1):
            await session.run(say("x"))
        assert await session.kill() is can_kill
        assert session.busy is busy_after
        if can_kill:
            before = trio.current_time()
            await session.restore()
            assert trio.current_time() - before == 0.5  # a new worker loads again


async def test_a_session_that_is_killed_because_it_does_not_close_is_gone_before_its_weights(
    gates: Gates, autojump_clock: MockClock
) -> None:
    family = CountedFamily()
    gates.hold("close_session")
    async with open_virtual_isolation(hang_timeout_s=1, can_kill=True, gates=gates) as isolation:
        model = await isolation.load(family, load())
        session = await model.session()
        await session.close()
        assert trio.current_time() == 1
        assert family.census.sessions == {}
        await model.close()
        assert (family.census.weights, family.census.wrongs) == ({}, [])


async def test_a_crash_fails_what_runs_and_the_session_comes_back(
    isolation: VirtualIsolation, autojump_clock: MockClock
) -> None:
    model = await isolation.load(SimulatedFamily(), load({}, {"run_ms": 1_000}))
    one, two = await model.session(), await model.session()

    async def crash() -> None:
        await trio.sleep(0.5)
        assert isolation.crash("m", session=1) == 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash)
        nursery.start_soon(two.run, say("y"))
        with pytest.raises(BackendCrashedError):
            await one.run(say("x"))
    assert (await one.run(say("x"))).text == "x"
    await two.close()
    assert isolation.crash("m") == 1
    assert isolation.crash("other") == 0


async def test_a_gate_holds_in_order_and_lets_go_one_by_one(
    isolation: VirtualIsolation, gates: Gates, autojump_clock: MockClock
) -> None:
    model = await isolation.load(SimulatedFamily(), load())
    sessions = [await model.session() for _ in range(3)]
    gate = gates.hold("run")
    done: list[str] = []

    async def use(session: SessionHandle, text: str) -> None:
        await session.run(say(text))
        done.append(text)

    async with trio.open_nursery() as nursery:
        for count, (session, text) in enumerate(zip(sessions, "abc", strict=True), start=1):
            nursery.start_soon(use, session, text)
            assert len(await gate.wait_held(count)) == count
        assert [arrival.text for arrival in gate.held] == ["a", "b", "c"]
        assert [arrival.session for arrival in gate.held] == [1, 2, 3]
        assert [arrival.text for arrival in gate.release()] == ["a"]
        await trio.testing.wait_all_tasks_blocked()
        assert done == ["a"]
        gate.open()
    assert sorted(done) == ["a", "b", "c"]
    await sessions[0].run(say("d"))
    assert gates.count("run") == 4
    assert gates.count("run", model="other") == 0


async def test_a_gate_holds_only_whom_it_is_for(
    isolation: VirtualIsolation, gates: Gates, autojump_clock: MockClock
) -> None:
    model = await isolation.load(SimulatedFamily(), load())
    session = await model.session()
    gates.hold("run", model="other")
    gates.hold("run", session=2)
    gates.hold("run", text="y")
    await session.run(say("x"))
    held = gates.hold("run", model="m", session=1, text="z")
    with trio.move_on_after(1) as scope:
        await session.run(say("z"))
    assert scope.cancelled_caught
    assert held.held == []


async def test_every_point_is_passed_in_order(
    isolation: VirtualIsolation, gates: Gates, autojump_clock: MockClock
) -> None:
    model = await isolation.load(SimulatedFamily(), load())
    session = await model.session()
    async with session.stream(say("x", chunks=1)) as events:
        async for _ in events:
            pass
    async with session.run_batch([say("a"), say("b")]) as results:
        async for _ in results:
            pass
    await session.close()
    await model.close()
    assert [(arrival.point, arrival.text) for arrival in gates.arrivals] == [
        ("load", ""),
        ("session", ""),
        ("run", "x"),
        ("chunk", ""),
        ("chunk", ""),
        ("chunk", ""),
        ("restore", ""),
        ("run", "a | b"),
        ("chunk", ""),
        ("chunk", ""),
        ("chunk", ""),
        ("close_session", ""),
        ("close_model", ""),
    ]
    assert {arrival.generation for arrival in gates.arrivals} == {2}


async def test_a_held_load_can_be_cancelled(
    isolation: VirtualIsolation, gates: Gates, autojump_clock: MockClock
) -> None:
    gate = gates.hold("load")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(isolation.load, SimulatedFamily(), load())
        await gate.wait_held()
        nursery.cancel_scope.cancel()
    assert gate.held == []


async def test_weights_wait_for_a_session_that_hangs(
    isolation: VirtualIsolation, gates: Gates, autojump_clock: MockClock
) -> None:
    model = await isolation.load(
        SimulatedFamily(), load({}, {"run_ms": 60_000, "ignore_cancel": True})
    )
    session = await model.session()
    with trio.move_on_after(1):
        await session.run(say("x"))
    await session.close()
    await model.close()
    assert gates.count("close_model") == 0
    await session.wait_idle()
    await trio.testing.wait_all_tasks_blocked()
    assert [arrival.point for arrival in gates.arrivals[-2:]] == ["close_session", "close_model"]


async def test_failures_are_translated_as_in_the_real_isolations(
    isolation: VirtualIsolation, autojump_clock: MockClock
) -> None:
    family = SimulatedFamily()
    with pytest.raises(InvalidRequestError) as refused:
        await isolation.inspect(family, load({"capacity": 0}))
    assert refused.value.param == "load_options.capacity"
    with pytest.raises(LoadError, match="failure of load 1"):
        await isolation.load(family, load({"fail_loads": 1}))
    model = await isolation.load(family, load({"null_sessions": 1}))
    with pytest.raises(LoadError, match="built no session"):
        await model.session()
    session = await model.session()
    with pytest.raises(BackendError, match="failure of run 1"):
        await session.run(say("x", fail=True))


async def test_a_family_without_steps_is_refused(
    isolation: VirtualIsolation, autojump_clock: MockClock
) -> None:
    with pytest.raises(TypeError, match="family odd has no steps"):
        await isolation.load(OddFamily(), odd_load())


async def test_closing_the_isolation_fails_what_is_inside(
    autojump_clock: MockClock,
) -> None:
    raised: list[BackendError] = []

    async def use(session: SessionHandle) -> None:
        try:
            await session.run(say("x"))
        except BackendError as error:
            raised.append(error)

    async with trio.open_nursery() as nursery, open_virtual_isolation() as isolation:
        session = await open_session(isolation, load({}, {"run_ms": 60_000}))
        nursery.start_soon(use, session)
        await trio.testing.wait_all_tasks_blocked()
    assert len(raised) == 1
    assert "the isolation closed" in raised[0].message
