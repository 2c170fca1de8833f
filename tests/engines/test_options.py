"""Options: what is not said is completed, what is wrong is refused by its dotted name."""

from collections.abc import Callable

import pytest

from paraudio.engines import Option, check_options
from paraudio.engines._options import flag_option, number_option, text_option, whole_option
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

SCHEMA = (
    Option(name="count", kind=int, default=4, minimum=1, maximum=16, doc="How many."),
    Option(name="scale", kind=float, default=0.5, minimum=0, doc="How much."),
    Option(name="loud", kind=bool, default=False, doc="Whether."),
    Option(name="shape", kind=str, default="round", choices=("round", "flat"), doc="Which."),
    Option(name="limit", kind=float, default=None, maximum=2, doc="At most."),
    Option(name="label", kind=str, default="", doc="Any words."),
)


def test_what_is_not_said_is_the_default() -> None:
    assert check_options({}, SCHEMA, param="options") == {
        "count": 4,
        "scale": 0.5,
        "loud": False,
        "shape": "round",
        "limit": None,
        "label": "",
    }


def test_what_is_said_is_taken_and_whole_numbers_become_floats() -> None:
    checked = check_options({"scale": 2, "limit": None, "loud": True}, SCHEMA, param="options")
    assert checked["scale"] == 2.0
    assert isinstance(checked["scale"], float)
    assert (checked["limit"], checked["loud"]) == (None, True)


@pytest.mark.parametrize(
    ("name", "value", "wants"),
    [
        ("count", 0, "a whole number from 1 to 16"),
        ("count", 17, "a whole number from 1 to 16"),
        ("count", 1.0, "a whole number from 1 to 16"),
        ("count", True, "a whole number from 1 to 16"),
        ("count", None, "a whole number from 1 to 16"),
        ("scale", -0.1, "a number of at least 0"),
        ("scale", float("nan"), "a number of at least 0"),
        ("scale", "1", "a number of at least 0"),
        ("scale", False, "a number of at least 0"),
        ("limit", 3, "a number of at most 2"),
        ("limit", -(10**399), "a number of at most 2"),
        ("scale", 10**399, "a number of at least 0"),
        ("loud", 1, "true or false"),
        ("shape", "square", "one of round, flat"),
        ("shape", 5, "one of round, flat"),
        ("label", ["x"], "a string"),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_do(name: str, value: Json, wants: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_options({name: value}, SCHEMA, param="load_options")
    assert refused.value.param == f"load_options.{name}"
    assert wants in refused.value.message
    assert repr(value)[:60] in refused.value.message
    assert len(refused.value.message) < 150


def test_a_large_bound_is_told_in_full() -> None:
    wide = Option(name="wide", kind=int, default=0, minimum=0, maximum=2**31 - 1, doc="Much.")
    with pytest.raises(
        InvalidRequestError, match="a whole number from 0 to 2147483647, not 2147483648"
    ):
        check_options({"wide": 2**31}, (wide,), param="options")


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_options({"colour": "red"}, SCHEMA, param="options")
    assert refused.value.param == "options.colour"
    assert "count, label, limit, loud, scale, shape" in refused.value.message
    with pytest.raises(InvalidRequestError, match="known options: none"):
        check_options({"colour": "red"}, (), param="options")


def test_checked_options_are_read_by_kind() -> None:
    options: dict[str, Json] = {"n": 3, "x": 0.5, "b": True, "s": "word"}
    assert whole_option(options, "n") == 3
    assert number_option(options, "x") == 0.5
    assert number_option(options, "n") == 3.0
    assert flag_option(options, "b") is True
    assert text_option(options, "s") == "word"


@pytest.mark.parametrize(
    ("read", "wrong"),
    [(whole_option, True), (number_option, "1"), (flag_option, 1), (text_option, None)],
)
def test_an_option_of_another_kind_is_a_mistake_of_ours(
    read: Callable[[dict[str, Json], str], object], wrong: Json
) -> None:
    with pytest.raises(TypeError, match="option o is"):
        read({"o": wrong}, "o")
