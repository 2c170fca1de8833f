"""Fields are read strictly, and each refusal names its field."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paraudio.errors import InvalidRequestError
from paraudio.http._fields import MAX_SEED, MAX_VALUES, Fields, loads, shown

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


def refused(read: Any, *args: Any, **kwargs: Any) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        read(*args, **kwargs)
    return caught.value


@settings(max_examples=40)
@given(JSON)
def test_json_that_is_json_is_read_as_the_library_reads_it(value: Any) -> None:
    assert loads(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary())
def test_any_bytes_are_json_or_a_400(data: bytes) -> None:
    with suppress(InvalidRequestError):
        loads(data)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', '"a" is there twice'),
        ('{"b": {"a": 1, "c": 0, "a": 1}}', '"a" is there twice'),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ("{'a': 1}", "line 1, column 2"),
        ("", "line 1, column 1"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"\\uDC00": 1}', "surrogate"),
        ("[" * 100_000, "nested"),
    ],
)
def test_what_is_no_strict_json_is_refused_with_the_reason(text: str, why: str) -> None:
    assert why in refused(loads, text.encode()).message


@pytest.mark.parametrize("number", ["1" * 401, "-" + "1" * 5_000_000, "0." + "3" * 5_000_000])
def test_a_number_that_is_too_long_to_be_meant_is_refused_with_its_length(number: str) -> None:
    body = refused(loads, f'{{"seed": {number}}}'.encode())
    assert body.message == (
        f"the body holds a number of {len(number)} characters, from {number[:20]} on; "
        "up to 400 are read"
    )
    option = refused(loads, number.encode(), "options")
    assert (option.param, option.message[:21]) == ("options", "options holds a numbe")


@pytest.mark.parametrize("number", ["1e400", "-1E+999", "9" * 380 + ".0"])
def test_a_number_that_only_infinity_can_stand_for_is_refused(number: str) -> None:
    assert "too large" in refused(loads, number.encode()).message


def test_the_longest_whole_number_is_exact() -> None:
    assert loads(b"9" * 400) == 10**400 - 1


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert loads(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_bytes_that_are_no_utf8_are_refused() -> None:
    assert "byte 1 is not UTF-8" in refused(loads, b'"\xff"').message


@pytest.mark.parametrize(
    ("given_seed", "seed"),
    [
        (0, 0),
        (2**53, 2**53),
        (2**53 + 1, 2**53 + 1),
        (2**64 - 1, 2**64 - 1),
        ("0", 0),
        (str(2**53 + 1), 2**53 + 1),
        (str(2**64 - 1), 2**64 - 1),
        (None, None),
    ],
)
def test_a_seed_is_exact(given_seed: object, seed: int | None) -> None:
    document = json.dumps({"seed": given_seed}).encode()
    values = loads(document)
    assert isinstance(values, dict)
    assert Fields(values).seed() == seed


@pytest.mark.parametrize(
    "value",
    [-1, 2**64, "-1", str(2**64), "abc", "", " 1", "1.5", 1.5, 1.0, True, [], {}, "0x1", "\u0661"],
)
def test_what_is_no_seed_is_refused(value: object) -> None:
    error = refused(Fields({"seed": value}).seed)
    assert error.param == "seed"
    assert str(MAX_SEED) in error.message


@pytest.mark.parametrize("value", [True, 1.0, "1", -1, 2**31, [], {}])
def test_json_whole_numbers_are_whole_numbers(value: object) -> None:
    error = refused(Fields({"busy_timeout_ms": value}, prefix="request.").whole, "busy_timeout_ms")
    assert error.param == "request.busy_timeout_ms"


def test_a_form_gives_numbers_and_flags_as_text() -> None:
    form = Fields(
        {"n": "12", "x": "0.5", "yes": "True", "no": "0", "o": '{"a": [1]}', "none": ""}, form=True
    )
    assert form.whole("n") == 12
    assert form.number("x", minimum=0, maximum=1) == 0.5
    assert form.flag("yes") is True
    assert form.flag("no", default=True) is False
    assert form.options("o") == {"a": [1]}
    assert form.whole("none") is None
    assert form.number("none", minimum=0, maximum=1) is None
    assert form.flag("none", default=True) is True
    assert form.seed("none") is None


@pytest.mark.parametrize(
    ("read", "value"),
    [
        ("whole", "1.5"),
        ("whole", "one"),
        ("flag", "yes please"),
        ("options", "{"),
        ("options", "[]"),
    ],
)
def test_a_form_field_of_the_wrong_kind_names_itself(read: str, value: str) -> None:
    assert refused(getattr(Fields({"f": value}, form=True), read), "f").param == "f"


@pytest.mark.parametrize("value", ["0.5", True, float("inf"), "nan", [], 10**400])
def test_json_numbers_are_finite_numbers(value: object) -> None:
    assert refused(Fields({"speed": value}).number, "speed", minimum=0, maximum=4).param == "speed"


def test_null_is_no_field() -> None:
    fields = Fields({"a": None})
    assert fields.text("a") is None
    assert fields.whole("a") is None
    assert fields.options("a") == {}
    assert fields.inner("a") is None
    assert fields.choice("a", ("x",), default="x") == "x"
    assert "a is missing" in refused(fields.filled, "a").message
    assert "a is missing" in refused(fields.items, "a", "a list").message


def test_unknown_fields_are_named_with_the_nearest_or_all_known_ones() -> None:
    error = refused(Fields({"fence": "a", "fense": 1}).only, ("fence", "id"))
    assert error.param == "fense"
    assert "did you mean 'fence'?" in error.message
    assert "known here: fence, id" in refused(Fields({"x": 1}).only, ("id", "fence")).message


@pytest.mark.parametrize("read", ["text", "filled"])
def test_a_string_is_a_string(read: str) -> None:
    assert refused(getattr(Fields({"input": 5}), read), "input").param == "input"


@pytest.mark.parametrize("value", ["", " \n\t"])
def test_a_filled_string_holds_more_than_blanks(value: str) -> None:
    assert refused(Fields({"input": value}).filled, "input").param == "input"


@settings(max_examples=40)
@given(JSON)
def test_what_is_shown_of_a_value_is_short_and_printable(value: Any) -> None:
    text = shown(value)
    assert len(text) <= 60
    assert text.isprintable()


@pytest.mark.parametrize("value", ["1,", "[],", "{},", '"a",'])
def test_a_text_of_very_many_values_is_refused_before_it_is_read(value: str) -> None:
    few = loads(b"[" + value.encode() * (MAX_VALUES // 3) + b"1]")
    assert isinstance(few, list)
    with pytest.raises(InvalidRequestError, match="more than 100000 values"):
        loads(b"[" + value.encode() * (MAX_VALUES + 1) + b"1]")


def test_long_texts_are_no_values() -> None:
    assert loads(b'{"audio": "' + b"A" * 10**6 + b'"}') == {"audio": "A" * 10**6}
