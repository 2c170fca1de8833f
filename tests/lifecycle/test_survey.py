"""What is known of models before their first load: their files are looked at, nothing is loaded."""

import logging
from collections.abc import Mapping
from dataclasses import replace

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.engines import Family, Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import Inspection, Isolation
from paraudio.errors import InvalidRequestError
from paraudio.journal import Kind
from paraudio.lifecycle._manage import always
from paraudio.spec import Json, ModelSpec


class _Choosy(SimulatedFamily):
    """Finds no model at one path."""

    def inspect(self, load: Load) -> Mapping[str, Json]:
        if load.path == "/absent":
            raise InvalidRequestError("there is no model at this path", param="path")
        return {"path_seen": load.path}


@pytest.mark.contract("beyond/g06_atomic_status")
async def test_facts_are_known_without_a_load(autojump_clock: MockClock) -> None:
    models = [spec("a"), spec("b", path="/absent"), spec("c"), spec("d")]
    async with open_stage(*models, family=_Choosy()) as stage:
        revision = stage.runtime.snapshot().revision
        await stage.runtime.survey(all_but_c)
        facts = {name: dict(stage.model(name).facts) for name in "abcd"}
        assert facts == {"a": {"path_seen": "/a"}, "b": {}, "c": {}, "d": {"path_seen": "/d"}}
        assert stage.gates.arrivals == []
        assert stage.runtime.snapshot().revision == revision + 2
        assert [event.model for event in stage.kinds(Kind.INSPECTED)] == ["a", "d"]
        await stage.ask("r", "c")
        assert stage.model("c").facts == {"path_seen": "/c"}
        await stage.runtime.survey()
        assert len(stage.kinds(Kind.INSPECTED)) == 2, "what is known is not looked at again"


class _Slow(Isolation):
    """An isolation whose inspection takes a while, and does something meanwhile."""

    def __init__(self, inner: Isolation) -> None:
        self._inner = inner
        self.load, self.abandoned = inner.load, inner.abandoned  # type: ignore[method-assign]
        self.abandoned_of = inner.abandoned_of  # type: ignore[method-assign]
        self.seconds = 60.0

    async def inspect(self, family: Family, load: Load) -> Inspection:
        await trio.sleep(self.seconds)
        return await self._inner.inspect(family, load)


async def test_files_that_cannot_be_read_in_time_are_left_to_the_load(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a"), spec("b"), wrap=_Slow, hang_timeout_s=5) as stage:
        await stage.runtime.survey()
        assert stage.now == 10, "each has its own bound"
        assert not stage.model("a").facts
        await stage.ask("r", "a")
        await stage.done()
        assert stage.ends()["r"][0] == "done"
        assert stage.model("a").facts["simulated"] is True


async def test_the_facts_of_files_that_were_replaced_meanwhile_are_forgotten(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a"), family=_Choosy(), wrap=_Slow, hang_timeout_s=100) as stage:
        await stage.start("survey", stage.runtime.survey)
        await stage.pass_time(1)
        # The registration looks at its own files, for as long; then it is committed at once.
        await stage.register("new", replace(spec("a"), path="/new"))
        await stage.done()
        assert stage.model("a").facts == {"path_seen": "/new"}


async def all_but_c(each: ModelSpec) -> bool:
    await trio.lowlevel.checkpoint()
    return each.id != "c"


async def test_a_survey_ends_with_the_drain(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a"), spec("b")) as stage:
        seen: list[str] = []

        async def drained(each: ModelSpec) -> bool:
            seen.append(each.id)
            stage.runtime.drain()
            await trio.lowlevel.checkpoint()
            return True

        await stage.runtime.survey(drained)
        assert seen == ["a"]


async def test_to_take_all_files_for_present_lets_others_run() -> None:
    with trio.testing.assert_checkpoints():
        assert await always(spec("a"))


async def test_what_cannot_be_looked_at_is_named_in_the_log(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="paraudio")
    async with open_stage(spec("b", path="/absent"), family=_Choosy()) as stage:
        await stage.runtime.survey()
    (line,) = [each.getMessage() for each in caplog.records if "until it is loaded" in each.msg]
    assert "model 'b'" in line
    assert line.endswith("there is no model at this path")


async def test_a_look_that_the_end_cuts_short_says_nothing(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="paraudio")
    async with open_stage(spec("a"), family=_Choosy(), wrap=_Slow, hang_timeout_s=100) as stage:
        await stage.start("survey", stage.runtime.survey)
        await stage.pass_time(1)
        stage.runtime.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert not stage.running
        assert stage.errors == {}
    assert "until it is loaded" not in caplog.text
