"""Input that is still being made: one call of its use, however long the pieces take to come."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import Stage, having, job, open_stage, spec
from trio.testing import MockClock

from paraudio.engines import Job, StreamEvent
from paraudio.errors import BackendError
from paraudio.journal import Kind
from paraudio.lifecycle import Use

HOUR = 3600.0
BLANK = Job(task="tts")


def outcomes(stage: Stage) -> list[object]:
    return [event.facts["outcome"] for event in stage.kinds(Kind.RUN_ENDED)]


async def feed(
    stage: Stage, name: str, pieces: Sequence[str], pause_s: float = 0.0, *, ends: bool = True
) -> None:
    """Let a request come that feeds pieces, with a pause before each, and then ends or waits."""

    async def work() -> list[StreamEvent]:
        events: list[StreamEvent] = []
        async with stage.runtime.use("a", request=name) as use:
            await use.ready()
            assert use.can_live
            async with use.live(BLANK) as live:
                for piece in pieces:
                    await trio.sleep(pause_s)
                    events += await live.feed(piece)
                    stage.tell(name, piece)
                if not ends:
                    await trio.sleep_forever()
                events += await live.finish()
            stage.tell(name, "done")
        return events

    await stage.start(name, work)


async def fed(use: Use, piece: str) -> Sequence[StreamEvent]:
    """What the end of one piece gives."""
    async with use.live(BLANK) as live:
        await live.feed(piece)
        return await live.finish()


@pytest.mark.parametrize("slots", [1, 2])
async def test_live_input_is_one_call_however_slowly_it_comes(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=500)) as stage:
        await feed(stage, "r", ["one ", "two"], HOUR)
        await trio.sleep(1.5 * HOUR)
        model = stage.model("a")
        assert (model.active_slots, model.stuck_slots) == (1, 0)
        assert len(stage.kinds(Kind.RUN_STARTED)) == 1
        assert stage.kinds(Kind.RUN_ENDED) == []
        await stage.done()
        assert stage.when("r", "one ") == HOUR + 0.5
        assert stage.when("r", "two") == 2 * HOUR + 1
        events = stage.answers["r"]
        assert isinstance(events, list)
        assert [event.result and event.result.text for event in events] == [None, None, "one two"]
        assert outcomes(stage) == ["ok"]
        assert stage.gates.count("restore") == 1
        stage.assert_quiet()


async def test_a_client_that_goes_between_two_pieces_frees_its_slot_at_once(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=500)) as stage:
        await feed(stage, "r", ["one"], ends=False)
        await stage.ask("next", "a")
        await stage.pass_time(60)
        await stage.cancel("r")
        assert stage.ends()["r"] == ("cancelled", 60)
        await stage.done()
        assert stage.when("next", "granted") == 60
        assert stage.results["next"].text == "next"
        assert outcomes(stage) == ["stopped", "ok"]
        assert stage.gates.count("restore") == 1, "the next job begins with a session like new"


async def test_a_client_that_goes_during_a_piece_stops_it_at_once(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=60_000)) as stage:
        await feed(stage, "r", ["one"])
        await stage.pass_time(1)
        await stage.cancel("r")
        assert stage.ends()["r"] == ("cancelled", 1)
        assert outcomes(stage) == ["stopped"]
        stage.assert_quiet()


async def test_input_that_is_left_unended_is_a_stopped_call(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage, stage.runtime.use("a", request="r") as use:
        await use.ready()
        async with use.live(BLANK) as live:
            await live.feed("one")
        with pytest.raises(trio.ClosedResourceError):
            await live.feed("two")
        assert outcomes(stage) == ["stopped"]
        assert (await use.run(job("after"))).text == "after"
        assert outcomes(stage) == ["stopped", "ok"]


async def test_a_live_job_is_the_only_call_of_its_use(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage, stage.runtime.use("a", request="r") as use:
        await use.ready()
        async with use.live(BLANK) as live:
            await live.feed("one")
            assert use.running
            with pytest.raises(RuntimeError, match="one call at a time"):
                await use.run(job("other"))
            await live.finish()
        assert not use.running


async def test_a_live_job_that_fails_at_its_end_is_an_error_and_the_use_goes_on(
    autojump_clock: MockClock,
) -> None:
    async with (
        open_stage(having(spec("a"), fail_runs=1)) as stage,
        stage.runtime.use("a", request="r") as use,
    ):
        await use.ready()
        with pytest.raises(BackendError, match="simulated failure"):
            await fed(use, "one")
        assert (await fed(use, "two"))[-1].result is not None
        assert outcomes(stage) == ["error", "ok"]


@pytest.mark.contract("order/request_then_manager")
async def test_an_unload_waits_for_live_input_as_for_any_call(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage:
        await feed(stage, "r", ["one", "two"], 10)
        await stage.unload("u", "a")
        await stage.done()
        assert stage.when("u", "unloaded") == stage.when("r", "done") == 20


async def test_a_drain_lets_live_input_go_on_and_the_stop_ends_it_at_once(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a")) as stage:
        await feed(stage, "ends", ["one"], 5)
        await stage.done()
        await feed(stage, "waits", ["one"], ends=False)
        stage.runtime.drain()
        await stage.pass_time(HOUR)
        assert stage.model("a").active_slots == 1
        began = stage.now
        stage.runtime.stop()
        await stage.done()
        assert stage.ends()["waits"] == ("shutting_down", began)
        assert outcomes(stage) == ["ok", "stopped"]
        assert stage.runtime.cuts() == [
            "request waits: its run on model 'a' was cancelled",
        ]


async def test_a_piece_that_ignores_its_stop_makes_its_slot_stuck_until_it_ends(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(
        having(spec("a"), ignore_cancel=True, run_ms=60_000), hang_timeout_s=5
    ) as stage:
        await feed(stage, "r", ["one"])
        await stage.pass_time(1)
        await stage.cancel("r")
        await stage.pass_time(10)
        assert outcomes(stage) == ["stuck"]
        assert stage.model("a").stuck_slots == 1
        await stage.pass_time(60)
        stage.assert_quiet()
