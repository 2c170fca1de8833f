"""Configuration files: JSON and TOML, read strictly, with the line of each key for the errors."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paraudio.config._problems import Place, Problem, SettingsError, dotted
from paraudio.config._problems import shown as short

_PIECE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,\n]|[^\s{}\[\]:,"]+')

_TOML_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)\Z")


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file.

    Attributes:
        path: The file, absolute.
        shown: The file as the user named it.
        data: The top-level object.
        lines: The line that each key or item begins on; empty for TOML, whose reader tells none.
    """

    path: Path
    shown: str
    data: Mapping[str, Any]
    lines: Mapping[Place, int] = field(default_factory=dict)

    def has(self, place: Place) -> bool:
        """Whether it says what is at ``place``, keys of objects all the way."""
        value: object = self.data
        for step in place:
            if not isinstance(value, Mapping) or step not in value:
                return False
            value = value[step]
        return True

    def source(self, place: Place) -> str:
        """The file, with the line of ``place`` or of the nearest thing around it."""
        for end in range(len(place), 0, -1):
            if place[:end] in self.lines:
                return f"{self.shown}:{self.lines[place[:end]]}"
        return self.shown


def read_document(path: Path) -> Document:
    """Read a configuration file: TOML when its name ends in ``.toml``, else JSON.

    Raises:
        SettingsError: It cannot be read, is not well-formed, or gives a key twice.
    """
    shown = str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise _unreadable(shown, "there is no such file") from None
    except OSError as error:
        raise _unreadable(shown, error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise _unreadable(shown, f"it is not UTF-8 text (byte {error.start})") from None
    read = _read_toml if path.suffix.lower() == ".toml" else _read_json
    data, lines = read(text, shown)
    return Document(path.absolute(), shown, data, lines)


def _unreadable(shown: str, why: str) -> SettingsError:
    return SettingsError([Problem("", f"the configuration file cannot be read: {why}", shown)])


def _read_toml(text: str, shown: str) -> tuple[Mapping[str, Any], Mapping[Place, int]]:
    try:
        return tomllib.loads(text), {}
    except tomllib.TOMLDecodeError as error:
        why, line = _told(str(error), text)
        raise _malformed("TOML", why, f"{shown}:{line}") from None
    except (RecursionError, ValueError) as error:
        raise _malformed("TOML", _too_much(error), shown) from None


def _read_json(text: str, shown: str) -> tuple[Mapping[str, Any], Mapping[Place, int]]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        source = f"{shown}:{error.lineno}"
        raise _malformed("JSON", f"{error.msg} (column {error.colno})", source) from None
    except (RecursionError, ValueError) as error:
        raise _malformed("JSON", _too_much(error), shown) from None
    if not isinstance(data, dict):
        message = f"the top level must be an object, {{ … }}, not {short(data)}"
        raise SettingsError([Problem("", message, shown)])
    return data, _lines(text, shown)


def _told(why: str, text: str) -> tuple[str, int]:
    """What the reader of TOML says, without the place, and the line in which it stopped."""
    found = _TOML_PLACE.search(why)
    if found is None:
        return why, 1
    why = why[: found.start()]
    if why.startswith("Cannot "):  # it means a key that is there already, and does not say which
        why += "; is its key given before?"
    if found[1] is None:
        return f"{why} (at the end)", len(text.rstrip().split("\n"))
    return why, int(found[1])


def _too_much(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it holds a number with too many digits"


def _malformed(language: str, why: str, source: str) -> SettingsError:
    hint = "" if language == "TOML" else "; a TOML file needs a name that ends in .toml"
    return SettingsError([Problem("", f"this is no valid {language}: {why}{hint}", source)])


def _lines(text: str, shown: str) -> dict[Place, int]:
    """The line of each key and item; refuses keys that are given twice."""
    lines: dict[Place, int] = {}
    problems = []
    for place, line in _places(text):
        if place in lines:
            key = dotted(place)
            message = f"{key} is given twice, first in line {lines[place]}; keep one of them"
            problems.append(Problem(key, message, f"{shown}:{line}", place))
        lines.setdefault(place, line)
    if problems:
        raise SettingsError(problems)
    return lines


def _places(text: str) -> Iterator[tuple[Place, int]]:
    """Walk well-formed JSON and yield the place and the line of each key and each item."""
    steps: list[str | int] = []
    line = 1
    key_next = False
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece == "\n":
            line += 1
        elif piece in "}]":
            steps.pop()
            key_next = False
        elif piece == ":":
            key_next = False
        elif piece == ",":
            last = steps[-1]
            key_next = isinstance(last, str)
            if isinstance(last, int):
                steps[-1] = last + 1
        elif key_next:
            steps[-1] = json.loads(piece)
            yield tuple(steps), line
        else:
            if steps and isinstance(steps[-1], int):
                yield tuple(steps), line
            if piece in "{[":
                steps.append("" if piece == "{" else 0)
                key_next = piece == "{"
