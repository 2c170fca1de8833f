"""The facts of each kind as a table, and the check of one event against it."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from paraudio.journal._events import Event, Kind
from paraudio.spec import Json

Check: TypeAlias = Callable[[Json], bool]


def _number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _numbers(value: Json) -> bool:
    return isinstance(value, list) and all(_number(each) for each in value)


def _text(value: Json) -> bool:
    return isinstance(value, str)


def _flag(value: Json) -> bool:
    return isinstance(value, bool)


def _number_or_null(value: Json) -> bool:
    return value is None or _number(value)


def _text_or_null(value: Json) -> bool:
    return value is None or _text(value)


_LEASE: Final[Mapping[str, Check]] = {"ticket": _number, "slots": _numbers}
_CONFIG: Final[Mapping[str, Check]] = {"slots": _number, "path": _text, "config": _number}
_LOAD: Final[Mapping[str, Check]] = {"ticket": _number, "generation": _number}
_RUN: Final[Mapping[str, Check]] = {"request": _text, "ticket": _number}

FACTS: Final[Mapping[Kind, Mapping[str, Check]]] = {
    Kind.QUEUED: {
        "ticket": _number,
        "manager": _flag,
        "bound_ms": _number_or_null,
        "request": _text_or_null,
    },
    Kind.GRANTED: _LEASE,
    Kind.LEFT: {"ticket": _number, "why": _text},
    Kind.REFUSED: {"why": _text},
    Kind.RELEASED: _LEASE,
    Kind.STUCK: _LEASE,
    Kind.FREED: _LEASE,
    Kind.RESIZED: {"ticket": _number, "slots": _number},
    Kind.REGISTERED: _CONFIG,
    Kind.INSPECTED: {"config": _number},
    Kind.STATE: {"from": _text, "to": _text, "event": _text},
    Kind.LOAD_STARTED: {**_LOAD, "config": _number},
    Kind.LOAD_FAILED: {**_LOAD, "error": _text},
    Kind.PUBLISHED: {**_LOAD, "sessions": _number, "config": _number},
    Kind.RETIRED: {"ticket": _number_or_null, "generation": _number, "why": _text},
    Kind.DESTROYED: {"generation": _number},
    Kind.COMMITTED: {"ticket": _number, **_CONFIG},
    Kind.ABANDONED: {"call": _number, "what": _text},
    Kind.RETURNED: {"call": _number},
    Kind.BOUND: {**_RUN, "config": _number},
    Kind.RUN_STARTED: {**_RUN, "slot": _number, "generation": _number},
    Kind.RUN_ENDED: {**_RUN, "outcome": _text},
    Kind.DISCONNECTED: {"request": _text},
    Kind.PHASE: {"phase": _text},
    Kind.PAUSED: {"ms": _number},
    Kind.CUT: {"what": _text},
}
"""What each kind's facts must be; further facts are allowed, so that kinds can grow."""

_WITHOUT_MODEL: Final = frozenset({Kind.DISCONNECTED, Kind.PHASE, Kind.PAUSED, Kind.CUT})


def flaw(event: Event) -> str | None:
    """What is wrong with the facts of an event, or None."""
    if event.model is None and event.kind not in _WITHOUT_MODEL:
        return f"{event.kind.value!r} names no model"
    for name, check in FACTS[event.kind].items():
        if name not in event.facts:
            return f"{event.kind.value!r} lacks the fact {name!r}"
        if not check(event.facts[name]):
            return f"{event.kind.value!r} cannot have {name!r} = {event.facts[name]!r}"
    return None
