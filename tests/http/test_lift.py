"""Long texts of a JSON document come out as the parser would give them."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraudio.errors import InvalidRequestError
from paraudio.http import _fields, _lift
from paraudio.http._fields import Fields, loads
from paraudio.http._lift import LONG, Lifted
from paraudio.http._sources import Encoded, base64_field

LETTERS = "A" * (LONG + 1)


@pytest.fixture
def short() -> Iterator[None]:
    """Lets short texts be long ones, so that many cases are quick."""
    with pytest.MonkeyPatch.context() as patch:
        for room in (_lift, _fields):
            patch.setattr(room, "LONG", 8)
        patch.setattr(_lift, "_SLICE", 5)
        yield


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=30)
    | st.sampled_from(
        ["A" * 9, "A" * 50, 'a"b' * 9, "\\" * 20, '\\"' * 9, "é" * 20, "x\ny" * 9, "\x7f" * 9]
    ),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.usefixtures("short")
@given(value=JSON, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_any_document_is_what_the_parser_alone_would_give(
    value: Any, *, ascii_only: bool, indent: int | None
) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert loads(data) == value


@pytest.mark.usefixtures("short")
@given(st.binary(max_size=60))
def test_any_bytes_are_refused_as_the_parser_alone_refuses_them(data: bytes) -> None:
    data = b'{"a": "' + data + b'"}'
    try:
        wanted: object = json.loads(data.decode())
    except ValueError:
        with pytest.raises(InvalidRequestError):
            loads(data)
    else:
        assert loads(data) == wanted


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "data",
    [
        b'{"a": "AAAAAAAAAAAAAAAAAAAA',
        b'"AAAAAAAAAAAAAAAAAAAA\\"',
        b'{"a": "AAAAAAAA\nAAAAAAAAAAAAAA"}',
        b'{"a": "AAAAAAAAAA\x00AAAAAAAAAA"}',
        b'AAAAAAAAAAAA"AAAAAAAAAAAA"AAAAAAAAAAAA',
        b'{"AAAAAAAAAAAAAAAAAAAA"}',
    ],
)
def test_what_is_no_json_stays_none(data: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        loads(data)


@pytest.mark.usefixtures("short")
def test_deep_nesting_around_a_long_text_is_refused_and_not_an_error_of_ours() -> None:
    for depth in (400, 900, 990, 100_000):
        data = b"[" * depth + b'"AAAAAAAAAAAAAAAAAAAA"' + b"]" * depth
        try:
            loads(data)
        except InvalidRequestError as error:
            assert "nested too deeply" in error.message  # noqa: PT017 - either is right


@pytest.mark.parametrize(
    "text", ['"' * 100, "\\" * 99 + '"', "\\" * 100 + "a", '"\\' * 60], ids=range(4)
)
@pytest.mark.parametrize("most", [3, 10**6])
def test_texts_full_of_marks_are_left_to_the_parser(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch, short: None
) -> None:
    monkeypatch.setattr(_lift, "_MOST_QUOTES", most)
    value = {"a": "A" * 50, "b": [text, "B" * 50], text: 1, "c": "C" * 50}
    assert loads(json.dumps(value).encode()) == value


def test_the_parser_does_not_see_a_long_text() -> None:
    lifted = Lifted(json.dumps({"a": LETTERS, "b": [LETTERS, 1]}).encode())
    assert len(lifted.rest) < 200
    assert lifted.put_back(json.loads(lifted.rest)) == {"a": LETTERS, "b": [LETTERS, 1]}


@given(
    data=st.binary(max_size=200),
    blanks=st.lists(st.tuples(st.integers(0, 300), st.sampled_from(" \n\t\r")), max_size=9),
)
def test_base64_is_decoded_in_pieces_as_at_once(data: bytes, blanks: list[tuple[int, str]]) -> None:
    text = base64.b64encode(data).decode()
    for at, blank in blanks:
        text = text[:at] + blank + text[at:]
    for head in ("", "data:audio/wav;base64,"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("paraudio.http._sources._LETTERS", 7)
            assert Encoded(head + text, "a").bytes() == data


@given(st.text("ABCD=+/ -_é", max_size=30))
def test_what_is_no_base64_at_once_is_none_in_pieces(text: str) -> None:
    def decoded(letters: int) -> bytes | str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("paraudio.http._sources._LETTERS", letters)
            try:
                return bytes(Encoded(text, "a").bytes())
            except InvalidRequestError as error:
                return error.message

    assert decoded(3) == decoded(1000)


def test_base64_over_its_bound_is_refused_where_it_passes_it() -> None:
    text = base64.b64encode(bytes(101)).decode()
    assert len(Encoded(text, "a", 101).bytes()) == 101
    with pytest.raises(InvalidRequestError, match="more than 100 bytes"):
        Encoded(text, "a", 100).bytes()


@pytest.mark.parametrize("head", ["data:", "data:,", "data:audio/wav,", "data:audio/wav;base64"])
def test_a_data_uri_without_base64_is_refused(head: str) -> None:
    with pytest.raises(InvalidRequestError, match="must be a base64 data URI"):
        Encoded(head + "QUJD", "a").bytes()


def test_a_large_recording_in_json_comes_out_as_it_went_in() -> None:
    sound = bytes(range(256)) * 20_000
    body = json.dumps({"model": "m", "audio_base64": base64.b64encode(sound).decode()}).encode()
    fields = loads(body)
    assert isinstance(fields, dict)
    source = base64_field(Fields(fields), "audio_base64")
    assert isinstance(source, Encoded)
    assert source.bytes() == sound
