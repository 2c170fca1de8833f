"""The effective configuration as a table: every setting, its value and where it was said."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from paraudio.config._load import Loaded
from paraudio.config._problems import Place, dotted
from paraudio.spec import Json, ModelSpec

HIDDEN = "(hidden)"
"""What stands in for a secret."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting.

    Attributes:
        key: Its path, such as ``live_ingest.idle_timeout_ms``.
        value: What holds, as JSON; secrets are replaced by `HIDDEN`.
        source: A flag, a variable, a file with its line, or ``default``.
    """

    key: str
    value: Json
    source: str


def describe(loaded: Loaded) -> tuple[ConfigEntry, ...]:
    """Every setting in the order of the schema, then every model."""
    entries = [
        ConfigEntry(dotted(place), value, loaded.origins.of_value(place))
        for place, value in _settings(loaded.settings, ())
    ]
    for index, spec in enumerate(loaded.settings.models):
        source = loaded.origins.of(("models", index))
        entries.append(ConfigEntry(f"models[{index}]", model_json(spec), source))
    return tuple(entries)


def model_json(spec: ModelSpec) -> dict[str, Json]:
    """A spec as a model object, complete, as JSON."""
    return dataclasses.asdict(spec)


def _settings(schema: BaseModel, at: Place) -> Iterator[tuple[Place, Json]]:
    for name in type(schema).model_fields:
        value = getattr(schema, name)
        place = (*at, name)
        if name == "models":
            continue
        if isinstance(value, BaseModel):
            yield from _settings(value, place)
        elif name == "api_keys":
            yield place, [HIDDEN for _ in value]
        else:
            yield place, list(value) if isinstance(value, tuple) else value
