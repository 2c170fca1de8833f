import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.audio.containers import container
from tests.audio.sounds import chunk, file_of, fmt, pcm16, riff, tone

from paraudio.audio import decode
from paraudio.errors import InvalidRequestError

SOUND = tone(0.1)
FILES = [
    file_of(SOUND),
    file_of(SOUND, subtype="FLOAT"),
    file_of(np.stack([SOUND, SOUND], axis=1), container="WAVEX", subtype="PCM_24"),
    file_of(SOUND, subtype="MS_ADPCM"),
    file_of(SOUND, container="RF64"),
    file_of(SOUND, container="FLAC"),
    file_of(SOUND, container="MP3"),
    file_of(SOUND, container="OGG", subtype="VORBIS"),
    file_of(SOUND, container="OGG", subtype="OPUS"),
]
MAGICS = [b"", b"RIFF\0\0\0\0WAVE", b"RF64\xff\xff\xff\xffWAVEds64", b"fLaC\0\0\0\x22", b"OggS\0\2"]
MAGICS += [b"\x1aE\xdf\xa3", b"\0\0\0\x14ftypM4A \0\0\0\0M4A ", b"\0\0\0\x08moov", b"\xff\xf1P\x80"]
MAGICS += [b"\xff\xfb\x90\x64", b"ID3\4\0\0\0\0\0\1", b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0"]


LONG = tone(0.3, 48_000)
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "50000"}
CONTAINERS = {
    "webm": container("webm", "libopus", LONG, rate=48_000, piped=True),
    "webm of vorbis": container(
        "webm", "vorbis", LONG, rate=48_000, layout="stereo", coding={"strict": "-2"}
    ),
    "mkv": container("matroska", "aac", LONG, rate=48_000, picture=True),
    "m4a": container("ipod", "aac", LONG, rate=48_000),
    "alac": container("ipod", "alac", LONG, rate=48_000),
    "mp4 in fragments": container("mp4", "aac", LONG, rate=48_000, options=FRAGMENTS),
    "mp4 of opus": container("mp4", "libopus", LONG, rate=48_000),
    "mov": container("mov", "pcm_s16le", LONG, rate=48_000, picture=True),
    "3gp": container("3gp", "aac", LONG, rate=48_000),
    "aac": container("adts", "aac", LONG, rate=48_000),
    "flac of a pipe": container("flac", "flac", LONG, rate=48_000, piped=True),
}


def _either_sound_or_refusal(data: bytes) -> None:
    audio = None
    with contextlib.suppress(InvalidRequestError):
        audio = decode(data, rate=16_000)
    if audio is not None:
        assert len(audio.samples) > 0
        assert np.isfinite(audio.samples).all()
        assert np.abs(audio.samples).max() <= 1


@given(magic=st.sampled_from(MAGICS), data=st.binary(max_size=3000))
@settings(max_examples=300, deadline=None)
def test_random_bytes_are_sound_or_refused(magic: bytes, data: bytes) -> None:
    _either_sound_or_refusal(magic + data)


@given(
    file=st.sampled_from(FILES),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=20),
    cut=st.one_of(st.just(1.0), st.floats(0, 1)),
)
@settings(max_examples=400, deadline=None)
def test_damaged_files_are_sound_or_refused(
    file: bytes, changes: list[tuple[float, int]], cut: float
) -> None:
    data = bytearray(file)
    for place, value in changes:
        # Most of what decides is in the head, so half of the changes fall there.
        span = min(len(data), 200) if value % 2 else len(data)
        data[min(int(place * span), len(data) - 1)] = value
    _either_sound_or_refusal(bytes(data[: int(cut * len(data))]))


@given(
    shape=st.tuples(
        st.integers(0, 0xFFFF),
        st.integers(0, 40),
        st.sampled_from([0, 1, 4, 8, 16, 24, 32, 64, 65528]),
        st.integers(0, 2**32 // 64),
    ),
    size=st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    names=st.lists(st.sampled_from([b"fmt ", b"data", b"fact", b"ds64", b"LIST"]), max_size=5),
)
@settings(max_examples=300, deadline=None)
def test_wav_heads_of_all_kinds_are_sound_or_refused(
    shape: tuple[int, int, int, int], size: int | None, names: list[bytes]
) -> None:
    tag, channels, bits, rate = shape
    rate = min(rate, (2**32 - 1) // max(1, channels * bits // 8))
    head = fmt(rate, channels, bits, tag) if channels * bits // 8 < 2**16 else fmt(tag=tag)
    extra = [chunk(name, b"\1\0" * 12) for name in names]
    _either_sound_or_refusal(riff(*extra, head, chunk(b"data", pcm16(SOUND), size), *extra))


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_file_cut_off_anywhere_is_a_shorter_sound_or_refused(name: str) -> None:
    data = CONTAINERS[name]
    whole = len(decode(data).samples)
    places = {*range(0, min(len(data), 1500), 7), *range(0, len(data), max(1, len(data) // 150))}
    for place in sorted(places):
        with contextlib.suppress(InvalidRequestError):
            assert 0 < len(decode(data[:place]).samples) <= whole + 2048


@pytest.mark.parametrize("name", CONTAINERS)
@given(
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=20),
    part=st.sampled_from(["head", "tail", "whole"]),
    cut=st.one_of(st.just(1.0), st.floats(0, 1)),
)
@settings(max_examples=40, deadline=None)
def test_damaged_containers_are_sound_or_refused(
    name: str, changes: list[tuple[float, int]], part: str, cut: float
) -> None:
    data = bytearray(CONTAINERS[name])
    # What decides lies at the front or, in an mp4, at the end.
    start = max(0, len(data) - 900) if part == "tail" else 0
    end = min(len(data), 900) if part == "head" else len(data)
    for place, value in changes:
        data[min(start + int(place * (end - start)), len(data) - 1)] = value
    _either_sound_or_refusal(bytes(data[: int(cut * len(data))]))


@given(
    name=st.sampled_from(sorted(CONTAINERS)),
    other=st.sampled_from(sorted(CONTAINERS)),
    at=st.floats(0, 1),
    back=st.floats(0, 1),
)
@settings(max_examples=100, deadline=None)
def test_files_spliced_together_are_sound_or_refused(
    name: str, other: str, at: float, back: float
) -> None:
    first, second = CONTAINERS[name], CONTAINERS[other]
    _either_sound_or_refusal(first[: int(at * len(first))] + second[int(back * len(second)) :])
