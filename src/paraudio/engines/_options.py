"""Options of families as data: a schema, checked strictly, with errors that name the field."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

_LARGEST: Final = sys.float_info.max
"""A whole number may have any number of digits; one that is larger than this fits no float."""

_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option that a family takes.

    Attributes:
        name: Its key.
        kind: ``bool``, ``int``, ``float`` or ``str``; a whole number is also a ``float``.
        default: What holds where the caller says nothing; None means "the family's own choice".
        doc: One sentence, with the unit.
        minimum: Smallest number allowed, or None.
        maximum: Largest number allowed, or None.
        choices: All strings allowed, or empty for any.
    """

    name: str
    kind: type[bool] | type[int] | type[float] | type[str]
    default: Json
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


def check_options(
    given: Mapping[str, Json], schema: Sequence[Option], *, param: str
) -> dict[str, Json]:
    """Check options against a schema and complete them with the defaults.

    Args:
        given: What the caller said.
        schema: What the family takes.
        param: The field that holds the options, for messages (``options``, ``load_options``).

    Returns:
        Every option of the schema, by name.

    Raises:
        InvalidRequestError: An unknown name, a wrong kind or a value out of range; ``param`` of the
            error is the dotted path of the option.
    """
    known = {option.name: option for option in schema}
    for name in given:
        if name not in known:
            hint = ", ".join(sorted(known)) or "none"
            raise InvalidRequestError(
                f"{param}.{name} is not an option here; known options: {hint}",
                param=f"{param}.{name}",
            )
    return {
        option.name: _check(given[option.name], option, f"{param}.{option.name}")
        if option.name in given
        else option.default
        for option in schema
    }


def _check(value: Json, option: Option, param: str) -> Json:
    if value is None and option.default is None:
        return None
    if not _is_kind(value, option.kind):
        raise _refusal(value, option, param)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low = -math.inf if option.minimum is None else option.minimum
        high = math.inf if option.maximum is None else option.maximum
        if not low <= value <= high or abs(value) > _LARGEST:
            raise _refusal(value, option, param)
    if option.choices and value not in option.choices:
        raise _refusal(value, option, param)
    return float(value) if option.kind is float and isinstance(value, int) else value


def _refusal(value: Json, option: Option, param: str) -> InvalidRequestError:
    shown = repr(value)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}…"
    return InvalidRequestError(f"{param} must be {_wants(option)}, not {shown}", param=param)


def _is_kind(value: Json, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, kind)


def _wants(option: Option) -> str:
    if option.choices:
        return "one of " + ", ".join(option.choices)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    text = words[option.kind]
    if option.minimum is not None and option.maximum is not None:
        return f"{text} from {_plain(option.minimum)} to {_plain(option.maximum)}"
    if option.minimum is not None:
        return f"{text} of at least {_plain(option.minimum)}"
    if option.maximum is not None:
        return f"{text} of at most {_plain(option.maximum)}"
    return text


def _plain(number: float) -> str:
    return f"{number:.15g}"


def whole_option(options: Mapping[str, Json], name: str) -> int:
    """A checked option of kind ``int``."""
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"option {name} is no whole number: {value!r}")
    return value


def number_option(options: Mapping[str, Json], name: str) -> float:
    """A checked option of kind ``float`` or ``int``."""
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"option {name} is no number: {value!r}")
    return float(value)


def flag_option(options: Mapping[str, Json], name: str) -> bool:
    """A checked option of kind ``bool``."""
    value = options[name]
    if not isinstance(value, bool):
        raise TypeError(f"option {name} is neither true nor false: {value!r}")
    return value


def text_option(options: Mapping[str, Json], name: str) -> str:
    """A checked option of kind ``str``."""
    value = options[name]
    if not isinstance(value, str):
        raise TypeError(f"option {name} is no string: {value!r}")
    return value
