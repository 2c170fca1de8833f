"""The guard of the event loop: it sees what blocks, and nothing else."""

import time
from pathlib import Path

import pytest
import trio
import trio.testing

from paraudio.testing import LoopGuard, Stall, guarded_runs


def stalls_of(step: object, *, limit_s: float = 0.1) -> list[Stall]:
    found: list[Stall] = []

    async def main() -> None:
        await trio.lowlevel.checkpoint()
        assert callable(step)
        step()
        await trio.lowlevel.checkpoint()

    trio.run(main, instruments=[LoopGuard(found.append, limit_s=limit_s)])
    return found


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_step_that_sleeps_is_a_stall() -> None:
    (stall,) = stalls_of(lambda: time.sleep(0.15))
    assert stall.waited_s > 0.1
    assert stall.computed_s < 0.1
    assert "main" in str(stall)


def test_a_step_that_computes_is_a_stall() -> None:
    (stall,) = stalls_of(lambda: compute(0.15))
    assert stall.computed_s > 0.1


def test_short_steps_are_none() -> None:
    assert stalls_of(lambda: compute(0.02)) == []


async def test_waiting_the_trio_way_is_none() -> None:
    found: list[Stall] = []
    guard = LoopGuard(found.append, limit_s=0.05)
    trio.lowlevel.add_instrument(guard)
    await trio.sleep(0.1)
    trio.lowlevel.remove_instrument(guard)
    assert found == []


def test_time_that_the_system_gave_to_others_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = iter([0.0, 0.5])
    monkeypatch.setattr("paraudio.testing._guard._denied_s", lambda: next(denied, 0.5))
    assert stalls_of(lambda: time.sleep(0.15)) == []


def test_every_run_within_the_block_is_guarded() -> None:
    found: list[Stall] = []

    async def main() -> None:
        time.sleep(0.08)  # noqa: ASYNC251 - it is what the guard is for

    with guarded_runs(found.append, limit_s=0.05):
        trio.run(main)
        trio.run(main, clock=trio.testing.MockClock())
    trio.run(main)
    assert len(found) == 2


def test_a_test_that_blocks_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import time
        import trio

        async def test_blocking():
            time.sleep(2.5)

        async def test_waiting():
            await trio.sleep(2.5)
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    result = pytester.runpytest_subprocess("-p", "tests.loop_guard", "-o", "trio_mode=true")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*blocked the event loop*"])


def test_waiting_has_a_bound_of_its_own() -> None:
    found: list[Stall] = []

    async def waits() -> None:
        time.sleep(0.15)  # noqa: ASYNC251 - what the guard is for

    with guarded_runs(found.append, limit_s=0.05, wait_limit_s=30):
        trio.run(waits)
    assert found == []
    with guarded_runs(found.append, limit_s=30, wait_limit_s=0.05):
        trio.run(waits)
    assert len(found) == 1
