"""What is wrong with a configuration: where, what was given, and what would do."""

import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from paraudio.errors import ConfigError, InvalidRequestError

Place: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the top of a document down to a value."""

REFUSED: Final = "refused"
"""The type of the pydantic errors whose message is already in our words."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_SECRET: Final = frozenset({"api_keys"})
_LONGEST_SHOWN: Final = 60
_WANTS: Final = {
    "bool_type": "true or false",
    "string_type": "a string",
    "string_unicode": "a string of whole characters",
    "model_type": "an object",
    "dict_type": "an object",
    "tuple_type": "a list",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        key: The complete path of the key, such as ``models[2].slots``.
        message: One sentence that names the key, what was given and what would do.
        source: Where it was said: ``server.json:12``, ``PARAUDIO_PORT``, ``--port``, or "".
        place: The same path as a tuple, for finding the source.
    """

    key: str
    message: str
    source: str = ""
    place: Place = ()

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" if self.source else self.message


class SettingsError(ConfigError):
    """The configuration is wrong; ``problems`` says everything that is, ``param`` the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)), param=problems[0].key or None)
        self.problems = tuple(problems)


class ModelObjectError(InvalidRequestError):
    """A model object is wrong; ``problems`` says everything that is, ``param`` the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        text = "; ".join(problem.message for problem in problems)
        super().__init__(text, param=problems[0].key or None)
        self.problems = tuple(problems)


def dotted(place: Iterable[str | int], prefix: str = "") -> str:
    """Write a place as one reads it in code: ``models[2].voice_presets["a.b"].voice_id``."""
    text = prefix
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text


def shown(value: object) -> str:
    """Show a value the way a configuration file would, cut to one short piece."""
    match value:
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | float() | str():
            text = json.dumps(value)
        case int():
            # The length of a number in bits is cheap to know; its digits may not be.
            text = str(value) if value.bit_length() < _LONGEST_SHOWN * 3 else "so large a number"
        case _:
            text = str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str:
    """A did-you-mean for a name that is not known, or the list of those that are."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known here: " + (", ".join(names) or "none")


def refuse(reason: str, *at: str | int) -> PydanticCustomError:
    """The error that a validator raises: ``reason`` follows the key (at ``at`` below it)."""
    return PydanticCustomError(REFUSED, "{reason}", {"reason": reason, "at": at})


def problems_of(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[Problem]:
    """Say in our own words what pydantic found wrong.

    Args:
        error: What validation of ``model`` raised.
        model: The schema, for the keys that it knows.
        prefix: The path of the validated object inside its document.
    """
    return [_problem(one, model, prefix) for one in error.errors(include_url=False)]


def _problem(error: ErrorDetails, model: type[BaseModel], prefix: str) -> Problem:
    context = error.get("ctx", {})
    place: Place = (*error["loc"], *context.get("at", ()))
    if place[1:][-1:] == ("[key]",) and place[-2] == error["input"]:
        place = place[:-1]  # pydantic's word for the key of a dictionary itself
    key = dotted(place, prefix)
    return Problem(key, f"{key} {_reason(error, model, place)}", place=place)


def _reason(error: ErrorDetails, model: type[BaseModel], place: Place) -> str:
    kind = error["type"]
    if kind == REFUSED:
        return error["msg"]
    if kind == "extra_forbidden":
        return (
            f"is not a key here; {nearest(str(place[-1]), _schema_at(model, place).model_fields)}"
        )
    if kind == "missing":
        return f"is missing{_description(model, place)}"
    given = "that value" if _SECRET.intersection(place) else shown(error["input"])
    return f"must be {_wants(error)}, not {given}"


def _wants(error: ErrorDetails) -> str:
    if error["type"] == "literal_error":
        return "one of " + str(error["ctx"]["expected"]).replace(" or ", ", ").replace("'", "")
    return _WANTS.get(error["type"], error["msg"].removeprefix("Input should be "))


def _schema_at(model: type[BaseModel], place: Place) -> type[BaseModel]:
    """The schema of the object that holds the last key of ``place``."""
    for step in place[:-1]:
        field = model.model_fields.get(step) if isinstance(step, str) else None
        inner = _schema_in(field.annotation) if field is not None else None
        model = inner or model
    return model


def _schema_in(annotation: object) -> type[BaseModel] | None:
    """The schema inside an annotation such as ``dict[str, Preset]`` or ``Tls | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _schema_in(inner)
        if found is not None:
            return found
    return None


def _description(model: type[BaseModel], place: Place) -> str:
    field = _schema_at(model, place).model_fields.get(str(place[-1]))
    return f" ({field.description})" if field is not None and field.description else ""
