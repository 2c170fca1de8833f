"""The cells of the behaviour contract: read from its data, which the package brings along."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

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


@cache
def cells() -> tuple[Cell, ...]:
    """Every cell, in the order of the contract."""
    return tuple(cell for part in _PARTS for cell in _read(_folder() / f"{part}.toml"))


def _read(file: Traversable) -> Iterator[Cell]:
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    for name, text in data["cells"].items():
        yield Cell(name, data["title"], text["work"], text["response"], text["state"])


def _folder() -> Traversable:
    """Inside the package; in a checkout, which is used where it lies, beside the sources."""
    inside = resources.files("paraudio.conformance") / "contract"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "docs" / "contract"
