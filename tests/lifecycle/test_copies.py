"""What a model needs whose sessions have processes of their own: each of these makes a load."""

from dataclasses import replace

import pytest
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.spec import IsolationName

MIB = 2**20


@pytest.mark.contract("fail/memory_refusal")
@pytest.mark.parametrize(("isolation", "fits"), [("thread", True), ("process", False)])
async def test_sessions_in_processes_of_their_own_need_the_memory_of_as_many_loads(
    autojump_clock: MockClock, isolation: IsolationName, fits: bool
) -> None:
    model = replace(spec("a", 3, memory_mb=400), isolation=isolation)
    one = replace(spec("b", memory_mb=400), isolation=isolation)
    async with open_stage(
        model,
        one,
        isolations=[isolation],
        min_free_memory_mb=100,
        free_memory=lambda: 699 * MIB,
    ) as stage:
        await stage.ask("several", "a")
        await stage.ask("one", "b")
        ends = {name: what for name, (what, _) in stage.ends().items()}
        assert ends == {"several": "done" if fits else "insufficient_memory", "one": "done"}
        if not fits:
            assert "'a' needs about 1200 MiB" in stage.errors["several"].message
