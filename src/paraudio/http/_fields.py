"""Readers of a request's fields: each names its field when it refuses it.

JSON ``null`` is the same as no field at all. A form has only strings, so its numbers and flags are
read from their text, and an empty one counts as absent.
"""

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Final, NoReturn

from paraudio.config import nearest
from paraudio.errors import InvalidRequestError
from paraudio.http._lift import LONG, Lifted
from paraudio.spec import Json

MAX_SEED: Final = 2**64 - 1
"""The largest seed; the smallest is 0."""

MAX_WHOLE: Final = 2**31 - 1
"""The largest whole number where a field has no bound of its own."""

MAX_VALUES: Final = 100_000
"""The most values of a JSON text: reading more would hold up every other request."""

MAX_DIGITS: Final = 400
"""The longest number of a JSON text, in characters: each that a float can hold is shorter."""

_SLICE: Final = 2**20

_WHOLE: Final = re.compile(r"-?[0-9]{1,30}\Z")
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_SHOWN: Final = 60


def shown(value: object) -> str:
    """A value as it looks in a message: short, and safe to print."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        value = value[:_SHOWN]
    text = "null" if value is None else json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def refusal(param: str, wants: str, value: object) -> InvalidRequestError:
    """The error for a wrong field: ``{param} must be {wants}, not {value}``."""
    return InvalidRequestError(f"{param} must be {wants}, not {shown(value)}", param=param)


def missing(param: str, wants: str) -> InvalidRequestError:
    """The error for a field that must be there."""
    return InvalidRequestError(f"{param} is missing: it must be {wants}", param=param)


class Fields:
    """The fields of one JSON object, or of one form."""

    def __init__(self, values: Mapping[str, object], *, prefix: str = "", form: bool = False):
        """Wrap the values.

        Args:
            values: The fields by name.
            prefix: Where the object lies in the request, with its closing dot (``request.``).
            form: Whether numbers and flags are text.
        """
        self._values = values
        self._prefix = prefix
        self._form = form

    def param(self, name: str) -> str:
        """The dotted path of a field."""
        return self._prefix + name

    def all(self) -> Mapping[str, object]:
        """Every field as it came."""
        return self._values

    def get(self, name: str) -> object:
        """A field as it came; None where there is none."""
        value = self._values.get(name)
        if self._form and value == "":
            return None
        return value

    def only(self, known: Collection[str]) -> None:
        """Refuse every field that the route does not know.

        Raises:
            InvalidRequestError: It names the first unknown field, and the nearest known one, or
                all of them.
        """
        for name in self._values:
            if name not in known:
                raise InvalidRequestError(
                    f"{shown(name)} is not a field of this route; {nearest(name, known)}",
                    param=self.param(name),
                )

    def text(self, name: str) -> str | None:
        """A string, which may be empty; None where there is none."""
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise refusal(self.param(name), "a string", value)

    def filled(self, name: str, wants: str = "a string that is not empty") -> str:
        """A string that must be there and hold more than blanks."""
        value = self.text(name)
        if value is None:
            raise missing(self.param(name), wants)
        if not value.strip():
            raise refusal(self.param(name), wants, value)
        return value

    def whole(self, name: str, *, minimum: int = 0, maximum: int = MAX_WHOLE) -> int | None:
        """A whole number within bounds; None where there is none."""
        value = self.get(name)
        if value is None:
            return None
        given = value
        if self._form and isinstance(value, str) and _WHOLE.match(value):
            value = int(value)
        in_bounds = isinstance(value, int) and not isinstance(value, bool)
        if in_bounds and isinstance(value, int) and minimum <= value <= maximum:
            return value
        raise refusal(self.param(name), f"a whole number from {minimum} to {maximum}", given)

    def number(self, name: str, *, minimum: float, maximum: float) -> float | None:
        """A number within bounds; None where there is none."""
        value = self.get(name)
        if value is None:
            return None
        number = _as_number(value) if self._form or not isinstance(value, str) else None
        if number is not None and minimum <= number <= maximum:
            return number
        raise refusal(self.param(name), f"a number from {minimum:g} to {maximum:g}", value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false; ``default`` where there is none."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if self._form and isinstance(value, str) and value.lower() in _FLAGS:
            return _FLAGS[value.lower()]
        raise refusal(self.param(name), "true or false", value)

    def choice(self, name: str, choices: Collection[str], *, default: str) -> str:
        """One of a few words; ``default`` where there is none."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value in choices:
            return value
        raise refusal(self.param(name), "one of " + ", ".join(choices), value)

    def options(self, name: str) -> dict[str, Json]:
        """An object with anything in it; empty where there is none. A form gives it as JSON."""
        value = self.get(name)
        if value is None:
            return {}
        if self._form and isinstance(value, str):
            value = loads(value.encode(), self.param(name))
        if isinstance(value, dict):
            return value
        raise refusal(self.param(name), "an object", value)

    def inner(self, name: str) -> "Fields | None":
        """The fields of an object within this one; None where there is none."""
        value = self.get(name)
        return None if value is None else self.within(name, value)

    def within(self, name: str, value: object) -> "Fields":
        """The fields of an object that lies in field ``name`` of this one."""
        if isinstance(value, dict):
            return Fields(value, prefix=self.param(name) + ".")
        raise refusal(self.param(name), "an object", value)

    def items(self, name: str, wants: str) -> list[object]:
        """A list that must be there and may be empty."""
        value = self.get(name)
        if value is None:
            raise missing(self.param(name), wants)
        if isinstance(value, list):
            return value
        raise refusal(self.param(name), wants, value)

    def seed(self, name: str = "seed") -> int | None:
        """A seed, exact: a whole number of 64 bits, or its decimal digits; None for none."""
        value = self.get(name)
        if value is None:
            return None
        seed = value
        if isinstance(seed, str) and _WHOLE.match(seed):
            seed = int(seed)
        if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= MAX_SEED:
            return seed
        raise refusal(self.param(name), f"a whole number from 0 to {MAX_SEED}", value)


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class _RefusedError(ValueError):
    """Valid for the JSON library, and still no JSON for us."""


class _NumberError(ValueError):
    """JSON, and a number in it that nobody can mean."""


def loads(data: bytes, param: str | None = None, *, whole: str = "the body") -> object:
    """Parse JSON strictly: UTF-8, no key twice, no NaN or infinity, no half of a surrogate pair.

    Args:
        data: The document.
        param: The field that holds the document, or None where it is no field of another.
        whole: What the document is called then.

    Raises:
        InvalidRequestError: It is no JSON; the message says where.
    """
    what = whole if param is None else param
    if _values(data) > MAX_VALUES:
        raise InvalidRequestError(f"{what} holds more than {MAX_VALUES} values", param=param)
    lifted = Lifted(data) if len(data) > LONG else None
    data = data if lifted is None else lifted.rest
    try:
        value: object = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_whole,
            parse_float=_finite,
        )
        if b"\\ud" in data or b"\\uD" in data:
            json.dumps(value, ensure_ascii=False).encode()
        if lifted is not None:
            value = lifted.put_back(value)
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"{what} is not valid JSON: half of a surrogate pair stands alone in it", param=param
        ) from error
    except RecursionError as error:
        raise InvalidRequestError(f"{what} is nested too deeply", param=param) from error
    except _NumberError as error:
        raise InvalidRequestError(f"{what} holds a number {error}", param=param) from error
    except ValueError as error:
        raise InvalidRequestError(
            f"{what} is not valid JSON: {_why(error)}", param=param
        ) from error
    return value


def _values(data: bytes) -> int:
    """About how many values a JSON text has, by its marks; slices let other threads in between."""
    count = 0
    for at in range(0, len(data), _SLICE):
        count += sum(data.count(mark, at, at + _SLICE) for mark in (b",", b"[", b"{"))
        if count > MAX_VALUES:
            break
    return count


def _why(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return str(error)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"the key {shown(key)} is there twice")
            seen.add(key)
    return found


def _whole(text: str) -> int:
    _check_length(text)
    return int(text)


def _finite(text: str) -> float:
    _check_length(text)
    number = float(text)
    if not math.isfinite(number):
        raise _NumberError(f"that is too large to be one: {shown(text)}")
    return number


def _check_length(text: str) -> None:
    """Refuse what would take the interpreter long to read, or what it refuses in its own words."""
    if len(text) > MAX_DIGITS:
        raise _NumberError(
            f"of {len(text)} characters, from {text[:20]} on; up to {MAX_DIGITS} are read"
        )


def _no_constant(name: str) -> NoReturn:
    raise _RefusedError(f"{name} is no JSON number")
