"""The stepper: nothing moves between steps, time moves when told, one seed is one history."""

from collections.abc import Iterator

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from paraudio.engines import Job, Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import SessionHandle
from paraudio.testing import Gates, NotSettledError, StepBlockedError, Stepper
from paraudio.testing import open_virtual_isolation as open_isolation


@pytest.fixture
def stepper() -> Iterator[Stepper]:
    with Stepper() as it:
        yield it


def test_a_step_returns_what_its_work_returned(stepper: Stepper) -> None:
    async def add(one: int, other: int) -> int:
        await trio.lowlevel.checkpoint()
        return one + other

    assert stepper.step(add, 1, 2) == 3


def test_a_step_raises_what_its_work_raised_and_the_program_lives_on(stepper: Stepper) -> None:
    async def fail() -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        stepper.step(fail)
    stepper.step(trio.lowlevel.checkpoint)


def test_all_that_follows_from_a_step_happens_in_it(stepper: Stepper) -> None:
    seen: list[str] = []
    events = [trio.Event() for _ in range(3)]

    async def chain(index: int) -> None:
        await events[index].wait()
        seen.append(f"woken {index}")
        if index + 1 < len(events):
            events[index + 1].set()

    for index in range(3):
        stepper.start(chain, index)

    async def kick() -> None:
        events[0].set()

    assert seen == []
    stepper.step(kick)
    assert seen == ["woken 0", "woken 1", "woken 2"]


def test_whoever_waits_for_rest_goes_on_within_the_step(stepper: Stepper) -> None:
    steps = 0

    async def patient() -> None:
        nonlocal steps
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(20):
            await trio.lowlevel.checkpoint()
            steps += 1

    stepper.start(patient)
    assert steps == 20


def test_time_stands_still_until_it_is_advanced(stepper: Stepper) -> None:
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await trio.sleep(seconds)
        woken.append(trio.current_time())

    for seconds in (3.0, 1.0, 2.0):
        stepper.start(sleeper, seconds)
    stepper.advance(0.5)
    assert woken == []
    stepper.advance(2.0)
    assert woken == [1.0, 2.0]
    assert stepper.now == 2.5


def test_a_task_that_takes_its_time_to_leave_is_given_it() -> None:
    left: list[float] = []

    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(60, shield=True):
                await trio.sleep_forever()
            left.append(trio.current_time())

    with Stepper() as stepper:
        stepper.start(slow)
    assert left == [60]


def test_a_task_that_never_leaves_is_no_silent_hang() -> None:
    scope = trio.CancelScope(shield=True)

    async def never() -> None:
        with scope:
            await trio.sleep_forever()

    stepper = Stepper()
    stepper.start(never)
    with pytest.raises(NotSettledError):
        stepper.close()
    scope.shield = False
    stepper.close()


def test_a_step_that_waits_for_time_is_blocked(stepper: Stepper) -> None:
    with pytest.raises(StepBlockedError):
        stepper.step(trio.sleep, 1.0)
    stepper.advance(2.0)


def test_a_program_that_crashes_ends_the_step_that_made_it(stepper: Stepper) -> None:
    async def crash() -> None:
        await trio.sleep(1)
        raise KeyError("no")

    stepper.start(crash)
    with pytest.RaisesGroup(KeyError):
        stepper.advance(2.0)


def test_closing_cancels_what_runs() -> None:
    ended: list[str] = []

    async def run() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("yes")

    with Stepper() as stepper:
        stepper.start(run)
        assert ended == []
    assert ended == ["yes"]


def test_a_program_that_never_rests_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paraudio.testing._stepper._TICKS_A_STEP", 1_000)

    async def spin() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    with Stepper() as stepper, pytest.raises(NotSettledError):
        stepper.start(spin)


def race(seed: int) -> tuple[str, ...]:
    """Eight tasks that are all woken at once, in the order in which they get to run."""
    order: list[str] = []

    async def main() -> None:
        start = trio.Event()

        async def runner(name: str) -> None:
            await start.wait()
            order.append(name)
            await trio.lowlevel.checkpoint()
            order.append(name)

        async with trio.open_nursery() as nursery:
            for name in "abcdefgh":
                nursery.start_soon(runner, name)
            await trio.testing.wait_all_tasks_blocked()
            start.set()

    with Stepper(seed=seed) as stepper:
        stepper.start(main)
    return tuple(order)


def test_one_seed_is_one_history_and_seeds_differ() -> None:
    histories = {seed: race(seed) for seed in range(8)}
    assert histories == {seed: race(seed) for seed in range(8)}
    assert len(set(histories.values())) > 1


class SessionMachine(RuleBasedStateMachine):
    """One simulated session that is used, cancelled, killed and restored in any order."""

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.stepper = Stepper(seed=seed)
        self.gates = Gates()
        self.stepper.start(self.serve)
        self.runs: list[trio.CancelScope] = []
        self.results = 0

    async def serve(self) -> None:
        async with open_isolation(gates=self.gates, can_kill=True, hang_timeout_s=5.0) as isolation:
            load = Load("/m", "tts", "offline", None, None, {}, {"run_ms": 1000}, model_id="m")
            model = await isolation.load(SimulatedFamily(), load)
            self.session: SessionHandle = await model.session()
            await trio.sleep_forever()

    async def use(self) -> None:
        with trio.CancelScope() as scope:
            self.runs.append(scope)
            await self.session.run(Job(task="tts", text="x"))
            self.results += 1
        self.runs.remove(scope)
        await self.session.restore()

    @rule()
    def run(self) -> None:
        if not self.runs:
            self.stepper.start(self.use)

    @rule()
    def cancel(self) -> None:
        async def cancel() -> None:
            for scope in self.runs:
                scope.cancel()

        self.stepper.step(cancel)
        assert not self.session.busy

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.stepper.advance(seconds)

    @invariant()
    def a_session_is_busy_exactly_while_a_run_is_in_it(self) -> None:
        if hasattr(self, "session"):
            assert self.session.busy == bool(self.runs)

    def teardown(self) -> None:
        if hasattr(self, "stepper"):
            self.stepper.close()


SessionMachine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, derandomize=True
)
TestSessionMachine = SessionMachine.TestCase
