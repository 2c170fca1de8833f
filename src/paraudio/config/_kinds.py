"""The kinds of values that settings and models are made of, each with its own refusal."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from paraudio.config._problems import nearest, refuse, shown
from paraudio.spec import Json

LARGEST: Final = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact; no setting needs more."""

_DEEPEST: Final = 32


class Strict(BaseModel):
    """Frozen, and deaf to nothing: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_text(cls, data: object) -> object:
        """Refuse keys that pydantic has no place for, which would hide the rest of the object."""
        if isinstance(data, Mapping):
            for key in data:
                if not isinstance(key, str) or not _is_text(key):
                    raise refuse(f"is not a key here; {nearest('', cls.model_fields)}", str(key))
        return data


def whole(low: int = 0, high: int = LARGEST) -> BeforeValidator:
    """A validator that takes an integral number in a range: 2 and 2.0, never true or "2"."""
    if high == LARGEST:
        wants = f"a whole number of at least {low}"
    else:
        wants = f"a whole number from {low} to {high}"

    def check(value: object) -> int:
        number = value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise refuse(f"must be {wants}, not {shown(value)}")
        return number

    return BeforeValidator(check)


def _clean(value: str) -> str:
    if "\0" in value:
        raise refuse("must not contain a NUL character")
    return _encodable(value, ())


def _not_blank(value: str) -> str:
    if not value.strip():
        raise refuse("must not be empty")
    return value


def _name(value: str) -> str:
    if not value.isprintable() or value != value.strip() or not 1 <= len(value) <= 256:
        raise refuse(
            "must be a name of 1 to 256 printable characters without spaces around it, "
            f"not {shown(value)}"
        )
    return value


Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True), AfterValidator(_clean)]
"""Any string that a file name can be made of; may be empty."""
FilledText = Annotated[Text, AfterValidator(_not_blank)]
Name = Annotated[Text, AfterValidator(_name)]
Milliseconds = Annotated[int, whole()]
Count = Annotated[int, whole()]
PositiveCount = Annotated[int, whole(1)]


def _json_object(value: object) -> object:
    if not isinstance(value, Mapping):
        raise refuse(f"must be an object, not {shown(value)}")
    return _checked(value, ())


def _checked(value: object, at: tuple[str | int, ...]) -> Json:
    """Copy a JSON value, refusing what JSON has no word for (TOML's dates, NaN, lone halves)."""
    if len(at) > _DEEPEST:
        raise refuse(f"must not be nested deeper than {_DEEPEST} levels", *at)
    match value:
        case None | bool() | int():
            return value
        case str():
            return _encodable(value, at)
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return [_checked(item, (*at, index)) for index, item in enumerate(value)]
        case Mapping():
            return {
                _encodable(str(name), (*at, str(name))): _checked(item, (*at, str(name)))
                for name, item in value.items()
            }
        case _:
            raise refuse(f"must be a value that JSON knows, not {shown(value)}", *at)


def _is_text(text: str) -> bool:
    """Whether there is no half of a surrogate pair in it, which no encoding could write."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _encodable(text: str, at: tuple[str | int, ...]) -> str:
    if not _is_text(text):
        raise refuse("must be a string of whole characters (half a surrogate pair was given)", *at)
    return text


JsonObject = Annotated[dict[str, Any], BeforeValidator(_json_object)]
"""An object of JSON values, copied."""
