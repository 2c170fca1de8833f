"""The rooms of the source tree: what the architecture page says, and what the code does."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "paraudio"
PAGE: Final = ROOT / "docs" / "architecture.md"


@dataclass(frozen=True)
class Room:
    """A row of the table: the rooms and the libraries that a room may import."""

    rooms: frozenset[str]
    libraries: frozenset[str]


@dataclass
class Imports:
    """What the modules of a room import, each with one module that does."""

    rooms: dict[str, str] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    private: dict[str, str] = field(default_factory=dict)


def table() -> dict[str, Room]:
    """The table of the page, by room, in its order."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    return {
        _names(row[0])[0]: Room(frozenset(_names(row[2])), frozenset(_names(row[3])))
        for row in rows
    }


@cache
def imports() -> dict[str, Imports]:
    """What each room imports, read from its sources."""
    found: dict[str, Imports] = defaultdict(Imports)
    known = sorted(table(), key=len, reverse=True)
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE)
        room = _room(".".join(path.with_suffix("").parts), known)
        if room != "__init__":
            for name in _imported(file):
                _note(found[room], room, name, str(path), known)
    return dict(found)


def _room(module: str, known: list[str]) -> str:
    """The room of a module: the most special row of the table that it falls under."""
    rooms = (room for room in known if f"{module}.".startswith(f"{room}."))
    return next(rooms, module.split(".", maxsplit=1)[0])


def _note(found: Imports, room: str, name: str, module: str, known: list[str]) -> None:
    first, _, rest = name.partition(".")
    if first == "paraudio":
        other = _room(rest, known)
        if other != room:
            found.rooms.setdefault(other, module)
        house, *parts = rest.split(".")
        if house != room.split(".", maxsplit=1)[0] and any(part.startswith("_") for part in parts):
            found.private.setdefault(name, module)
    elif first not in sys.stdlib_module_names:
        found.libraries.setdefault(first, module)


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            assert node.module is not None
            if node.module == "paraudio":
                yield from (f"paraudio.{a.name}" for a in node.names if a.name != "__version__")
            else:
                yield node.module


def _names(cell: str) -> list[str]:
    return [part.strip(" `") for part in cell.split(",") if part.strip(" `")]
