"""Flac: the plain files go to one library, the others to another, and none loses anything."""

import io
import struct
from typing import Any

import numpy as np
import pytest
import soundfile
from tests.audio.containers import container
from tests.audio.sounds import file_of, tone

from paraudio.audio import decode, encode
from paraudio.audio._flac import _last, is_plain
from paraudio.engines import Audio
from paraudio.errors import InvalidRequestError

RATE = 48_000
LONG = tone(3.0, RATE)
PIPED = container("flac", "flac", LONG, rate=RATE, piped=True)
SHORT = tone(0.5, RATE)
WHOLE = file_of(LONG, RATE, "FLAC")


def told(data: bytes, frames: int) -> bytes:
    """The file with another length in its head."""
    changed = bytearray(data)
    changed[21] = changed[21] & 0xF0 | frames >> 32
    changed[22:26] = struct.pack(">I", frames & 0xFFFFFFFF)
    return bytes(changed)


def made(samples: int, *, rate: int = RATE, channels: int = 1, subtype: str = "PCM_16") -> bytes:
    """Noise of so many samples, as libsndfile packs it."""
    noise = np.random.default_rng(samples).uniform(-0.5, 0.5, (samples, channels))
    sink = io.BytesIO()
    soundfile.write(sink, noise, rate, format="FLAC", subtype=subtype)
    return sink.getvalue()


def test_plain_files_of_every_length_and_kind_are_found() -> None:
    for samples in (1, 191, 192, 193, 255, 256, 257, 576, 4095, 4096, 4097, 65_536, 1_000_003):
        assert is_plain(memoryview(made(samples))), samples
    for rate in (8000, 11_025, 12_345, 44_100, 88_210, 96_000, 192_000):
        assert is_plain(memoryview(made(5000, rate=rate))), rate
    assert is_plain(memoryview(made(9000, channels=8, subtype="PCM_24")))


def test_files_of_ffmpeg_and_our_own_are_plain() -> None:
    assert is_plain(memoryview(container("flac", "flac", LONG, rate=RATE)))
    assert is_plain(memoryview(encode(Audio(LONG, RATE), "flac")))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(PIPED, id="of a pipe"),
        pytest.param(told(WHOLE, len(LONG) - 1), id="says one too little"),
        pytest.param(told(WHOLE, len(LONG) + 1), id="says one too much"),
        pytest.param(WHOLE[:-8000], id="cut off"),
        pytest.param(WHOLE[:30], id="cut off in its head"),
        pytest.param(WHOLE[:42], id="nothing but a head"),
    ],
)
def test_a_file_that_is_not_as_its_head_says_is_not_plain(data: bytes) -> None:
    assert not is_plain(memoryview(data))


def test_what_looks_like_a_frame_behind_the_last_one_is_none() -> None:
    # Right marks, wrong checks: numbers of one to seven bytes, and some that are none.
    junk = b"".join(
        b"\xff\xf8\x69\x18" + number + bytes(range(1, 12))
        for number in (b"\0", b"\xc2\x80", b"\xfe" + b"\x80" * 6, b"\x80", b"\xc2\x10", b"\xff")
    )
    for tail in (junk, junk + b"\xff", junk + b"\xff\xf8", junk + b"\xff\xf8\x09\x18\0\0\0\0"):
        assert is_plain(memoryview(WHOLE + tail))
        assert len(decode(WHOLE + tail).samples) == len(LONG)


@pytest.mark.parametrize("second", [WHOLE, file_of(SHORT, RATE, "FLAC")], ids=["same", "other"])
@pytest.mark.parametrize("between", [0, (1 << 20) - len(WHOLE) % (1 << 20) + 40])
def test_a_file_behind_the_file_is_not_passed_over(second: bytes, between: int) -> None:
    data = WHOLE + bytes(between) + second
    assert not is_plain(memoryview(data))
    with pytest.raises(InvalidRequestError, match="flac"):
        decode(data)


def test_a_file_of_nothing_but_marks_is_judged_at_once() -> None:
    mark = b"\xff\xf8\x69\x18\x05\x00"
    looked = 0

    class Counted(bytes):
        """Counts the pieces that are taken of it."""

        def __getitem__(self, at: Any) -> Any:
            nonlocal looked
            looked += 1
            return super().__getitem__(at)

    assert _last(Counted(mark * 40_000)) is None
    assert looked <= 1000


@pytest.mark.parametrize(
    ("rate", "code"),
    [(8000, 4), (44_100, 9), (192_000, 3), (12_000, 12), (12_345, 13), (88_210, 14)],
)
def test_a_file_whose_head_tells_another_rate_than_its_frames_is_not_plain(
    rate: int, code: int
) -> None:
    plain = made(5000, rate=rate)
    first = plain.index(b"\xff\xf8")
    assert plain[first + 2] & 15 == code
    assert is_plain(memoryview(plain))
    changed = plain[:18] + (rate + 1 << 4 | plain[20] & 15).to_bytes(3) + plain[21:]
    assert not is_plain(memoryview(changed))


def test_tags_that_are_broken_do_not_cost_the_sound() -> None:
    made = bytearray(container("flac", "flac", LONG, rate=RATE))
    assert made[42] & 0x7F == 4  # the tags
    made[46:50] = b"\xff" * 4  # who wrote it, in so many letters
    assert is_plain(memoryview(made))
    assert len(decode(bytes(made)).samples) == len(LONG)


def crc(data: bytes, width: int, polynomial: int) -> int:
    """A check of so many bits, as heads (8) and frames (16) carry them."""
    check = 0
    for byte in data:
        check ^= byte << width - 8
        for _ in range(8):
            check = check << 1 ^ (polynomial if check >> width - 1 else 0)
    return check


def coded(number: int) -> bytes:
    """A number as frames carry it: as UTF-8 codes letters."""
    return chr(number).encode()


def frames_of(data: bytes, block: int) -> list[bytes]:
    """The frames of a file of one length, but for the last; all are below 128 here."""
    starts: list[int] = []
    at = -1
    while (at := data.find(b"\xff\xf8", at + 1)) >= 0:
        if data[at + 4] == len(starts):
            starts.append(at)
    assert len(starts) == -(-len(SHORT) // block)
    return [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]


def test_frames_that_count_samples_are_read() -> None:
    plain = file_of(SHORT, RATE, "FLAC")
    block = int.from_bytes(plain[10:12])
    frames = frames_of(plain, block)
    data = plain[: plain.index(frames[0])]
    for number, frame in enumerate(frames):
        extra = {6: 1, 7: 2}.get(frame[2] >> 4, 0)
        head = b"\xff\xf9" + frame[2:4] + coded(number * block) + frame[5 : 5 + extra]
        made = head + bytes([crc(head, 8, 0x107)]) + frame[6 + extra : -2]
        data += made + crc(made, 16, 0x18005).to_bytes(2)
    assert is_plain(memoryview(data))
    np.testing.assert_array_equal(decode(data).samples, decode(plain).samples)


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
def test_each_sample_is_the_same_from_both_libraries(subtype: str) -> None:
    data = made(30_000, channels=2, subtype=subtype)
    other = told(data, 0)
    assert is_plain(memoryview(data))
    assert not is_plain(memoryview(other))
    np.testing.assert_array_equal(decode(data).samples, decode(other).samples)


@pytest.mark.parametrize("data", [PIPED, WHOLE], ids=["of a pipe", "plain"])
@pytest.mark.parametrize("hole", [1, 40, 4000])
def test_a_hole_in_a_flac_is_refused(data: bytes, hole: int) -> None:
    at = len(data) // 2
    damaged = data[:at] + bytes(byte ^ 0x55 for byte in data[at : at + hole]) + data[at + hole :]
    with pytest.raises(InvalidRequestError, match="the flac is damaged or cut off"):
        decode(damaged)


def test_a_part_of_a_stream_keeps_its_places_and_is_read() -> None:
    plain = file_of(SHORT, RATE, "FLAC")
    block = int.from_bytes(plain[10:12])
    frames = frames_of(plain, block)
    head = told(plain, 0)[: plain.index(frames[0])]
    part = decode(head + b"".join(frames[2:])).samples
    np.testing.assert_array_equal(part, decode(plain).samples[2 * block :])
    with pytest.raises(InvalidRequestError, match=f"{block} frames are missing before"):
        decode(head + b"".join(frames[:1] + frames[2:]))
