"""What nobody foresaw: errors that are none of ours, and answers that make no sense."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.engines import Family, Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import Isolation, ModelHandle
from paraudio.journal import Kind
from paraudio.lifecycle import Unloaded
from paraudio.spec import ModelSpec


def _no_answer() -> int:
    raise OSError("/proc is not there")


async def test_an_eager_load_that_fails_unforeseen_is_logged_and_costs_nobody_else_anything(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    models = [spec("a", lazy=False), spec("b")]
    async with open_stage(*models, min_free_memory_mb=1, free_memory=_no_answer) as stage:
        await stage.start("eager", stage.runtime.load_eager)
        assert not stage.running
        assert "model 'a' was not loaded: /proc is not there" in caplog.text
        assert stage.model("a").state == "unloaded"
        stage.assert_quiet()


async def test_a_survey_that_fails_unforeseen_goes_on_with_the_next_model(
    autojump_clock: MockClock,
) -> None:
    async def present(each: ModelSpec) -> bool:
        await trio.lowlevel.checkpoint()
        if each.id == "a":
            raise RuntimeError("can't start new thread")
        return True

    async with open_stage(spec("a"), spec("b")) as stage:
        await stage.runtime.survey(present)
        assert [event.model for event in stage.kinds(Kind.INSPECTED)] == ["b"]


class _Confused(SimulatedFamily):
    """Says of the model at one path what makes no sense."""

    def __init__(self, facts: Any, memory: Any) -> None:
        super().__init__()
        self._said: tuple[Any, Any] = (facts, memory)

    def inspect(self, load: Load) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._said[0]
        return facts if load.path == "/a" else super().inspect(load)

    def estimate(self, load: Load) -> int:
        memory: int = self._said[1]
        return memory if load.path == "/a" else super().estimate(load)


class _Sour(Isolation):
    """An isolation whose weights at one path cannot be freed."""

    def __init__(self, inner: Isolation) -> None:
        self._inner = inner
        self.inspect, self.abandoned = inner.inspect, inner.abandoned  # type: ignore[method-assign]
        self.abandoned_of = inner.abandoned_of  # type: ignore[method-assign]

    async def load(self, family: Family, load: Load) -> ModelHandle:
        model = await self._inner.load(family, load)
        if load.path == "/a":
            free = model.close

            async def close() -> None:
                await free()
                raise OSError("nothing is freed here")

            model.close = close  # type: ignore[method-assign]
        return model


@pytest.mark.parametrize("at_the_end", [False, True])
async def test_a_teardown_that_fails_unforeseen_is_logged_and_the_others_go_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, at_the_end: bool
) -> None:
    async with open_stage(spec("a"), spec("b", run_ms=1000), wrap=_Sour) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        if not at_the_end:
            await stage.unload_many("bulk", ["a", "b"])
            await stage.done()
            assert stage.answers["bulk"] == Unloaded(("a", "b"), ())
            assert stage.ends()["bulk"] == ("unloaded", 1)
            stage.assert_quiet()
            await stage.ask("again", "a")
            assert stage.ends()["again"][0] == "done"
    assert "model 'a': its teardown failed" in caplog.text
    assert "nothing is freed here" in caplog.text


@pytest.mark.parametrize(
    ("facts", "memory"),
    [
        (None, 0),
        (["sample_rate"], 0),
        ({"half": "\ud800"}, 0),
        ({"where": object()}, 0),
        ({"rates": [1, {"deep": float("nan")}]}, 0),
        ({}, None),
        ({}, "much"),
        ({}, 1.5),
        ({}, -1),
    ],
)
async def test_what_a_family_says_of_a_model_must_make_sense_before_anybody_is_told(
    autojump_clock: MockClock, facts: object, memory: object
) -> None:
    family = _Confused(facts, memory)
    async with open_stage(spec("a"), spec("b"), family=family, min_free_memory_mb=1) as stage:
        await stage.runtime.survey()
        await stage.ask("r", "a")
        assert stage.errors["r"].code == "load_failed"
        assert "family 'simulated'" in stage.errors["r"].message
        assert stage.model("a").facts == {}
        await stage.register("new", spec("c", path="/a"))
        assert stage.errors["new"].status == 500
        assert [each.spec.id for each in stage.runtime.snapshot().models] == ["a", "b"]
        await stage.ask("other", "b")
        assert stage.ends()["other"][0] == "done"
