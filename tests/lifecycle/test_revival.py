"""Sessions that do not come back, or not in the time of a load: their pool goes, whoever waits."""

from dataclasses import replace

import pytest
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.engines import Load
from paraudio.engines._steps import Steps
from paraudio.engines.families.simulated import SimulatedFamily, SimulatedModel

FOR_EVER_S = 10.0**6
HANG_S = 2.0


class _Tired(SimulatedFamily):
    """Loads once, hangs once, and loads again from then on."""

    def __init__(self) -> None:
        super().__init__()
        self._loads = 0

    def load_steps(self, load: Load) -> Steps[SimulatedModel]:
        self._loads += 1
        if self._loads == 2:
            yield FOR_EVER_S
        return (yield from super().load_steps(load))


@pytest.mark.contract("beyond/g04_hung_backend_contained", "beyond/g08_backend_crash_isolated")
async def test_a_revival_that_never_ends_is_given_up_as_any_load_is(
    autojump_clock: MockClock,
) -> None:
    model = replace(spec("a", run_ms=1000), load_timeout_ms=60_000)
    async with open_stage(model, family=_Tired(), hang_timeout_s=HANG_S, can_kill=True) as stage:
        await stage.ask("r", "a")
        stage.isolation.crash("a")
        await stage.unload_many("bulk", ["a"])
        await stage.ask("next", "a")
        await stage.done()
        told = stage.ends()
        assert told["bulk"] == ("unloaded", told["r"][1] + 60)
        assert told["next"][0] == "done"
        stage.assert_quiet()


@pytest.mark.contract("beyond/g04_hung_backend_contained")
async def test_a_reset_that_never_ends_does_not_keep_the_slot_for_ever(
    autojump_clock: MockClock,
) -> None:
    model = replace(spec("a", run_ms=1000, chunks=1), load_timeout_ms=60_000)
    async with open_stage(model, hang_timeout_s=HANG_S) as stage:
        gate = stage.gates.hold("restore")
        await stage.stream("r", "a")
        await stage.pass_time(1 + 1.5 * HANG_S)
        gate.release()  # the first try ends too late to be believed, and the second not at all
        await stage.ask("next", "a")
        await stage.done()
        assert stage.made_by("next") == ("/a", 2)
        assert stage.ends()["next"][1] == 1 + 1.5 * HANG_S + 60 + HANG_S + 1
        await stage.pass_time(HANG_S)
        assert stage.model("a").abandoned_calls == 1
        stage.assert_quiet()
        gate.open()
        await stage.pass_time(1)
        assert stage.model("a").abandoned_calls == 0


async def test_a_refused_change_behind_the_last_user_of_a_broken_pool_retires_it(
    autojump_clock: MockClock,
) -> None:
    model = spec("a", 2, fail_clone=3, run_ms=1000, capacity=2)
    async with open_stage(model, hang_timeout_s=HANG_S, can_kill=True) as stage:
        await stage.ask("r", "a")
        await stage.register("wrong", replace(model, slots=4))
        stage.isolation.crash("a", session=1)
        await stage.done()
        assert stage.errors["wrong"].param == "slots"
        assert stage.retirements() == [("a", "broken")]
        assert (stage.model("a").state, stage.model("a").slots) == ("unloaded", 2)
        assert stage.gates.count("close_model") == 1
        stage.assert_quiet()
