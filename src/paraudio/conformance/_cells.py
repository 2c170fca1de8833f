"""The cells of the behaviour contract: read from its data, which the package brings along."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

_PARTS: Final = (
    "startup",
    "states",
    "operations",
    "registration",
    "two_models",
    "order",
    "failures",
    "time",
    "beyond",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: what the contract says of an operation in a situation.

    Attributes:
        id: Its ID, such as ``ops/loading/unload``.
        part: The title of the part of the contract that it belongs to.
        work: What is done, and what is waited for.
        response: What the caller gets.
        state: What holds afterwards.
    """

    id: str
    part: str
    work: str
    response: str
    state: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the contract, as its data has it.

    Attributes:
        name: The name of its file, without the suffix.
        title: Its title.
        intro: What it is about, in one paragraph.
        cells: Its cells, in their order.
        matrix: How its table is made that crosses situations with operations, or None: ``prefix``
            of the IDs, ``rows`` and ``columns``.
    """

    name: str
    title: str
    intro: str
    cells: tuple[Cell, ...]
    matrix: Mapping[str, Any] | None


@cache
def parts() -> tuple[Part, ...]:
    """Every part, in the order of the contract."""
    return tuple(_read(name) for name in _PARTS)


@cache
def cells() -> tuple[Cell, ...]:
    """Every cell, in the order of the contract."""
    return tuple(cell for part in parts() for cell in part.cells)


def _read(name: str) -> Part:
    data = tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    return Part(
        name,
        data["title"],
        " ".join(data["intro"].split()),
        tuple(
            Cell(cell, data["title"], text["work"], text["response"], text["state"])
            for cell, text in data["cells"].items()
        ),
        data.get("matrix"),
    )


def _folder() -> Traversable:
    """Inside the package; in a checkout, which is used where it lies, beside the sources."""
    inside = resources.files("paraudio.conformance") / "contract"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "docs" / "contract"
