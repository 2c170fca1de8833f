"""When the system did not run a process: what counts, and that it stands before what comes next."""

import ctypes
import math
import threading

import pytest
import trio
import trio.testing

from paraudio.journal import Journal, Kind, Pulse


class Machine:
    """A clock, and what the process has used of a processor."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0
        self.slept: int | None = None
        self.pulse = Pulse(lambda: self.used, lambda: self.slept)
        self.journal = Journal(clock=self.clock, pulse=self.pulse)
        self.pulse.begin(self.clock)

    def clock(self) -> float:
        return self.now

    def passes(self, seconds: float, *, working: float = 0.0) -> None:
        """Let time pass in which the process works for a share of it."""
        self.now += seconds
        self.used += seconds * working

    def record(self) -> None:
        self.journal(Kind.CUT, what="a thing")

    @property
    def events(self) -> list[tuple[str, float, object]]:
        return [
            (event.kind.value, event.at, event.facts.get("ms")) for event in self.journal.since(0)
        ]


@pytest.mark.parametrize("thread_first", [True, False])
def test_a_pause_stands_before_what_comes_next(*, thread_first: bool) -> None:
    machine = Machine()
    machine.passes(5)
    if thread_first:
        machine.pulse.beat()
        machine.passes(0.01)
        machine.pulse.beat()
    machine.record()
    machine.record()
    at = machine.now
    assert machine.events == [("paused", at, 4900), ("cut", at, None), ("cut", at, None)]


@pytest.mark.parametrize(
    "working",
    [
        pytest.param(0.6, id="it computes"),
        pytest.param(2.0, id="threads of it compute"),
    ],
)
def test_a_process_that_works_was_not_paused(working: float) -> None:
    machine = Machine()
    machine.passes(5, working=working)
    machine.record()
    assert [kind for kind, _, _ in machine.events] == ["cut"]


@pytest.mark.parametrize(
    ("sleeps", "kinds"),
    [
        pytest.param(2, ["paused", "cut"], id="the thread slept through"),
        pytest.param(900, ["cut"], id="the thread waited for the lock"),
        pytest.param(None, ["cut"], id="nobody knows"),
    ],
)
def test_what_many_processors_did_before_a_pause_does_not_hide_it(
    sleeps: int | None, kinds: list[str]
) -> None:
    machine = Machine()
    machine.slept = None if sleeps is None else 0
    machine.pulse.beat()
    machine.passes(0.1, working=32.0)
    machine.slept = sleeps
    machine.passes(5)
    machine.record()
    assert [kind for kind, _, _ in machine.events] == kinds


async def test_a_thread_that_waits_for_the_lock_is_seen_to_wait() -> None:
    pulse = Pulse()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        while pulse._sleeps is None:  # noqa: ASYNC110 - a thread sets no event here
            await trio.sleep(0.01)
        before = pulse._sleeps  # as the thread itself has counted
        ctypes.PyDLL(None).usleep(600_000)  # keeps the lock, and works no more than a stopped one
        after = pulse._slept()
        nursery.cancel_scope.cancel()
    # It asks every 5 ms where it gets its turns, and a thread that is stopped not at all.
    assert after is not None
    assert after - before >= 20


def test_a_loop_that_waits_for_a_disk_was_not_paused() -> None:
    machine = Machine()
    for _ in range(50):
        machine.passes(0.1)
        machine.pulse.beat()
    machine.record()
    assert [kind for kind, _, _ in machine.events] == ["cut"]


def test_a_beat_that_is_a_little_late_is_no_pause() -> None:
    machine = Machine()
    machine.passes(0.19)
    machine.record()
    machine.pulse.beat()
    machine.passes(0.19)
    machine.pulse.beat()
    machine.record()
    assert [kind for kind, _, _ in machine.events] == ["cut", "cut"]


def test_several_pauses_are_told_at_once() -> None:
    machine = Machine()
    for _ in range(3):
        machine.passes(1.1)
        machine.pulse.beat()
    machine.record()
    assert machine.events[0] == ("paused", machine.now, 3000)


async def test_it_beats_in_a_thread_that_ends_with_it() -> None:
    beaten, threads = trio.Event(), set[threading.Thread]()

    def spent() -> float:
        thread = threading.current_thread()
        if thread is not threading.main_thread() and not threads:
            threads.add(thread)
            trio.from_thread.run_sync(beaten.set)
        return 0.0

    pulse = Pulse(spent)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        await beaten.wait()
        assert pulse.due < trio.current_time() + 1
        nursery.cancel_scope.cancel()
    assert pulse.due == math.inf
    # The thread has left the pulse, and is one of those that trio keeps for a while.
    assert await trio.to_thread.run_sync(threading.current_thread) in threads


async def test_a_system_without_a_thread_to_give_costs_the_pulse_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refused = trio.Event()

    async def refuse(*_: object) -> None:
        refused.set()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
    pulse = Pulse()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        await refused.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert pulse.due == math.inf
        nursery.cancel_scope.cancel()
    assert any("can't start new thread" in line for line in caplog.messages)
