"""Loading: shared by all who wait, private until it is complete, retried after a failure."""

from collections.abc import Mapping, Sequence
from math import inf

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import job, open_stage, spec
from trio.testing import MockClock

from paraudio.admission import Claim, Lease
from paraudio.engines import Family, Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import AbandonedCall, Inspection, Isolation, ModelHandle
from paraudio.errors import InvalidRequestError, LoadError
from paraudio.journal import Kind
from paraudio.lifecycle._model import Model
from paraudio.spec import Json


@pytest.mark.contract(
    "ops/unloaded/inference", "ops/loading/inference", "state/loading", "state/ready"
)
@pytest.mark.contract("phase/admitted_initializing", "ops/loading/status")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_one_load_serves_all_who_wait_for_it(autojump_clock: MockClock, slots: int) -> None:
    async with open_stage(spec("a", slots, load_ms=2000, run_ms=1000)) as stage:
        for index in range(4):
            await stage.ask(f"r{index}", "a")
        assert stage.model("a").state == "loading"
        assert stage.model("a").active_slots == slots
        assert stage.model("a").queued_requests == 4 - slots
        assert not stage.model("a").loaded
        assert stage.model("a").max_parallel_slots is None
        await stage.done()
        assert stage.gates.count("load") == 1
        assert stage.gates.count("session") == slots
        assert [stage.when(f"r{index}", "done") for index in range(4)] == [
            3 + index // slots for index in range(4)
        ]
        assert stage.states("a") == ["loading", "ready"]
        assert [event.facts["sessions"] for event in stage.kinds(Kind.PUBLISHED)] == [slots]
        assert stage.model("a").max_parallel_slots == 16
        assert stage.model("a").facts["simulated"] is True
        stage.assert_quiet()


async def test_weights_come_first_and_go_last(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 3)) as stage:
        await stage.ask("r", "a")
        await stage.unload("u", "a")
        await stage.done()
        points = [(arrival.point, arrival.session) for arrival in stage.gates.arrivals]
        assert points == [
            ("load", 0),
            ("session", 1),
            ("session", 2),
            ("session", 3),
            ("run", 1),
            ("close_session", 3),
            ("close_session", 2),
            ("close_session", 1),
            ("close_model", 0),
        ]


@pytest.mark.contract("fail/initial_load_loader_failure")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_failed_load_is_the_drivers_and_the_next_waiter_drives_the_next(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, load_ms=1000, fail_loads=2, run_ms=1000)) as stage:
        for index in range(4):
            await stage.ask(f"r{index}", "a")
        await stage.done()
        assert stage.ends() == {
            "r0": ("load_failed", 1),
            "r1": ("load_failed", 2),
            "r2": ("done", 4),
            "r3": ("done", 4 if slots > 1 else 5),
        }
        assert isinstance(stage.errors["r0"], LoadError)
        assert "load 1" in stage.errors["r0"].message
        assert stage.states("a") == ["loading", "unloaded"] * 2 + ["loading", "ready"]
        starts = [event.at for event in stage.kinds(Kind.LOAD_STARTED)]
        fails = [event.at for event in stage.kinds(Kind.LOAD_FAILED)]
        assert starts[1:] == fails, "the next attempt starts in the step in which one fails"
        stage.assert_quiet()


@pytest.mark.contract("fail/initial_load_null_primary")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_loader_that_returns_no_session_fails_like_any_other(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, null_sessions=1)) as stage:
        await stage.ask("first", "a")
        assert stage.errors["first"].status == 500
        assert stage.model("a").state == "unloaded"
        assert stage.gates.count("close_model") == 1
        await stage.ask("second", "a")
        await stage.done()
        assert stage.made_by("second") == ("/a", 2)


@pytest.mark.contract("fail/initial_load_partial_clone")
@pytest.mark.parametrize("slots", [2, 4])
async def test_when_a_clone_fails_clones_primary_and_weights_go_in_that_order(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, fail_clone=slots)) as stage:
        await stage.ask("first", "a")
        assert stage.errors["first"].status == 500
        assert not stage.model("a").loaded
        closings = [
            (arrival.point, arrival.session)
            for arrival in stage.gates.arrivals
            if arrival.point.startswith("close")
        ]
        assert closings == [
            *(("close_session", number) for number in range(slots - 1, 0, -1)),
            ("close_model", 0),
        ]
        await stage.ask("second", "a")
        await stage.done()
        assert stage.made_by("second") == ("/a", 2)
        stage.assert_quiet()


@pytest.mark.contract("startup/slots_over_capacity_publishes_nothing")
async def test_more_slots_than_the_weights_allow_publish_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 4, capacity=3)) as stage:
        for name in ("first", "second"):
            await stage.ask(name, "a")
            error = stage.errors[name]
            assert isinstance(error, InvalidRequestError)
            assert error.param == "slots"
            assert "1 to 3" in error.message
            assert not stage.model("a").loaded
        assert stage.gates.count("session") == 0
        assert stage.gates.count("close_model") == 2


@pytest.mark.contract("beyond/g02_initializer_disconnect_keeps_load")
async def test_a_driver_that_leaves_keeps_its_slot_until_the_load_has_ended(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 1, load_ms=2000)) as stage:
        await stage.ask("driver", "a")
        await stage.ask("queued", "a")
        await stage.cancel("driver")
        assert stage.ends()["driver"] == ("cancelled", 0)
        assert stage.model("a").state == "loading"
        assert stage.model("a").active_slots == 1
        await stage.done()
        assert stage.when("queued", "granted") == 2
        assert stage.made_by("queued") == ("/a", 1)
        stage.assert_quiet()


@pytest.mark.contract("beyond/g02_initializer_disconnect_keeps_load")
async def test_a_load_nobody_waits_for_any_more_still_publishes(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, load_ms=2000)) as stage:
        await stage.ask("driver", "a")
        await stage.cancel("driver")
        await stage.pass_time(2)
        assert stage.model("a").state == "ready"
        assert stage.model("a").active_slots == 0
        for name in ("first", "second"):
            await stage.ask(name, "a")
            assert stage.made_by(name) == ("/a", 1)


@pytest.mark.contract("time/disconnect_waiting_initialization")
async def test_a_follower_that_leaves_gives_its_slot_up_at_once(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, load_ms=2000)) as stage:
        await stage.ask("driver", "a")
        await stage.ask("follower", "a")
        await stage.ask("queued", "a")
        await stage.cancel("follower")
        assert stage.ends()["queued"] == ("granted", 0)
        await stage.done()
        assert stage.ends()["queued"] == ("done", 2)
        assert stage.gates.count("load") == 1


async def test_a_follower_that_left_drives_nothing(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, load_ms=1000, fail_loads=1)) as stage:
        await stage.ask("driver", "a")
        await stage.ask("follower", "a")
        await stage.cancel("follower")
        await stage.done()
        assert stage.ends()["driver"] == ("load_failed", 1)
        await stage.pass_time(5)
        assert stage.model("a").generation == 1


async def test_when_the_load_of_a_driver_that_left_fails_the_next_waiter_drives(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, load_ms=1000, fail_loads=1)) as stage:
        await stage.ask("driver", "a")
        await stage.ask("follower", "a")
        await stage.cancel("driver")
        await stage.done()
        assert stage.ends()["follower"] == ("done", 2)
        assert stage.made_by("follower") == ("/a", 2)
        stage.assert_quiet()


async def test_a_follower_that_leaves_in_the_step_of_the_publication_leaks_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, load_ms=1000)) as stage:
        await stage.ask("driver", "a")
        await stage.ask("follower", "a")
        stage.hooks[Kind.PUBLISHED] = stage.scopes["follower"].cancel
        await stage.done()
        assert stage.ends() == {"driver": ("done", 1), "follower": ("cancelled", 1)}
        stage.assert_quiet()
        for name in ("third", "fourth"):
            await stage.ask(name, "a")
            assert stage.ends()[name] == ("done", 1)


async def test_a_driver_that_leaves_in_the_step_of_the_publication_leaks_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 1, load_ms=1000)) as stage:
        await stage.ask("driver", "a")
        stage.hooks[Kind.PUBLISHED] = stage.scopes["driver"].cancel
        await stage.done()
        assert stage.ends() == {"driver": ("cancelled", 1)}
        stage.assert_quiet()
        await stage.ask("next", "a")
        assert stage.made_by("next") == ("/a", 1)


async def test_ready_may_be_cancelled_and_called_again(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", load_ms=2000)) as stage:
        async with stage.runtime.use("a", request="r") as use:
            with trio.move_on_after(1):
                await use.ready()
            assert stage.model("a").state == "loading"
            await use.ready()
            assert stage.now == 2
            await use.ready()
            assert (await use.run(job("x"))).text == "x"
        stage.assert_quiet()


async def test_ready_tries_again_after_a_failure(autojump_clock: MockClock) -> None:
    async with (
        open_stage(spec("a", fail_loads=1)) as stage,
        stage.runtime.use("a", request="r") as use,
    ):
        with pytest.raises(LoadError):
            await use.ready()
        await use.ready()
        assert stage.model("a").generation == 2


class _Choosy(SimulatedFamily):
    """Finds no model at one path."""

    def inspect(self, load: Load) -> Mapping[str, Json]:
        if load.path == "/absent":
            raise InvalidRequestError("there is no model at this path", param="path")
        return super().inspect(load)


async def test_a_wrong_path_is_not_the_fault_of_the_request_that_meets_it(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", path="/absent"), family=_Choosy()) as stage:
        await stage.ask("r", "a")
        assert stage.errors["r"].status == 500
        assert isinstance(stage.errors["r"].__cause__, InvalidRequestError)
        assert stage.model("a").state == "unloaded"
        await stage.register("again", spec("b", path="/absent"))
        assert stage.errors["again"].param == "path"


class _Leaky:
    """An isolation that lets errors through which are none of ours."""

    def __init__(self, inner: Isolation) -> None:
        self._inner = inner

    async def inspect(self, family: Family, load: Load) -> Inspection:
        if load.path == "/no-inspection":
            raise OSError("the disk is on fire")
        return await self._inner.inspect(family, load)

    async def load(self, family: Family, load: Load) -> ModelHandle:
        if load.path == "/no-load":
            raise OSError("the disk is on fire")
        return await self._inner.load(family, load)

    def abandoned_of(self, model_id: str) -> Sequence[AbandonedCall]:
        return self._inner.abandoned_of(model_id)

    def abandoned(self) -> list[str]:
        return self._inner.abandoned()


@pytest.mark.parametrize("path", ["/no-inspection", "/no-load"])
async def test_whatever_goes_wrong_in_a_load_is_a_failed_load(
    autojump_clock: MockClock, path: str
) -> None:
    async with open_stage(spec("a", path=path), wrap=_Leaky) as stage:
        await stage.ask("r", "a")
        assert isinstance(stage.errors["r"], LoadError)
        assert "the disk is on fire" in stage.errors["r"].message
        assert isinstance(stage.errors["r"].__cause__, OSError)
        stage.assert_quiet()


async def test_where_no_memory_is_to_be_kept_free_nobody_looks_at_what_is(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", memory_mb=500), free_memory=lambda: 0) as stage:
        await stage.ask("r", "a")
        await stage.done()
        assert stage.ends()["r"][0] == "done"


async def granted(model: Model, count: int) -> list[Lease]:
    """Leases of requests that came one after another."""
    return [
        await model.entry.queue.admit(Claim.REQUEST, bound_s=inf, limit=0, request=f"r{number}")
        for number in range(count)
    ]


async def test_who_has_waited_longest_drives_whoever_joins_first(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 3, load_ms=1000)) as stage:
        model = stage.runtime._registry.get("a")
        first, second, third = await granted(model, 3)
        # Granted in one step, their tasks go on in whatever order Trio chooses.
        follower, later, driver = [
            model.initializer.join(lease, inf) for lease in (second, third, first)
        ]
        await stage.pass_time(0.5)
        for waiter in (later, follower):
            assert not model.initializer.leave(waiter), "its slot is free at once"
            waiter.lease.release()
        assert model.initializer.leave(driver), "its load goes on"
        await stage.pass_time(1)
        assert stage.model("a").loaded
        assert stage.model("a").active_slots == 0


async def test_who_drives_a_load_that_has_begun_goes_on_whoever_joins(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, load_ms=1000)) as stage:
        model = stage.runtime._registry.get("a")
        for _ in range(2):
            first, second = await granted(model, 2)
            driver = model.initializer.join(second, inf)
            await stage.pass_time(0.5)
            late = model.initializer.join(first, inf)
            assert not model.initializer.leave(late)
            assert model.initializer.leave(driver), "it has begun"
            first.release()
            await stage.pass_time(1)
            await stage.runtime.unload("a")


async def test_in_the_next_load_the_longest_waiter_drives_as_well(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, load_ms=1000)) as stage:
        model = stage.runtime._registry.get("a")
        for _ in range(2):
            first, second = await granted(model, 2)
            follower, driver = [model.initializer.join(lease, inf) for lease in (second, first)]
            await stage.pass_time(0.5)
            assert not model.initializer.leave(follower)
            assert model.initializer.leave(driver)
            second.release()
            await stage.pass_time(1)
            await stage.runtime.unload("a")
