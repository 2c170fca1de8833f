import io
import struct
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile
from tests.audio.sounds import RATE, chunk, file_of, fmt, pcm16, pitch, riff, tone

from paraudio.audio import MAX_SAMPLES, decode
from paraudio.audio._sniff import sniff
from paraudio.audio._source import Sink
from paraudio.engines import Stop, Stopped
from paraudio.errors import InvalidRequestError

KINDS = [
    ("WAV", "PCM_U8"),
    ("WAV", "PCM_16"),
    ("WAV", "PCM_24"),
    ("WAV", "PCM_32"),
    ("WAV", "FLOAT"),
    ("WAV", "DOUBLE"),
    ("WAV", "ULAW"),
    ("WAV", "ALAW"),
    ("WAV", "IMA_ADPCM"),
    ("WAVEX", "PCM_16"),
    ("WAVEX", "PCM_24"),
    ("WAVEX", "FLOAT"),
    ("RF64", "PCM_16"),
    ("FLAC", "PCM_16"),
    ("FLAC", "PCM_24"),
    ("MP3", "MPEG_LAYER_III"),
    ("OGG", "VORBIS"),
    ("OGG", "OPUS"),
]


@pytest.mark.parametrize(("container", "subtype"), KINDS)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_format_gives_back_the_sound(container: str, subtype: str, channels: int) -> None:
    sound = tone(1.0)
    data = file_of(np.stack([sound] * channels, axis=1), RATE, container, subtype)
    audio = decode(data)
    rate = 48_000 if subtype == "OPUS" else RATE  # opus knows no other
    assert audio.rate == rate
    assert audio.samples.dtype == np.float32
    assert audio.seconds == pytest.approx(1.0, abs=1152 / RATE)
    assert abs(pitch(audio.samples, rate) - 440) < 2
    assert 0.25 < np.abs(audio.samples).max() < 0.4


@pytest.mark.parametrize(("container", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16")])
def test_lossless_formats_give_back_the_very_samples(container: str, subtype: str) -> None:
    ints = np.arange(-32768, 32768, 7, dtype=np.int16)
    buffer = io.BytesIO()
    soundfile.write(buffer, ints, RATE, format=container, subtype=subtype)
    audio = decode(buffer.getvalue())
    np.testing.assert_array_equal(audio.samples * 32768, ints)


@pytest.mark.parametrize("source", [8000, 11025, 22050, 44100, 48000, 96000, 192000])
def test_any_rate_is_resampled_to_the_one_wanted(source: int) -> None:
    audio = decode(file_of(tone(1.0, source), source), rate=RATE)
    assert audio.rate == RATE
    assert abs(len(audio.samples) - RATE) <= 2
    assert abs(pitch(audio.samples, RATE) - 440) < 2


def test_pieces_are_resampled_as_the_whole_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(tone(3.0, 44100), 44100)
    whole = decode(data, rate=RATE)
    monkeypatch.setattr("paraudio.audio._sndfile.BLOCK_SAMPLES", 1000)
    pieces = decode(data, rate=RATE)
    np.testing.assert_allclose(pieces.samples, whole.samples, atol=1e-6)


def test_channels_are_mixed_to_their_mean() -> None:
    left, right = tone(0.5, hertz=300), tone(0.5, hertz=2000)
    audio = decode(file_of(np.stack([left, right], axis=1), subtype="FLOAT"))
    np.testing.assert_allclose(audio.samples, (left + right) / 2, atol=1e-6)


def test_floats_beyond_full_scale_are_clipped_and_nan_is_silence() -> None:
    wild = np.array([0.5, 7.0, -7.0, np.nan, np.inf, -np.inf] * 100, dtype=np.float32)
    audio = decode(file_of(wild, subtype="FLOAT"))
    np.testing.assert_array_equal(audio.samples[:6], [0.5, 1, -1, 0, 1, -1])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_bytearray_and_memoryview_are_taken(kind: type) -> None:
    assert len(decode(kind(file_of(tone()))).samples) == RATE


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFF000, 0x80000000])
@pytest.mark.parametrize("riff_size", [None, 0, 0xFFFFFFFF])
def test_wav_of_a_pipe_is_read_to_its_end(size: int, riff_size: int | None) -> None:
    sound = tone(0.25)
    audio = decode(riff(fmt(), chunk(b"data", pcm16(sound), size), size=riff_size))
    np.testing.assert_allclose(audio.samples, sound, atol=1e-4)


@pytest.mark.parametrize("size", [0, 2**63 - 1, 2**64 - 1, 2 * RATE])
def test_long_wav_of_a_pipe_is_read_to_its_end(size: int) -> None:
    # As ffmpeg -rf64 always writes it: there is room for the sizes, and nobody came to fill it.
    sizes = chunk(b"ds64", struct.pack("<QQQI", size, size, 0, 0))
    data = riff(sizes, fmt(), chunk(b"data", pcm16(tone()), 0xFFFFFFFF), size=0xFFFFFFFF)
    assert len(decode(b"RF64" + data[4:]).samples) == RATE


def test_chunks_around_the_sound_are_not_heard() -> None:
    sound = tone(0.25)
    data = riff(
        chunk(b"JUNK", b"x" * 27),
        fmt(),
        chunk(b"bext", b"y" * 602),
        chunk(b"LIST", b"INFOISFT\5\0\0\0Lavf\0"),
        chunk(b"data", pcm16(sound)),
        chunk(b"id3 ", b"z" * 33),
    )
    assert len(decode(data).samples) == len(sound)


def test_odd_sized_sound_with_its_pad_byte_is_read() -> None:
    data = riff(fmt(bits=8), chunk(b"data", bytes([128] * 1001)))
    assert len(decode(data).samples) == 1001


def test_last_half_frame_of_a_wav_may_be_missing() -> None:
    data = riff(fmt(channels=2), chunk(b"data", pcm16(tone(0.1))))
    assert len(decode(data[:-3]).samples) == RATE // 20 - 1


def test_id3_tag_before_mp3_and_flac_is_skipped() -> None:
    tag = b"ID3\4\0\0\0\0\2\0" + b"\xff\xfb\x90\0" * 64
    for container in ("MP3", "FLAC"):
        audio = decode(tag + file_of(tone(), container=container))
        assert abs(pitch(audio.samples, RATE) - 440) < 2


def test_mp3_without_a_tag_and_with_junk_in_front_is_found() -> None:
    audio = decode(b"\0\xff\xfb\1junk" * 40 + file_of(tone(), container="MP3"))
    assert abs(pitch(audio.samples, RATE) - 440) < 2


def test_one_header_in_the_junk_is_no_mp3() -> None:
    junk = b"junk \xff\xfb\x90\x64 and more of it " * 30
    data = junk + file_of(tone(), container="MP3")
    assert sniff(memoryview(data)) == ("mp3", len(junk))
    assert sniff(memoryview(junk * 10)) is None


def _refusals() -> Iterator[tuple[str, bytes, str]]:
    good = file_of(tone())
    yield "empty", b"", "empty"
    yield "one byte", b"\0", "no audio format"
    yield "header without sound", riff(fmt(), chunk(b"data", b"")), "no sound"
    yield (
        "no sound, then tags",
        riff(fmt(), chunk(b"data", b""), chunk(b"LIST", b"x" * 9)),
        "no sound",
    )
    yield "less than a frame", riff(fmt(channels=8), chunk(b"data", b"\0\0")), "no sound"
    yield "bare RIFF", b"RIFF\0\0\0\0WAVE", "before its sound"
    yield "no format", riff(chunk(b"data", pcm16(tone()))), "no format chunk"
    yield "short format", riff(chunk(b"fmt ", b"\1\0"), chunk(b"data", b"xx")), "too short"
    yield "format cut off", riff(fmt())[:30], "broken"
    yield "endless chunks", riff(*[chunk(b"JUNK", b"")] * 2000), "chunks"
    yield "strange codec", riff(fmt(tag=0x7777), chunk(b"data", b"x" * 99)), "wav"
    yield "no channels", riff(fmt(channels=0), chunk(b"data", b"x" * 99)), "wav"
    yield "no rate", riff(fmt(rate=0), chunk(b"data", b"x" * 98)), "wav"
    yield "low rate", riff(fmt(rate=999), chunk(b"data", b"x" * 98)), "Hz"
    yield "high rate", riff(fmt(rate=384_001), chunk(b"data", b"x" * 98)), "Hz"
    yield "many channels", file_of(np.zeros((100, 17), np.float32)), "channels"
    yield "webm", b"\x1aE\xdf\xa3" + b"\0" * 999, "webm"
    yield "m4a", b"\0\0\0\x20ftypM4A " + b"\0" * 999, "mp4"
    yield "aac", (b"\xff\xf1\x50\x80\x02\x1f\xfc" + b"\0" * 10) * 99, "aac"
    yield "adif", b"ADIF" + b"\0" * 999, "ADIF"
    yield "aiff", file_of(tone(), container="AIFF"), "aiff"
    yield "text", b"just some words\n" * 4000, "text"
    yield "JSON", b'{"file": "a.wav"}', "JSON"
    yield "HTML", b"<html>not found</html>", "HTML"
    yield "zip", b"PK\3\4" + good, "zip"
    for part in (20, 50, 99):
        yield f"{part}% of a wav", good[: len(good) * part // 100], "cut off"
        for container, subtype in (("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS")):
            data = file_of(tone(), container=container, subtype=subtype)
            yield (
                f"{part}% of {subtype}",
                data[: len(data) * part // 100],
                "damaged|broken|no sound",
            )
    yield "half an mp3", (data := file_of(tone(4.0), container="MP3"))[: len(data) // 2], "cut off"


@pytest.mark.parametrize(
    ("data", "words"), [pytest.param(data, words, id=name) for name, data, words in _refusals()]
)
def test_what_cannot_be_decoded_is_refused_by_name(data: bytes, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        decode(data)
    assert caught.value.param == "file"
    assert "0x" not in caught.value.message


def test_refusal_of_another_container_names_the_formats_taken() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"wav, flac, mp3, ogg \(vorbis or opus\), webm, m4a or mp4, aac"
    ):
        decode(b"caff" + b"\0" * 999)


def test_refusal_names_the_field_of_the_caller() -> None:
    with pytest.raises(InvalidRequestError, match=r"^voice_ref ") as caught:
        decode(b"", param="voice_ref")
    assert caught.value.param == "voice_ref"


def test_random_megabyte_is_refused_within_a_second() -> None:
    for seed in range(20):
        noise = np.random.default_rng(seed).bytes(1 << 20)
        start = time.perf_counter()
        with pytest.raises(InvalidRequestError):
            decode(noise)
        assert time.perf_counter() - start < 1


def test_worst_case_for_the_mp3_search_is_refused_within_a_second() -> None:
    for data in (b"\xff" * (1 << 20), b"\xff\xfb\x90\0" * (1 << 18), b"ID3\4\0\0\0\0\0\0" * 99_999):
        start = time.perf_counter()
        with pytest.raises(InvalidRequestError):
            decode(data)
        assert time.perf_counter() - start < 1


def test_sound_over_the_longest_taken_is_refused() -> None:
    data = file_of(tone(2.0))
    assert len(decode(data, max_seconds=2.0).samples) == 2 * RATE
    with pytest.raises(InvalidRequestError, match="longer than 1 s"):
        decode(data, max_seconds=1.0)


def test_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = file_of(np.zeros((RATE * 60, 8), np.float32), container="FLAC")
    assert len(bomb) < 200_000
    assert MAX_SAMPLES < 2**31
    read = 0

    def count() -> None:
        nonlocal read
        read += 1

    monkeypatch.setattr("paraudio.audio._decode.MAX_SAMPLES", RATE * 8 * 20)
    with pytest.raises(InvalidRequestError, match="longer than 20 s"):
        decode(bomb, check=count)
    assert read <= RATE * 8 * 20 / (1 << 18) + 2


def test_length_that_the_header_invents_allocates_nothing() -> None:
    data = bytearray(file_of(tone(0.1), container="FLAC"))
    data[21] |= 0x0F  # the total of the stream information: 36 bits from the low half of here
    data[22:26] = b"\xff\xff\xff\xff"
    with pytest.raises(InvalidRequestError):
        decode(bytes(data))


def test_decoding_ends_between_blocks_when_it_is_told_to() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        decode(file_of(tone()), check=stop.check)


@pytest.mark.parametrize(("most", "kept"), [(16_000, 16_000), (22_050, 22_050), (96_000, 48_000)])
def test_no_more_frames_are_kept_than_are_of_use(most: int, kept: int) -> None:
    data = file_of(tone(1.0, 48_000), 48_000)
    audio = decode(data, most_rate=most)
    assert audio.rate == kept
    assert audio.seconds == pytest.approx(decode(data).seconds, abs=0.001)
    assert np.array_equal(audio.samples, decode(data, rate=kept).samples)


@pytest.mark.parametrize("kind", [1, 3, 0xFFFE])
def test_frames_too_small_for_their_samples_are_refused(kind: int) -> None:
    head = struct.pack("<HHIIHH", kind, 2, RATE, RATE * 2, 3, 16)
    with pytest.raises(InvalidRequestError, match="2 samples of 16 bits are 3 bytes"):
        decode(riff(chunk(b"fmt ", head), chunk(b"data", bytes(999))))


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "MP3"])
def test_a_long_sound_is_in_memory_about_once(kind: str) -> None:
    data = file_of(tone(240.0, 44_100), 44_100, kind)
    decode(file_of(tone(), RATE, kind))  # what is loaded for it stays
    tracemalloc.start()
    try:
        samples = decode(data).samples
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1.2 * samples.nbytes


def test_a_sound_that_is_shorter_than_said_keeps_no_more_than_itself() -> None:
    sink = Sink(expected=1_000_000)
    for piece in (tone(), tone(0.5)):
        sink.add(piece)
    samples = sink.samples()
    assert samples.base is None
    np.testing.assert_array_equal(samples, np.concatenate([tone(), tone(0.5)]))


def test_a_sound_that_is_longer_than_said_is_whole() -> None:
    sink = Sink(expected=10)
    for _ in range(9):
        sink.add(tone())
    np.testing.assert_array_equal(sink.samples(), np.tile(tone(), 9))
