"""A stop in the middle of something: it is cut, nothing of it stays, and nobody waits for it."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import trio
import trio.testing
from tests.contract.house import House, Rules, model
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.engines import Family, Load
from paraudio.engines.isolation import AbandonedCall, Inspection, Isolation, ModelHandle
from paraudio.errors import ShuttingDownError
from paraudio.lifecycle import Runtime
from paraudio.testing import Stepper


class _Curious(Isolation):
    """An isolation that notes whose files were looked at, and takes its time for it."""

    def __init__(self, inner: Isolation, looks: list[str], seconds: float) -> None:
        self._inner = inner
        self._looks = looks
        self._seconds = seconds

    async def inspect(self, family: Family, load: Load) -> Inspection:
        self._looks.append(load.model_id)
        await trio.sleep(self._seconds)
        return await self._inner.inspect(family, load)

    async def load(self, family: Family, load: Load) -> ModelHandle:
        return await self._inner.load(family, load)

    def abandoned_of(self, model_id: str) -> Sequence[AbandonedCall]:
        return self._inner.abandoned_of(model_id)

    def abandoned(self) -> list[str]:
        return self._inner.abandoned()


def curious(looks: list[str], seconds: float = 0) -> Callable[[Isolation], Isolation]:
    return partial(_Curious, looks=looks, seconds=seconds)


async def test_the_files_of_a_registration_are_looked_at_once(autojump_clock: MockClock) -> None:
    looks: list[str] = []
    async with open_stage(wrap=curious(looks)) as stage:
        await stage.register("new", spec("a"))
        await stage.ask("r", "a")
        await stage.done()
        assert stage.ends()["r"][0] == "done"
        assert looks == ["a"]


@pytest.mark.parametrize("known", [True, False])
async def test_a_stop_cuts_the_look_at_the_files_of_a_registration(
    autojump_clock: MockClock, known: bool
) -> None:
    async with open_stage(*[spec("a")] * known, wrap=curious([], 60)) as stage:
        await stage.register("new", spec("a", path="/new"))
        await stage.pass_time(1)
        stage.runtime.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.ends()["new"] == ("shutting_down", 1)


async def test_a_registration_whose_files_were_looked_at_during_the_drain_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(wrap=curious([], 60)) as stage:
        await stage.register("new", spec("a"))
        await stage.pass_time(1)
        stage.runtime.drain()
        await stage.done()
        assert stage.ends()["new"] == ("shutting_down", 60)
        assert stage.runtime.snapshot().models == ()
        assert stage.gates.arrivals == []


async def test_a_registration_that_comes_after_the_drain_is_not_looked_at(
    autojump_clock: MockClock,
) -> None:
    looks: list[str] = []
    async with open_stage(wrap=curious(looks)) as stage:
        stage.runtime.drain()
        for name, slots in (("good", 1), ("wrong", 0)):
            await stage.register(name, spec("a", slots))
            assert isinstance(stage.errors[name], ShuttingDownError)
        assert looks == []


async def test_a_use_that_asks_for_its_model_after_the_stop_is_refused_each_time(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a")) as stage:
        async with stage.runtime.use("a", request="r") as use:
            stage.runtime.stop()
            for _ in range(3):
                with pytest.raises(ShuttingDownError), trio.fail_after(1):
                    await use.ready()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.runtime.snapshot().phase == "stopped"
        assert stage.runtime.cuts() == []


async def test_a_use_that_is_left_after_such_a_refusal_gives_its_slot_back(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a")) as stage:
        with trio.CancelScope() as scope:
            async with stage.runtime.use("a", request="r") as use:
                stage.runtime.stop()
                scope.cancel()
                await use.ready()
        assert scope.cancelled_caught
        assert stage.model("a").active_slots == 0


def test_a_stop_while_what_was_probed_is_freed_lets_all_of_it_be_freed() -> None:
    with Stepper() as stepper:
        house = House(Rules(hang_s=60), stepper)
        house.open([model("m")])
        house.use("warm", "m")
        house.jam("close_session", "m")
        house.register("new", model("m", 2, path="/new", capacity=4))
        assert len(house.inside) == 1
        house.stop()
        house.unjam()
        house.advance(1)
        assert (house.ends["new"], house.phase) == ("shutting_down", "stopped")
        census = house.family.census
        assert (census.weights, census.sessions, census.wrongs) == ({}, {}, [])


async def test_a_runtime_that_is_cancelled_frees_all_as_one_that_is_stopped(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", unload_ms=500), spec("b", load_ms=9000)) as stage:
        cancelled = trio.CancelScope()

        async def run(task_status: trio.TaskStatus[None]) -> None:
            with cancelled:
                await other.run(task_status=task_status)

        context = stage.runtime._context
        other = Runtime(
            context.settings,
            families={"simulated": context.checker._families["simulated"]},
            isolations={"thread": stage.isolation},
        )
        other.add(spec("c", unload_ms=500))
        await stage.nursery.start(run)
        async with other.use("c", request="r") as use:
            await use.ready()
        cancelled.cancel()
        await stage.pass_time(0.4)
        assert other.snapshot().phase == "stopping"
        await stage.pass_time(0.1)
        assert other.snapshot().phase == "stopped"
        assert other.model("c").state == "unloaded"
        assert stage.gates.count("close_model", model="c") == 1


async def test_who_waits_for_a_broken_pool_that_is_still_in_use_is_refused_by_the_stop(
    autojump_clock: MockClock,
) -> None:
    model = spec("a", 2, run_ms=2000, fail_clone=3)
    async with open_stage(model, can_kill=True) as stage:
        await stage.ask("fails", "a")
        await stage.hold("holds", "a", seconds=100)
        await stage.ask("waits", "a")
        await stage.pass_time(1)
        stage.isolation.crash("a", session=1)
        await stage.pass_time(1)
        stage.runtime.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.ends()["waits"] == ("shutting_down", 2)
        await stage.cancel("holds")
        assert stage.runtime.snapshot().phase == "stopped"
        assert stage.runtime.cuts() == []
