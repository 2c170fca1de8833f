"""Any users in any order: whatever they do, models agree with themselves and come to rest."""

from typing import Literal

import trio
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.lifecycle.stage import Stage, open_stage, spec

from paraudio.spec import ModelSpec
from paraudio.testing import Stepper

MODELS = st.sampled_from("abc")
RUNS_MS = st.sampled_from([0, 500, 3000])
BOUNDS_MS = st.sampled_from([None, 0, 1000])
Kind = Literal["run", "fail", "stream", "batch", "idle", "leave"]
KINDS = st.sampled_from(["run", "run", "fail", "stream", "batch", "idle", "leave"])

FOREVER_S = 1000
"""Longer than everything that can be asked for, one after the other."""


@st.composite
def specs(draw: st.DrawFn, model: str) -> ModelSpec:
    """A model that may take its time, hang, or fail to load or to be restored."""
    return spec(
        model,
        draw(st.integers(1, 3)),
        path=draw(st.sampled_from(["/old", "/new"])),
        load_ms=draw(st.sampled_from([0, 1000])),
        unload_ms=draw(st.sampled_from([0, 700])),
        capacity=draw(st.sampled_from([2, 3])),
        fail_loads=draw(st.sampled_from([0, 0, 1])),
        fail_clone=draw(st.sampled_from([0, 0, 2, 3, 4])),
        ignore_cancel=draw(st.sampled_from([False, False, True])),
        chunks=2,
    )


class Users(RuleBasedStateMachine):
    """Three models and whoever comes to use or to manage them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.limit = 0
        self.leave = trio.Event()
        self.stage: Stage | None = None
        self.stepper = Stepper()

    @initialize(
        data=st.data(),
        seed=st.integers(0, 2**16),
        limit=st.integers(0, 2),
        idle_ms=st.sampled_from([0, 0, 2000]),
        can_kill=st.booleans(),
    )
    def open(
        self, data: st.DataObject, seed: int, limit: int, idle_ms: int, can_kill: bool
    ) -> None:
        self.stepper.close()
        self.stepper = Stepper(seed=seed)
        self.limit = limit
        models = [data.draw(specs(name), label=name) for name in "ab"]

        async def program() -> None:
            async with open_stage(
                *models,
                hang_timeout_s=1,
                can_kill=can_kill,
                max_loaded_models=limit,
                idle_unload_ms=idle_ms,
                max_queued_requests=3,
                busy_timeout_ms=5000,
            ) as self.stage:
                await self.leave.wait()

        self.stepper.start(program)

    @property
    def open_one(self) -> Stage:
        assert self.stage is not None
        return self.stage

    def name(self) -> str:
        self.names.append(f"n{len(self.names)}")
        return self.names[-1]

    @rule(model=MODELS, kind=KINDS, run_ms=RUNS_MS, bound_ms=BOUNDS_MS)
    def use(self, model: str, kind: Kind, run_ms: int, bound_ms: int | None) -> None:
        stage, name = self.open_one, self.name()
        match kind:
            case "run" | "fail":
                fail = kind == "fail"

                async def ask() -> None:
                    await stage.ask(name, model, bound_ms=bound_ms, run_ms=run_ms, fail=fail)

                self.stepper.step(ask)
            case "stream":

                async def stream() -> None:
                    await stage.stream(name, model, run_ms=run_ms)

                self.stepper.step(stream)
            case "batch":
                self.stepper.step(stage.batch, name, model, [run_ms, 100])
            case _:

                async def hold() -> None:
                    await stage.hold(name, model, seconds=run_ms / 1000, ready=kind == "idle")

                self.stepper.step(hold)

    @rule(data=st.data(), model=MODELS)
    def register(self, data: st.DataObject, model: str) -> None:
        new = data.draw(specs(model))
        self.stepper.step(self.open_one.register, self.name(), new)

    @rule(model=MODELS)
    def unload(self, model: str) -> None:
        self.stepper.step(self.open_one.unload, self.name(), model)

    @rule(models=st.none() | st.lists(MODELS), fence=st.booleans())
    def unload_many(self, models: list[str] | None, fence: bool) -> None:
        stage, name = self.open_one, self.name()

        async def bulk() -> None:
            await stage.unload_many(name, models, fence=fence)

        self.stepper.step(bulk)

    @precondition(lambda self: bool(self.names))
    @rule(data=st.data())
    def client_leaves(self, data: st.DataObject) -> None:
        self.stepper.step(self.open_one.cancel, data.draw(st.sampled_from(self.names)))

    @rule(model=MODELS, session=st.sampled_from([None, 1, 2]))
    def crash(self, model: str, session: int | None) -> None:
        stage = self.open_one

        async def crash() -> None:
            if any(port._home.can_kill for port in stage.isolation._ports):
                stage.isolation.crash(model, session)

        self.stepper.step(crash)

    @rule(seconds=st.sampled_from([0.25, 1, 4]))
    def time_passes(self, seconds: float) -> None:
        self.stepper.advance(seconds)

    @invariant()
    def every_picture_is_whole(self) -> None:
        if self.stage is None:
            return
        models = self.stage.runtime.snapshot().models
        for model in models:
            assert 0 <= model.stuck_slots <= model.active_slots <= 3
            assert model.loaded == (model.max_parallel_slots is not None)
            if model.state == "ready":
                assert model.loaded
            if model.state in {"unloaded", "loading", "unloading"}:
                assert not model.loaded
            spare = model.slots - model.active_slots
            managed = model.state in {"reconfiguring", "unloading"}
            if model.queued_requests and not model.queued_managers and not managed:
                assert spare <= 0 or model.active_slots == 0, "nobody waits beside a spare slot"
        if self.limit:
            resident = [each for each in models if each.loaded or each.state == "loading"]
            assert len(resident) <= self.limit

    def teardown(self) -> None:
        try:
            if self.stage is not None:
                self._come_to_rest(self.stage)
        finally:
            self.stepper.close()

    def _come_to_rest(self, stage: Stage) -> None:
        self.stepper.advance(FOREVER_S)
        assert stage.running == 0, [name for name in self.names if name not in stage.ends()]
        stage.assert_quiet()
        for model in "ab":
            name = self.name()
            self.stepper.step(stage.ask, name, model)
            self.stepper.advance(60)
            assert stage.ends()[name][0] in {
                "done",
                "load_failed",
                "server_error",
                "invalid_request_error",
            }
        self.stepper.step(self._close)
        self.stepper.advance(60)
        assert stage.runtime.snapshot().phase == "stopped"
        assert stage.runtime.cuts() == []

    async def _close(self) -> None:
        self.leave.set()


Users.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
TestUsers = Users.TestCase
