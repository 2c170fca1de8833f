"""What only a broken lifecycle showed to be untested."""

import pytest
import trio
from tests.contract.house import House, Rules, model

from paraudio.testing import Stepper

MEBIBYTE = 2**20


@pytest.mark.parametrize("steps", range(24))
def test_a_registration_in_any_step_around_the_end_of_a_fence_is_served(steps: int) -> None:
    for seed in range(4):
        with Stepper(seed=seed) as stepper:
            house = House(Rules(hang_s=60), stepper)
            house.open([model("m", unload_ms=1000)])
            house.use("warm", "m")

            async def late(house: House = house) -> str:
                await trio.sleep(1)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                await house.runtime.register(model("m", path="/new"), request="late")
                return "done"

            house._enter("late", late)
            house.unload_many("bulk", None, fence=True)
            house.settle(step_s=5, steps=5)
            assert (house.ends["late"], house.ends["bulk"]) == ("done", "done")
            house.end()


def test_a_change_is_judged_by_what_its_own_files_need() -> None:
    with Stepper() as stepper:
        house = House(Rules(hang_s=60, free_mb=100), stepper)
        house.open([model("m", memory_mb=10)])
        house.use("warm", "m")
        house.free_memory = 200 * MEBIBYTE
        house.register("grows", model("m", memory_mb=150))
        assert house.ends["grows"] == "insufficient_memory"
        house.register("shrinks", model("m", memory_mb=90))
        assert house.ends["shrinks"] == "done"
        house.end()
