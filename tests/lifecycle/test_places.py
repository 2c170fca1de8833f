"""Where requests stand: in lines, or in possession of slots."""

import trio
from tests.lifecycle.stage import job, open_stage, spec
from trio.testing import MockClock

from paraudio.lifecycle import Place, State


def told(places: list[Place]) -> list[tuple[str, str, int | None, tuple[int, ...], bool]]:
    return [(p.request, p.model, p.position, p.slots, p.manager) for p in places]


async def test_every_request_is_listed_where_it_stands(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 1, run_ms=1000), spec("b", 2, run_ms=1000)) as stage:
        assert stage.runtime.places() == []
        for name in ("first", "second", "third"):
            await stage.ask(name, "a")
        await stage.unload("empty", "a")
        await stage.ask("other", "b")
        expected = [
            ("first", "a", None, (0,), False),
            ("second", "a", 0, (), False),
            ("third", "a", 1, (), False),
            ("empty", "a", 2, (), True),
            ("other", "b", None, (0,), False),
        ]
        assert told(stage.runtime.places()) == expected
        assert {p.state for p in stage.runtime.places()} == {State.READY}
        await stage.cancel("second")
        moved = [each for each in told(stage.runtime.places()) if each[1] == "a"]
        assert [(name, position) for name, _, position, _, _ in moved] == [
            ("first", None),
            ("third", 0),
            ("empty", 1),
        ]
        await stage.done()
        assert stage.runtime.places() == []


async def test_the_one_that_manages_holds_every_slot(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 3)) as stage:
        await stage.ask("load", "a")
        await stage.done()
        closing = stage.gates.hold("close_model")
        await stage.unload("empty", "a")
        await closing.wait_held()
        (place,) = stage.runtime.places()
        assert (place.request, place.manager, place.slots) == ("empty", True, (0, 1, 2))
        assert place.state is State.UNLOADING
        closing.open()


async def test_a_use_tells_whether_it_loads_or_runs(autojump_clock: MockClock) -> None:
    async with (
        open_stage(spec("a", 1, load_ms=1000)) as stage,
        stage.runtime.use("a", request="r") as use,
    ):
        assert (use.loading, use.running) == (False, False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use.ready)
            await stage.pass_time(0.5)
            assert (use.loading, use.running) == (True, False)
        assert (use.loading, use.running) == (False, False)
        async with use.stream(job("a")):
            assert (use.loading, use.running) == (False, True)
        assert (use.loading, use.running) == (False, False)


async def test_a_registration_stands_under_the_id_of_its_request(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=1000)) as stage:
        await stage.ask("r", "a")
        await stage.register("waits", spec("a", path="/new"))
        await stage.register("loads", spec("b", load_ms=1000))
        assert told(stage.runtime.places()) == [
            ("r", "a", None, (0,), False),
            ("waits", "a", 0, (), True),
            ("loads", "b", None, (0,), True),
        ]
        await stage.done()


async def test_a_use_that_was_not_entered_stands_nowhere(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2)) as stage:
        use = stage.runtime.use("a", request="r")
        assert (use.slot, use.queued_s, use.loading, use.running) == (-1, 0, False, False)
        assert use.spec is stage.model("a").spec
        assert stage.runtime.places() == []
