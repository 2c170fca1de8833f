"""What the reader of TOML leaves out of a refusal: the line, and the key that is given twice."""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

from paraudio.config._problems import Place

_AT: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)\Z")
_CLASHES: Final = "Cannot "
"""How the reader begins what it says of keys that cannot both be."""

_MARK: Final = "\0"
"""A key that nobody gives."""

_MOST_LINES: Final = 200
"""Lines of one statement; the search for where a longer one begins would take its time."""


def told(error: tomllib.TOMLDecodeError, text: str) -> tuple[str, int]:
    """What the reader says, without the place, and the line in which it stopped."""
    message = str(error)
    found = _AT.search(message)
    if found is None:
        return message, 1
    if found[1] is None:
        return f"{message[: found.start()]} at the end", len(text.rstrip().split("\n"))
    return message[: found.start()], int(found[1])


def given_twice(text: str, message: str, line: int) -> tuple[Place, int] | None:
    """Find the key that a statement gives a second time.

    Args:
        text: The document.
        message: What the reader says, of `told`.
        line: The line in which it stopped, the last one of the statement.

    Returns:
        The place of the key, and the line that gives it first; None where it is something else that
        is wrong.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    start = _start(lines, line) if message.startswith(_CLASHES) else None
    if start is None:
        return None
    before = lines[: start - 1]
    names = _names("\n".join(lines[start - 1 : line]), before)
    place = _place(_parsed(before), names)
    if place is None:
        return None
    ends = range(len(before) + 1)
    end = bisect_left(ends, True, key=lambda count: _holds(before[:count], place))
    return place, _start(lines, end) or end


def _parsed(lines: Sequence[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None


def _start(lines: Sequence[str], end: int) -> int | None:
    """The line that begins the statement which ends in line ``end``: it is TOML by itself."""
    starts = range(end, max(end - _MOST_LINES, 0), -1)
    return next((start for start in starts if _parsed(lines[start - 1 : end])), None)


def _names(statement: str, before: Sequence[str]) -> list[str]:
    """The names from the top of the document to what a statement gives."""
    if statement.lstrip().startswith("["):
        return _chain(_parsed([statement]))
    within = _to_mark(_parsed([*before, '"\\u0000" = 0']) or {}) or []
    for sign in re.finditer("=", statement):  # the first one may stand in a quoted name
        if own := _chain(_parsed([statement[: sign.start()] + "= 0"])):
            return [*within, *own]
    return within


def _chain(value: object) -> list[str]:
    """The names of objects that hold one thing each, from the outside in."""
    names = []
    while isinstance(value := _last(value), dict) and value:
        name, value = next(iter(value.items()))
        names.append(name)
    return names


def _to_mark(table: dict[str, Any]) -> list[str] | None:
    """The names of the tables around the mark, which is in the last of any list of tables."""
    if _MARK in table:
        return []
    for name, value in table.items():
        inner = _last(value)
        below = _to_mark(inner) if isinstance(inner, dict) else None
        if below is not None:
            return [name, *below]
    return None


def _last(value: object) -> object:
    return value[-1] if isinstance(value, list) and value else value


def _place(value: object, names: Sequence[str]) -> Place | None:
    """As far as what was read has these names; None where it lacks one."""
    place: list[str | int] = []
    for name in names:
        if isinstance(value, list) and value:
            place.append(len(value) - 1)
            value = value[-1]
        if not isinstance(value, dict):
            break  # something whole, into which the rest of the names would lead
        if name not in value:
            return None
        place.append(name)
        value = value[name]
    return tuple(place) or None


def _holds(lines: Sequence[str], place: Place) -> bool:
    """Whether these lines, up to the last statement that is complete in them, have the place."""
    counts = range(len(lines), max(len(lines) - _MOST_LINES, -1), -1)
    value: Any = next(
        (tree for count in counts if (tree := _parsed(lines[:count])) is not None), {}
    )
    for step in place:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True
