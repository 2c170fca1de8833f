"""Bytes of a live body to pieces: wherever they are cut, the pieces are the same sound and text."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.sounds import sound_file

from paraudio.audio import from_raw
from paraudio.engines import whole_sentences
from paraudio.errors import InvalidRequestError
from paraudio.http._live_pieces import LONG_SENTENCE, SoundFormat, SoundPieces, TextPieces


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


def spoken(*pieces: bytes) -> list[str]:
    """The texts that are fed, piece by piece of the body."""
    text = TextPieces()
    fed = [told for piece in pieces for told in text.take(piece)]
    return [*fed, *text.end()]


@given(
    st.integers(1, 16),
    st.sampled_from(["s16le", "f32le"]),
    st.binary(max_size=400),
    st.lists(st.integers(0, 1000), max_size=8),
)
def test_sound_is_the_same_wherever_it_is_cut(
    channels: int, kind: str, data: bytes, cuts: list[int]
) -> None:
    form = SoundFormat(8000, channels, kind)
    data = data[: len(data) - len(data) % form.frame_bytes]
    pieces = SoundPieces(form)
    fed = [audio for piece in cut(data, cuts) for audio in pieces.take(piece)]
    fed += pieces.end()
    assert all(audio.rate == 8000 and len(audio.samples) for audio in fed)
    heard = np.concatenate([np.empty(0, np.float32), *(audio.samples for audio in fed)])
    assert heard.dtype == np.float32
    np.testing.assert_array_equal(heard, from_raw(data, kind, channels))


def test_channels_are_mixed_to_their_mean() -> None:
    stereo = np.array([[16384, -16384], [32767, 32767], [0, 16384]], "<i2").tobytes()
    [audio] = SoundPieces(SoundFormat(8000, 2, "s16le")).take(stereo)
    np.testing.assert_allclose(audio.samples, [0, 32767 / 32768, 0.25])


def test_floats_that_are_no_sound_are_tamed() -> None:
    wild = np.array([np.nan, np.inf, -np.inf, 3, 0.5], "<f4").tobytes()
    [audio] = SoundPieces(SoundFormat(8000, 1, "f32le")).take(wild)
    np.testing.assert_array_equal(audio.samples, [0, 1, -1, 1, 0.5])


@pytest.mark.parametrize(("kind", "channels", "left"), [("s16le", 1, 1), ("f32le", 2, 5)])
def test_a_frame_that_is_not_whole_at_the_end_is_an_error(
    kind: str, channels: int, left: int
) -> None:
    form = SoundFormat(8000, channels, kind)
    pieces = SoundPieces(form)
    pieces.take(bytes(form.frame_bytes * 3 + left))
    with pytest.raises(InvalidRequestError, match=f"{left} of the {form.frame_bytes} bytes") as e:
        pieces.end()
    assert e.value.param == "sample_format"


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG"])
@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [3]])
def test_a_file_is_not_taken_for_bare_samples(container: str, cuts: list[int]) -> None:
    pieces = SoundPieces(SoundFormat(8000, 1, "s16le"))
    data = cut(sound_file(container=container), cuts)
    with pytest.raises(InvalidRequestError, match=f"begins like a {container.lower()} file"):
        [pieces.take(piece) for piece in data]


TEXT = "Größe 音声。 One. Two, three! Dr. No has 3.14 of it? 😀 yes"


@given(st.lists(st.integers(0, 1000), max_size=8))
def test_text_loses_nothing_wherever_its_bytes_are_cut(cuts: list[int]) -> None:
    fed = spoken(*cut(TEXT.encode(), cuts))
    assert "".join("".join(fed).split()) == "".join(TEXT.split())


def test_each_sentence_is_given_when_it_is_complete() -> None:
    text = TextPieces()
    given = {piece: text.take(piece.encode()) for piece in ("Hello", " there", ".", " How", " are")}
    assert given == {"Hello": [], " there": [], ".": [], " How": ["Hello there. "], " are": []}
    assert text.take(b" you? ") == ["How are you? "]
    assert text.take("I。See".encode()) == ["I。 "]
    assert text.take(b"\n\nit") == ["See\n\n"]
    assert text.end() == ["it"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", ""),
        ("One", ""),
        ("One.", ""),
        ("One. ", "One."),
        ("It is 3.", ""),
        ("It is 3.14", ""),
        ("Dr. ", ""),
        ("Dr. No", ""),
        ("At 5 p.m. ", ""),
        ("At 5 p.m. we", ""),
        ("At 5 p.m. We", "At 5 p.m."),
        ('He said "no." ', 'He said "no."'),
        ("Wait... ", "Wait..."),
        ("One, two; ", ""),
        ("One! Two? Thr", "One! Two?"),
        ("A line\n\nmore", "A line\n\n"),
        ("音声。つ", "音声。"),
        ("音声。", ""),
    ],
)
def test_a_sentence_is_whole_when_no_further_text_can_change_it(text: str, whole: str) -> None:
    assert text[: whole_sentences(text)] == whole


def test_text_without_an_end_is_cut_between_words() -> None:
    text = "word " * 1000
    fed = spoken(*cut(text.encode(), [7, 900, 3001]))
    assert "".join(fed).rstrip() == text.rstrip()
    assert all(len(piece) <= LONG_SENTENCE for piece in fed)
    assert all(piece.strip().split(" ") == ["word"] * piece.count("word") for piece in fed)
    run = "x" * 1000
    assert [len(piece) for piece in spoken(run.encode())] == [400, 400, 200]


@pytest.mark.parametrize(
    ("pieces", "place"),
    [([b"caf\xe9 au lait"], 3), ([b"a\xc3", b"\xa4b\xff"], 4), ([b"ab", b"\xe2\x82"], 2)],
)
def test_what_is_no_utf8_is_named_by_its_place(pieces: list[bytes], place: int) -> None:
    with pytest.raises(InvalidRequestError, match=f"byte {place} of it is not") as error:
        spoken(*pieces)
    assert error.value.param == "input"


def test_a_byte_order_mark_is_no_text_and_blanks_are_no_pieces() -> None:
    assert spoken(b"\xef\xbb", b"\xbfHi.") == ["Hi."]
    assert spoken(b"  \n\n \n", b"   ") == []
    assert spoken() == []
