"""Files that are made to hurt are refused soon, by name, and without a word on standard error."""

import contextlib
import io
import math
import resource
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.audio.containers import box, container, film, patched, wide_aac, words
from tests.audio.sounds import RATE, file_of, tone

from paraudio.audio import decode
from paraudio.engines import Stop, Stopped
from paraudio.errors import InvalidRequestError

SOUND = tone(0.5, 48_000)
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "100000"}
FTYP = box(b"ftyp", b"isom", words(0))
HUGE = 2**32 - 1
ENDLESS = b"\x01" + b"\xff" * 7


def m4a() -> bytes:
    return container("ipod", "aac", SOUND, rate=48_000)


def mov() -> bytes:
    return container("mov", "pcm_s16le", SOUND, rate=48_000)


def fragments() -> bytes:
    return container("mp4", "aac", SOUND, rate=48_000, options=FRAGMENTS)


def webm() -> bytes:
    return container("webm", "libopus", SOUND, rate=48_000, piped=True)


def adts() -> bytes:
    return container("adts", "aac", np.zeros(48_000, np.float32), rate=48_000)


def _claims() -> Iterator[tuple[str, bytes, str]]:
    """Small files that say that they are long, or that their tables are."""
    data = patched(patched(m4a(), b"stsz", 4, 1), b"stsz", 8, HUGE)
    yield "mp4 table of equal pieces", patched(data, b"stsc", 12, HUGE), "tables list more than"
    yield "mp4 table of chunks", patched(mov(), b"stsc", 12, HUGE), "tables list more than"
    data = fragments()
    yield "mp4 fragment", patched(data, b"trun", 4, HUGE), "tables list more than"
    at = data.index(b"trun") + 4
    bare = data[:at] + words(0, 10**9) + data[at + 8 :]
    yield "mp4 fragment of nothing", bare, "tables list more than"
    at = data.index(b"trun") + 4
    many = data[:at] + words(0, 10**6) + data[at + 8 :]
    yield "mp4 fragment of hours", many, "longer than 14400 s|more than 150 samples|broken mp4"
    yield "mp4 of edits", patched(m4a(), b"elst", 4, HUGE), "tables list more than"
    packed = box(b"cmvd", words(0xFFFFFFF), zlib.compress(bytes(10**7)))
    yield "packed head", FTYP + box(b"moov", box(b"cmov", packed)), "compressed"
    yield "many boxes", FTYP + box(b"free") * 400_000, "more than 300000 boxes"
    yield "many tracks", FTYP + box(b"moov", box(b"trak") * 20_000), "broken"
    deep = [struct.pack(">I4s", 8 * (20_000 - at), b"moov") for at in range(20_000)]
    yield "boxes in boxes", FTYP + b"".join(deep), "broken"
    kinds = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"udta", b"meta")
    mixed = [struct.pack(">I4s", 8 * (20_000 - at), kinds[at % 8]) for at in range(20_000)]
    yield "all kinds of boxes in boxes", FTYP + b"".join(mixed), "broken|no sound"
    head = webm()[: webm().index(b"\x1f\x43\xb6\x75")]
    yield "clusters in clusters", head + (b"\x1f\x43\xb6\x75" + ENDLESS) * 20_000, "webm|no sound"
    yield "tracks in tracks", head[:40] + (b"\x16\x54\xae\x6b" + ENDLESS) * 20_000, "webm|no sound"
    late = head + b"\x1f\x43\xb6\x75" + ENDLESS + b"\xe7\x84" + words(20_000_000)
    yield "webm of hours", late + webm()[len(head) + 12 :], "longer than 14400 s"
    yield "aac of hours", adts() + _frame_of(adts()) * 700_000, "longer than 14400 s"
    flac = bytearray(container("flac", "flac", SOUND, rate=48_000))
    flac[21] |= 0x0F
    yield "flac of hours", bytes(flac), "longer than 14400 s"
    yield "flac of many channels", _packed_flac(), "more than 150 samples"


def _frame_of(data: bytes) -> bytes:
    """The shortest of the first frames of bare aac."""
    frames, at = [], 0
    while at < len(data):
        size = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
        frames.append(data[at : at + size])
        at += size
    return min(frames[2:], key=len)


def _packed_flac(seconds: int = 120, *, told: int | None = None) -> bytes:
    """Silence of eight channels, whose head may say another length."""
    sink = io.BytesIO()
    silence = np.zeros((48_000, 8), np.int16)
    with soundfile.SoundFile(sink, "w", 48_000, 8, format="FLAC", subtype="PCM_16") as file:
        for _ in range(seconds):
            file.write(silence)
    data = bytearray(sink.getvalue())
    if told is not None:
        data[21] &= 0xF0
        data[22:26] = words(told)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "why"), [pytest.param(data, why, id=name) for name, data, why in _claims()]
)
def test_a_small_file_that_claims_much_is_refused_soon(data: bytes, why: str) -> None:
    start = time.thread_time()  # a second at most where this was written
    with pytest.raises(InvalidRequestError, match=why) as caught:
        decode(data)
    assert time.thread_time() - start < 10
    assert caught.value.param == "file"


LONG = tone(3.0, 48_000)
TOLD = {
    "wav": file_of(LONG, 48_000),
    "mp3": file_of(LONG, 48_000, "MP3"),
    "mp3 of a pipe": container("mp3", "libmp3lame", LONG, rate=48_000, options={"write_xing": "0"}),
    "flac": file_of(LONG, 48_000, "FLAC"),
    "ogg": file_of(LONG, 48_000, "OGG", "OPUS"),
    "webm": container("webm", "libopus", LONG, rate=48_000),
    "webm of a pipe": container("webm", "libopus", LONG, rate=48_000, piped=True),
    "m4a": container("ipod", "aac", LONG, rate=48_000),
    "mp4 in fragments": container("mp4", "aac", LONG, rate=48_000, options=FRAGMENTS),
    "aac": container("adts", "aac", LONG, rate=48_000),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_too_long_is_known_before_it_is_unpacked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decode(TOLD[name], max_seconds=3.5).seconds == pytest.approx(3.0, abs=0.1)

    def unpack(*_: object) -> None:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr("paraudio.audio._decode._read", unpack)
    with pytest.raises(InvalidRequestError, match="longer than 1 s"):
        decode(TOLD[name], max_seconds=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="it measures in the units of Linux")
@pytest.mark.parametrize("hider", [b"stsd", b"abcd", b"udta", b"free"])
def test_a_table_that_hides_takes_no_memory(hider: bytes) -> None:
    data = m4a()
    at = data.index(b"stsz") - 4
    (size,) = struct.unpack_from(">I", data, at)
    many = 30_000_000
    hidden = box(hider, box(b"stsz", words(0, 1, many)))
    if hider == b"stsd":
        # Behind the fields of the entry, where its extensions are.
        data = data.replace(b"stsz", b"none")
        at = data.index(b"esds") - 4
        size, hidden = 0, box(b"stsz", words(0, 1, many))
    names = (b"stbl", b"minf", b"mdia", b"trak", b"moov")
    for name in (b"mp4a", b"stsd", *names) if hider == b"stsd" else names:
        place = data.rindex(name, 0, at) - 4
        (was,) = struct.unpack_from(">I", data, place)
        data = data[:place] + words(was + len(hidden) - size) + data[place + 4 :]
    data = patched(data[:at] + hidden + data[at + size :], b"stsc", 12, many)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(InvalidRequestError):
        decode(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_a_flac_that_says_too_little_is_refused_where_it_goes_on() -> None:
    with pytest.raises(InvalidRequestError, match="more than it says"):
        decode(_packed_flac(20, told=48_000))


def test_a_flac_that_says_nothing_is_refused_before_it_has_filled_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paraudio.audio._decode.FREE_SAMPLES", 2**20)
    with pytest.raises(InvalidRequestError, match="more than 150 samples"):
        decode(_packed_flac(20, told=0))


def test_a_webm_whose_clock_stands_still_is_counted_by_its_sound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = webm()
    at = data.index(b"\x1f\x43\xb6\x75")
    block = b"\xa3\x86\x81\0\0\x80\x1b\x02"  # twice 60 ms of nothing, at time 0
    monkeypatch.setattr("paraudio.audio._decode.FREE_SAMPLES", 2**20)
    with pytest.raises(InvalidRequestError, match="more than 150 samples"):
        decode(data[:at] + b"\x1f\x43\xb6\x75" + ENDLESS + b"\xe7\x81\0" + block * 1000)


@pytest.mark.parametrize("channels", [1, 7, 8, 15])
def test_channels_that_lie_apart_are_read_however_many_there_are(channels: int) -> None:
    assert decode(wide_aac(channels)).seconds == pytest.approx(20 * 1024 / 48_000)


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_no_sound_are_clipped_or_silent() -> None:
    odd = np.array([math.nan, math.inf, -math.inf, 1e300, -1e300, 0.5])
    made = container("matroska", "pcm_f64le", odd, layout="stereo")
    assert decode(made).samples.tolist() == [0, 1, -1, 1, -1, 0.5]


def test_work_that_takes_too_long_is_ended() -> None:
    with pytest.raises(InvalidRequestError, match="longer than 0 s to decode"):
        decode(container("ipod", "aac", tone(5.0)), max_work_s=0.0)


def test_the_tables_of_a_large_mp4_are_left_when_nobody_waits() -> None:
    stop = Stop()
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks > 5:
            stop.set()
        stop.check()

    with pytest.raises(Stopped):
        decode(FTYP + box(b"free") * 200_000, check=check)
    assert looks == 6


def test_nothing_is_opened_that_a_file_refers_to(tmp_path: Path) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(file_of(tone(1.0)))
    path = str(secret)
    for text in (
        f"#EXTM3U\n#EXTINF:1,\n{path}\n#EXT-X-ENDLIST\n",
        f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{path}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile {path}\n",
        f"ffconcat version 1.0\nfile 'subfile,,start,0,end,0,,:{path}'\n",
        f"file:{path}",
        f"concat:{path}|{path}",
        f"<MPD><Period><BaseURL>file://{path}</BaseURL></Period></MPD>",
        f"v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\na={path}\n",
    ):
        for front in (b"", b"ID3\4\0\0\0\0\0\0", FTYP, b"\x1aE\xdf\xa3\x80", b"fLaC"):
            with pytest.raises(InvalidRequestError):
                decode(front + text.encode())


def test_a_movie_whose_sound_lies_in_another_file_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.mov"
    secret.write_bytes(mov())
    data = mov()
    at = data.index(b"dref") - 4
    (size,) = struct.unpack_from(">I", data, at)
    link = box(b"url ", words(0), f"file://{secret}\0".encode())
    other = box(b"dref", words(0, 1), link)
    # All boxes around it grow; the sound itself is taken away.
    for name in (b"dinf", b"minf", b"mdia", b"trak", b"moov"):
        place = data.rindex(name, 0, at) - 4
        (was,) = struct.unpack_from(">I", data, place)
        data = data[:place] + words(was + len(other) - size) + data[place + 4 :]
    data = data[:at] + other + data[at + size :]
    movie = box(b"ftyp", b"qt  ", words(0)) + box(b"mdat") + data[data.index(b"moov") - 4 :]
    # What the offsets point at in this file is no more than its own tables.
    assert len(decode(movie).samples) < len(movie) < RATE // 10


@pytest.mark.parametrize("make", [m4a, mov, fragments, webm, adts, film])
def test_broken_files_leave_standard_error_alone(
    make: object, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(make)
    data = bytearray(make())
    for at in range(0, len(data), 97):
        data[at] ^= 0x55
    for broken in (bytes(data), bytes(data[: len(data) // 2]), make()[: len(data) // 3]):
        with contextlib.suppress(InvalidRequestError):
            decode(broken)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")
