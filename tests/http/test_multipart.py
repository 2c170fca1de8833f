"""Forms are read whatever their pieces, their order and their names are."""

from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.client import form

from paraudio.errors import InvalidRequestError, PayloadTooLargeError, UnsupportedMediaTypeError
from paraudio.http import _multipart
from paraudio.http._multipart import Form, FormParser, Upload, boundary_of

BASE64_PART = (
    b'--x-boundary\r\nContent-Disposition: form-data; name="file"\r\n'
    b"Content-Transfer-Encoding: base64\r\n\r\nQUJD\r\n--x-boundary--\r\n"
)
LATIN1_FIELD = (
    b'--x-boundary\r\nContent-Disposition: form-data; name="model"\r\n\r\n\xff\r\n'
    b"--x-boundary--\r\n"
)


def parsed(body: bytes, headers: dict[str, str], sizes: Iterable[int] = ()) -> Form:
    parser = FormParser(boundary_of(headers["content-type"]))
    at = 0
    for size in sizes:
        parser.feed(body[at : at + size])
        at += size
    parser.feed(body[at:])
    return parser.finish()


@given(st.binary(max_size=300), st.lists(st.integers(1, 50)))
def test_a_file_comes_out_as_it_went_in_however_it_is_cut(data: bytes, sizes: list[int]) -> None:
    body, headers = form(("model", None, b"m"), ("file", "a.wav", data))
    with parsed(body, headers, sizes) as read:
        assert bytes(read.files[0].view()) == data
        assert read.fields == {"model": ["m"]}


def test_parts_may_come_in_any_order_and_names_in_any_script() -> None:
    body, headers = form(
        ("file", "Übung 音声.wav", b"sound"),
        ("prompt", None, "größe".encode()),
        ("model", None, b"m"),
    )
    with parsed(body, headers) as read:
        assert read.files[0].filename == "Übung 音声.wav"
        assert read.values() == {"prompt": "größe", "model": "m"}


def test_a_latin1_file_name_is_a_file_name() -> None:
    body, headers = form(("file", "NAME", b"sound"))
    with parsed(body.replace(b"NAME", "é.wav".encode("latin-1")), headers) as read:
        assert read.files[0].filename == "é.wav"


@pytest.mark.parametrize(
    ("name", "read_as"),
    [
        (b"filename*=utf-8''na%C3%AFve.wav", "naïve.wav"),  # older requests and urllib3
        (b"FileName* = UTF-8'de'na%C3%AFve.wav", "naïve.wav"),
        (b"filename*=iso-8859-1''na%EFve.wav", "naïve.wav"),
        (b"filename*=punycode''na%EFve.wav", "na\ufffdve.wav"),
        (b"filename*=utf-8''", ""),
        (b"filename=plain.wav; filename*=utf-8''na%C3%AFve.wav", "plain.wav"),  # as .NET does
    ],
)
def test_a_file_name_may_come_in_the_coding_of_mail(name: bytes, read_as: str) -> None:
    body, headers = form(("recording", "NAME", b"\xff\xfe"))
    with parsed(body.replace(b'filename="NAME"', name), headers) as read:
        [upload] = read.files
        assert (upload.filename, upload.named) == (read_as, True)
        assert bytes(upload.view()) == b"\xff\xfe"


def test_a_quoted_boundary_is_a_boundary() -> None:
    body, headers = form(("file", "a", b"sound"), boundary="b d'(x)", quoted=True)
    with parsed(body, headers) as read:
        assert bytes(read.files[0].view()) == b"sound"


def test_the_file_field_without_a_file_name_is_a_file() -> None:
    body, headers = form(("file", None, b"\xff\xfe"))
    with parsed(body, headers) as read:
        assert bytes(read.files[0].view()) == b"\xff\xfe"
        assert read.fields == {}


def test_a_field_that_comes_again_keeps_every_value() -> None:
    body, headers = form(
        ("timestamp_granularities[]", None, b"word"),
        ("timestamp_granularities[]", None, b"segment"),
    )
    with parsed(body, headers) as read:
        assert read.fields["timestamp_granularities[]"] == ["word", "segment"]


def test_large_files_go_to_disk_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_multipart, "MEMORY_BYTES", 1000)
    first, second = b"a" * 800, b"b" * 800
    body, headers = form(("file", "1", first), ("file", "2", second))
    read = parsed(body, headers, [100] * 16)
    assert [upload.in_memory for upload in read.files] == [800, 0]
    assert [bytes(upload.view()) for upload in read.files] == [first, second]
    assert [upload.size for upload in read.files] == [800, 800]
    read.close()
    read.close()
    assert [bytes(upload.view()) for upload in read.files] == [b"", b""]


def test_a_file_on_disk_can_be_closed_while_a_view_of_it_lives() -> None:
    upload = Upload("file", "a")
    upload.write(b"abc")
    upload.to_disk()
    view = upload.view()
    upload.close()
    assert bytes(view) == b"abc"


@pytest.mark.parametrize("cut", [3, 4, 8, 30, 60])
def test_a_form_that_ends_early_is_refused(cut: int) -> None:
    body, headers = form(("file", "a", b"sound"))
    with pytest.raises(InvalidRequestError):
        parsed(body[:-cut], headers)


@pytest.mark.parametrize(
    "body",
    [
        b"not a form at all",
        b"--x-boundary\r\nContent-Disposition: form-data\r\n\r\nx\r\n--x-boundary--\r\n",
        b'--x-boundary\r\nContent-Disposition: attachment; name="a"\r\n\r\nx\r\n--x-boundary--\r\n',
        b"--x-boundary\r\n\r\nx\r\n--x-boundary--\r\n",
        BASE64_PART,
        LATIN1_FIELD,
    ],
)
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        parsed(body, {"content-type": "multipart/form-data; boundary=x-boundary"})


@given(st.binary(max_size=200))
def test_any_bytes_are_a_form_or_a_400(data: bytes) -> None:
    with suppress(InvalidRequestError):
        parsed(b"--b\r\n" + data, {"content-type": "multipart/form-data; boundary=b"}).close()


def test_other_content_types_are_415() -> None:
    with pytest.raises(UnsupportedMediaTypeError, match=r"form-data, not 'application/json'"):
        boundary_of("application/json; boundary=x")


@pytest.mark.parametrize("mark", ["", "; boundary=", "; boundary=" + "x" * 300])
def test_a_missing_or_overlong_boundary_is_refused(mark: str) -> None:
    with pytest.raises(InvalidRequestError):
        FormParser(boundary_of("multipart/form-data" + mark))


def test_a_text_field_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_multipart, "MAX_FIELD_BYTES", 10)
    body, headers = form(("prompt", None, b"x" * 11))
    with pytest.raises(PayloadTooLargeError) as caught:
        parsed(body, headers)
    assert caught.value.param == "prompt"


def test_all_text_fields_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_multipart, "MAX_FIELD_BYTES", 10)
    sound = ("file", "a", b"x" * 100)
    body, headers = form(("a", None, b"x" * 4), sound, ("b", None, b"x" * 6))
    assert parsed(body, headers).fields == {"a": ["xxxx"], "b": ["xxxxxx"]}
    body, headers = form(("a", None, b"x" * 4), sound, ("b", None, b"x" * 7))
    with pytest.raises(PayloadTooLargeError) as caught:
        parsed(body, headers)
    assert caught.value.param == "b"


@pytest.mark.parametrize("head", [b"X: " + b"a" * 10**6, b"".join([b"X: a\r\n"] * 1000)])
def test_the_head_of_a_part_has_a_bound(head: bytes) -> None:
    parser = FormParser(b"b")
    with pytest.raises(InvalidRequestError):
        parser.feed(b"--b\r\n" + head)


def test_the_number_of_parts_has_a_bound() -> None:
    body, headers = form(*[("a", None, b"")] * (_multipart.MAX_PARTS + 1))
    with pytest.raises(PayloadTooLargeError):
        parsed(body, headers)
