"""What says that it lets others run does so, also where there is nothing to wait for."""

import trio.testing
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock


async def test_waits_that_are_over_already_let_others_run(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage:
        with trio.testing.assert_checkpoints():
            await stage.runtime.wait_drained()
        with trio.testing.assert_checkpoints():
            await stage.runtime.wait_change(-1)
        stage.runtime.drain()
        with trio.testing.assert_checkpoints():
            await stage.runtime.wait_draining()


async def test_a_use_of_a_loaded_model_lets_others_run(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage:
        await stage.ask("first", "a")
        async with stage.runtime.use("a", request="second") as use:
            for _ in range(2):
                with trio.testing.assert_checkpoints():
                    await use.ready()
