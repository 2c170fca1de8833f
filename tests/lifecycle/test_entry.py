"""The data of one model, and what former loads left behind: decided without a runtime."""

from collections.abc import Callable
from math import inf
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from paraudio.admission import Claim
from paraudio.engines.isolation import Inspection
from paraudio.errors import LoadError, ShuttingDownError
from paraudio.journal import Kind, no_record
from paraudio.lifecycle import Phase, RuntimeSettings, State
from paraudio.lifecycle._abandoned import Abandoned
from paraudio.lifecycle._candidate import Checker
from paraudio.lifecycle._changes import Changes
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._phases import Phases


class _Call:
    """A call that was given up, and ends when told to."""

    what = "a load"

    def __init__(self) -> None:
        self.ended = False
        self._then: list[Callable[[], object]] = []

    def then(self, callback: Callable[[], object]) -> None:
        self._then.append(callback)

    def end(self) -> None:
        self.ended = True
        for callback in self._then:
            callback()


def _entry(*left_behind: _Call, told: list[tuple[Kind, dict[str, Any]]] | None = None) -> Entry:
    """A model whose isolation has these calls of it."""

    def record(kind: Kind, model: str | None = None, /, **facts: Any) -> None:
        if told is not None:
            told.append((kind, facts))

    changes = Changes(record)
    settings = RuntimeSettings()
    context = Context(settings, changes, Phases(no_record, 1), Checker(settings, {}, {}))
    candidate = Mock()
    candidate.spec.id, candidate.spec.slots = "m", 2
    candidate.isolation.abandoned_of.return_value = list(left_behind)
    return Entry(context, candidate, 1)


def test_what_was_left_behind_is_reserved_until_it_ends_and_not_a_byte_more() -> None:
    first, second = _Call(), _Call()
    abandoned = Abandoned("m", Changes(no_record))
    assert abandoned.reserved == 0
    abandoned.note([first])
    assert (abandoned.reserved, len(abandoned)) == (0, 1)
    abandoned.note([first, second], reserve=7)
    assert (abandoned.reserved, len(abandoned)) == (7, 2), "who is known is not counted again"
    second.end()
    assert (abandoned.reserved, len(abandoned)) == (0, 1)
    first.end()
    assert (abandoned.reserved, len(abandoned)) == (0, 0)


@pytest.mark.parametrize(("known", "reserved"), [(None, 0), (Inspection({}, 500), 500)])
def test_a_load_that_was_given_up_reserves_what_its_files_say(
    known: Inspection | None, reserved: int
) -> None:
    entry = _entry(_Call())
    entry.inspection = known
    entry.begin_load(1)
    entry.fail_load(1, LoadError("no"))
    assert (entry.state, entry.abandoned.reserved) == (State.UNLOADED, reserved)


def test_a_pool_that_was_given_up_reserves_nothing() -> None:
    entry = _entry(_Call())
    entry.note_abandoned()
    assert (len(entry.abandoned), entry.abandoned.reserved) == (1, 0)


def test_what_a_later_look_finds_out_does_not_replace_what_is_known() -> None:
    told: list[tuple[Kind, dict[str, Any]]] = []
    entry = _entry(told=told)
    first, second = Inspection({"seen": 1}, 1), Inspection({"seen": 2}, 2)
    entry.inspected(first)
    entry.inspected(second)
    assert entry.inspection is first
    assert told == [(Kind.INSPECTED, {"config": 1})]


def test_a_model_that_was_never_loaded_was_never_used() -> None:
    assert _entry().last_used == -inf


async def test_a_lease_that_comes_to_a_model_after_the_stop_ends_at_once() -> None:
    entry = _entry()
    entry._context.phases.advance(Phase.STOPPING)
    lease = entry.queue.admit_nowait(Claim.MANAGER)
    assert lease is not None
    promise = entry.hand_over(lease, AsyncMock())
    assert not entry.queue.snapshot().managed
    with pytest.raises(ShuttingDownError):
        await promise.wait()
