"""The parts that decide without a loop, or nearly so."""

import itertools
from unittest.mock import Mock

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from paraudio import lifecycle
from paraudio.errors import ShuttingDownError
from paraudio.journal import Kind, no_record
from paraudio.lifecycle import (
    TRANSITIONS,
    IllegalTransitionError,
    Phase,
    State,
    Trigger,
    next_state,
)
from paraudio.lifecycle._changes import Changes
from paraudio.lifecycle._phases import Phases
from paraudio.lifecycle._pool import Pool
from paraudio.lifecycle._promise import Promise
from paraudio.spec import Json


@pytest.mark.parametrize(("state", "trigger"), list(itertools.product(State, Trigger)), ids=str)
def test_a_trigger_leads_where_the_table_says_or_nowhere(state: State, trigger: Trigger) -> None:
    if (state, trigger) in TRANSITIONS:
        assert next_state(state, trigger) is TRANSITIONS[state, trigger]
    else:
        with pytest.raises(IllegalTransitionError, match=f"'{trigger.value}'.*'{state.value}'"):
            next_state(state, trigger)


@pytest.mark.contract("state/unloaded", "state/unloading", "state/loading", "state/ready")
def test_states_are_left_only_as_the_contract_says() -> None:
    leads = {state: {to for (at, _), to in TRANSITIONS.items() if at is state} for state in State}
    assert leads == {
        State.UNLOADED: {State.LOADING},
        State.LOADING: {State.READY, State.UNLOADED},
        State.READY: {State.UNLOADING, State.RECONFIGURING},
        State.RECONFIGURING: {State.READY, State.UNLOADED},
        State.UNLOADING: {State.UNLOADED},
    }


def test_journals_name_what_moved_a_model_in_words_that_stay() -> None:
    words = ["load", "publish", "fail", "reconfigure", "keep", "retire", "destroy"]
    assert [trigger.value for trigger in Trigger] == words


def test_everything_public_is_exported_and_there() -> None:
    assert sorted(lifecycle.__all__) == sorted(set(lifecycle.__all__))
    for name in lifecycle.__all__:
        assert hasattr(lifecycle, name)


async def test_a_change_wakes_everybody_who_waits_and_counts() -> None:
    heard: list[tuple[Kind, str | None, dict[str, Json]]] = []

    def record(kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        heard.append((kind, model, facts))

    changes = Changes(record)
    woken: list[str] = []

    async def wait(name: str, revision: int) -> None:
        await changes.beyond(revision)
        woken.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "first", 0)
        nursery.start_soon(wait, "second", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == []
        changes(Kind.PHASE, phase="running")
        await trio.testing.wait_all_tasks_blocked()
        assert woken == ["first"]
        changes(Kind.CUT, "a", what="x")
    assert woken == ["first", "second"]
    assert changes.revision == 2
    assert heard == [(Kind.PHASE, None, {"phase": "running"}), (Kind.CUT, "a", {"what": "x"})]
    with trio.testing.assert_checkpoints():
        await changes.beyond(0)


async def test_a_phase_never_goes_back() -> None:
    phases = Phases(no_record, 1)
    phases.advance(Phase.STOPPING)
    phases.advance(Phase.DRAINING)
    phases.advance(Phase.STOPPING)
    assert phases.phase is Phase.STOPPING
    phases.advance(Phase.STOPPED)
    assert phases.stopping
    assert not phases.running


async def test_stopping_cancels_some_scopes_at_once_and_others_after_a_grace(
    autojump_clock: MockClock,
) -> None:
    phases = Phases(no_record, 5)
    told: list[tuple[str, float]] = []
    began = trio.current_time()

    async def interruptible() -> None:
        with pytest.raises(ShuttingDownError), phases.interruptible():
            await trio.sleep(100)
        told.append(("interruptible", trio.current_time() - began))

    async def shielded() -> None:
        with phases.shielded() as scope:
            await trio.sleep(100)
        assert scope.cancelled_caught
        told.append(("shielded", trio.current_time() - began))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interruptible)
        nursery.start_soon(shielded)
        await trio.sleep(1)
        phases.advance(Phase.STOPPING)
        await trio.sleep(1)
        nursery.start_soon(interruptible)
        nursery.start_soon(shielded)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert told == [
        ("interruptible", 1),
        ("interruptible", 2),
        ("shielded", 6),
        ("shielded", 7),
    ]


def test_a_slot_of_a_pool_has_one_user() -> None:
    first, second = Mock(), Mock()
    pool = Pool(Mock(), [first, second], 1)
    assert pool.take(1) == (pool, second)
    with pytest.raises(RuntimeError, match="slot 1 is in use"):
        pool.take(1)
    pool.put(1)
    assert not pool.in_use
    pool.take(1)


async def test_a_promise_is_kept_or_broken_for_all_who_wait() -> None:
    kept: Promise[int] = Promise()
    assert not kept.settled
    kept.keep(7)
    assert (await kept.wait(), await kept.wait(), kept.value) == (7, 7, 7)
    broken: Promise[int] = Promise()
    broken.fail(KeyError("x"))
    assert broken.settled
    assert broken.value is None
    for _ in range(2):
        with pytest.raises(KeyError):
            await broken.wait()


async def test_a_scope_that_is_left_is_forgotten() -> None:
    phases = Phases(no_record, 5)
    with phases.interruptible(), phases.shielded():
        assert (len(phases._interruptible), len(phases._shielded)) == (1, 1)
    assert (len(phases._interruptible), len(phases._shielded)) == (0, 0)
