"""The layers over the file: environment variables and flags, each value with its source."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from paraudio.config._expanded import expanded
from paraudio.config._problems import Place, nearest
from paraudio.config._schema import Settings

VARIABLE_PREFIX: Final = "PARAUDIO_"
PATHS: Final = frozenset(
    {("voice_dir",), ("journal",), ("allowed_paths",), ("tls", "cert"), ("tls", "key")}
)
"""The settings that are paths: relative ones start at the file that says them, else here."""

_OTHER_VARIABLES: Final = frozenset({"PARAUDIO_HOME", "PARAUDIO_CONFIG"})
_FLAG_NAMES: Final = {"api_keys": "api-key", "allowed_paths": "allowed-path"}
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,30}\Z")


@dataclass(frozen=True, slots=True)
class Layer:
    """Values that lie over those below.

    Attributes:
        values: Each value by its place; strings that are not of the setting's kind stay strings,
            for the schema to refuse.
        sources: The variable or flag that said each.
        warnings: What was ignored, one line each.
    """

    values: Mapping[Place, object]
    sources: Mapping[Place, str]
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting as command lines and documents show it.

    Attributes:
        place: Where it is.
        kind: The annotation of its value.
        default: What holds where nothing is said.
        description: What it does, as the end of a sentence.
    """

    place: Place
    kind: object
    default: object
    description: str

    @property
    def is_flag(self) -> bool:
        """Whether it is on or off."""
        return self.kind is bool

    @property
    def is_list(self) -> bool:
        """Whether it can hold several values."""
        return _takes_list(self.kind)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it takes, or nothing where any will do."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def metavar(self) -> str:
        """What stands for a value in help: ``cpu|cuda|auto``, ``MS``, ``PATH``."""
        if self.choices:
            return "|".join(self.choices)
        if self.place in PATHS:
            return "PATH"
        if self.kind is not int:
            return "TEXT"
        name = str(self.place[-1])
        units = {"ms": "MS", "mb": "MB", "bytes": "BYTES"}
        return units.get(name.rpartition("_")[2], "N")


def settings_info() -> dict[str, SettingInfo]:
    """Every setting that a variable or a flag can give, by its dotted name."""
    infos = {}
    for place, field_ in _setting_fields():
        default = None if field_.is_required() else field_.default
        name = ".".join(map(str, place))
        infos[name] = SettingInfo(place, field_.annotation, default, field_.description or "")
    return infos


def setting_places() -> Iterator[tuple[Place, object]]:
    """Every setting that a variable or a flag can give, with its annotation."""
    for place, field_ in _setting_fields():
        yield place, field_.annotation


def _setting_fields() -> Iterator[tuple[Place, FieldInfo]]:
    for name, info in Settings.model_fields.items():
        inner = schema_of(info.annotation)
        if inner is not None:
            for key, below in inner.model_fields.items():
                yield (name, key), below
        elif name != "models":
            yield (name,), info


def schema_of(annotation: object) -> type[BaseModel] | None:
    """The schema of a setting that is an object, such as ``Tls | None``; None for a plain one."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def flag_name(place: Place) -> str:
    """The flag of a setting: ``--drain-timeout-ms``, ``--live-ingest-max-chunk-bytes``."""
    words = [_FLAG_NAMES.get(str(step), str(step)) for step in place]
    return "--" + "-".join(words).replace("_", "-")


def variable_name(place: Place) -> str:
    """The variable of a setting: ``PARAUDIO_LIVE_INGEST__MAX_CHUNK_BYTES``."""
    return VARIABLE_PREFIX + "__".join(map(str, place)).upper()


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Read the ``PARAUDIO_*`` variables; an empty one counts as unset, an unknown one is told."""
    known = {variable_name(place): (place, kind) for place, kind in setting_places()}
    values: dict[Place, object] = {}
    sources: dict[Place, str] = {}
    warnings = []
    for name, text in sorted(environ.items()):
        if not name.startswith(VARIABLE_PREFIX) or name in _OTHER_VARIABLES or not text:
            continue
        if name not in known:
            warnings.append(f"{name} is not a setting and is ignored; {nearest(name, known)}")
            continue
        place, kind = known[name]
        values[place] = _absolute(place, _from_text(text, kind))
        sources[place] = name
    return Layer(values, sources, tuple(warnings))


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """Take the flags of a command line: dotted setting names to values; None is not given."""
    kinds = dict(setting_places())
    values: dict[Place, object] = {}
    sources: dict[Place, str] = {}
    for name, value in flags.items():
        if value is None or value == ():
            continue
        place: Place = tuple(name.split("."))
        kind = kinds[place]
        given = value
        if isinstance(given, tuple) and len(given) == 1 and isinstance(kind, UnionType):
            given = given[0]  # one word that may stand for a list, such as "*"
        if isinstance(given, str):
            given = _from_text(given, kind)
        values[place] = _absolute(place, given)
        sources[place] = flag_name(place)
    return Layer(values, sources)


def absolute(value: object, base: Path) -> object:
    """Make a path, or each of a list of paths, absolute; other values are left to the schema."""
    if isinstance(value, str) and value and "\0" not in value:
        return str(base / expanded(value))
    if isinstance(value, list | tuple):
        return [absolute(item, base) for item in value]
    return value


def _absolute(place: Place, value: object) -> object:
    return absolute(value, Path.cwd()) if place in PATHS else value


def _from_text(text: str, kind: object) -> object:
    """Read a text as the kind of its setting; what does not fit stays a text."""
    if kind is bool:
        word = text.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else text
    if kind is int:
        word = text.strip()
        return int(word) if _DIGITS.match(word) else text
    if _takes_list(kind) and text not in {"", "*"}:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _takes_list(kind: object) -> bool:
    if isinstance(kind, UnionType):
        return any(_takes_list(part) for part in get_args(kind))
    return get_origin(kind) is tuple


def overlay(base: Mapping[str, Any], layer: Layer) -> dict[str, Any]:
    """Lay a layer over a tree of settings; a wrong value below an object stays to be refused."""
    tree = dict(base)
    for place, value in layer.values.items():
        name, *below = map(str, place)
        if not below:
            tree[name] = value
            continue
        inner = tree.get(name)
        if inner is None or isinstance(inner, dict):
            tree[name] = {**(inner or {}), below[0]: value}
    return tree


def exists(path: str) -> bool:
    """Whether there is such a file or folder that we may look at."""
    return os.access(path, os.R_OK)


def is_folder(path: str) -> bool:
    """Whether there is such a folder, as far as we may look."""
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises of a name that is too long
