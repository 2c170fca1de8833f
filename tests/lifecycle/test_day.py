"""A day of mixed use in virtual time: thousands of operations, and nothing is left of any."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest
from tests.lifecycle.stage import Stage, having, open_stage, spec
from trio.testing import MockClock

from paraudio.journal import Kind
from paraudio.spec import ModelSpec

DAY_S: Final = 24 * 3600
OPERATIONS: Final = 1500
MODELS: Final = {
    "quick": spec("quick", 2, load_ms=2_000, run_ms=4_000, memory_mb=10),
    "wide": spec("wide", 4, load_ms=20_000, run_ms=30_000, unload_ms=2_000, memory_mb=20),
    "slow": spec("slow", 1, load_ms=90_000, run_ms=60_000, unload_ms=30_000, memory_mb=40),
    "flaky": spec("flaky", 2, load_ms=1_000, run_ms=2_000, fail_loads=3, fail_runs=5),
    "stubborn": spec("stubborn", 2, run_ms=45_000, ignore_cancel=True),
}
EXPECTED: Final = {
    "done",
    "cancelled",
    "loaded",
    "reconfigured",
    "unloaded",
    "server_error",
    "load_failed",
    "load_timeout",
    "backend_crashed",
    "server_busy",
    "queue_full",
    "slot_stuck",
    "insufficient_memory",
    "invalid_request_error",
}


class Day:
    """Chance, and what it makes people do.

    Args:
        stage: Where they do it.
        seed: What chance begins with; the same day comes again for the same seed.
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._chance = random.Random(seed)
        self._names = 0

    async def pass_by(self) -> None:
        """Let the day pass, one operation after the other, at random times."""
        acts: dict[Callable[[str, str], Awaitable[None]], int] = {
            self.ask: 12,
            self.stream: 4,
            self.batch: 2,
            self.hold: 2,
            self.leave: 8,
            self.unload: 2,
            self.unload_many: 1,
            self.register: 2,
            self.crash: 1,
        }
        for _ in range(OPERATIONS):
            await self._stage.pass_time(self._chance.expovariate(OPERATIONS / DAY_S))
            (act,) = self._chance.choices(list(acts), list(acts.values()))
            self._names += 1
            await act(f"n{self._names}", self._chance.choice(list(MODELS)))

    async def ask(self, name: str, model: str) -> None:
        bound_ms = self._chance.choice([None, None, 0, 1_000, 60_000])
        run_ms = self._chance.choice([0, 500, 20_000, 120_000])
        await self._stage.ask(name, model, bound_ms=bound_ms, run_ms=run_ms)

    async def stream(self, name: str, model: str) -> None:
        await self._stage.stream(name, model)

    async def batch(self, name: str, model: str) -> None:
        await self._stage.batch(name, model, [1_000, 0, 9_000])

    async def hold(self, name: str, model: str) -> None:
        ready = self._chance.random() < 0.5
        await self._stage.hold(name, model, seconds=self._chance.uniform(0, 90), ready=ready)

    async def leave(self, name: str, model: str) -> None:
        """Somebody who is still there goes; nobody in particular."""
        del name, model
        ended = {who for who, what, _ in self._stage.told if what in EXPECTED}
        here = [who for who in self._stage.scopes if who not in ended]
        if here:
            await self._stage.cancel(self._chance.choice(here))

    async def unload(self, name: str, model: str) -> None:
        await self._stage.unload(name, model, bound_ms=self._chance.choice([0, 5_000, 600_000]))

    async def unload_many(self, name: str, model: str) -> None:
        del model
        wanted = self._chance.choice([None, ["quick", "slow", "nobody"], ["wide", "wide"]])
        await self._stage.unload_many(name, wanted, fence=self._chance.random() < 0.3)

    async def register(self, name: str, model: str) -> None:
        await self._stage.register(name, self._changed(MODELS[model]), bound_ms=120_000)

    async def crash(self, name: str, model: str) -> None:
        del name
        self._stage.isolation.crash(model)

    def _changed(self, old: ModelSpec) -> ModelSpec:
        slots = self._chance.choice([1, 2, 4])
        if self._chance.random() < 0.3:
            return replace(old, slots=slots, path=f"/{self._chance.randrange(3)}")
        return having(replace(old, slots=slots), capacity=self._chance.choice([2, 16]))


@pytest.mark.contract("beyond/g09_journal_verifiable", "beyond/g11_memory_released_after_unload")
@pytest.mark.parametrize("can_kill", [False, True])
async def test_nothing_is_left_of_a_day(autojump_clock: MockClock, can_kill: bool) -> None:
    free_mb = 200.0
    async with open_stage(
        *MODELS.values(),
        hang_timeout_s=10,
        can_kill=can_kill,
        busy_timeout_ms=300_000,
        max_queued_requests=8,
        max_loaded_models=3,
        idle_unload_ms=1_800_000,
        min_free_memory_mb=50,
        free_memory=lambda: int(free_mb * 2**20),
    ) as stage:
        await Day(stage, seed=4).pass_by()
        await stage.done()
        await stage.pass_time(3600)
        assert stage.now > DAY_S * 0.9
        assert {what for _, what, _ in stage.told} >= {"done", "cancelled", "unloaded", "loaded"}
        odd = {what for what, _ in stage.ends().values()} - EXPECTED
        assert not odd, odd
        stage.assert_quiet()
        models = stage.runtime.snapshot().models
        assert [model.abandoned_calls for model in models] == [0] * len(MODELS)
        assert not [model for model in models if model.loaded], "idle models are retired"
        assert stage.runtime.places() == []
        assert not stage.isolation._ports
        counts = Counter(event.kind for event in stage.journal)
        assert counts[Kind.GRANTED] == counts[Kind.RELEASED] > OPERATIONS / 2
        assert counts[Kind.RETIRED] == counts[Kind.DESTROYED] == counts[Kind.PUBLISHED] > 50
