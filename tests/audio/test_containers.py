"""What browsers, phones and cameras send is heard, at its right length."""

import io
from collections.abc import Callable
from typing import Any

import av
import numpy as np
import pytest
from tests.audio.containers import container, film, for_the_web, patched
from tests.audio.sounds import RATE, pitch, tone

from paraudio.audio import decode
from paraudio.audio._sniff import sniff
from paraudio.engines import Samples, Stop, Stopped
from paraudio.errors import InvalidRequestError

FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "100000"}

FILES: dict[str, Callable[[Samples], bytes]] = {
    "webm with opus": lambda s: container("webm", "libopus", s, rate=48_000),
    "webm with vorbis": lambda s: container(
        "webm", "vorbis", s, rate=48_000, layout="stereo", coding={"strict": "-2"}
    ),
    "webm of a browser": lambda s: container("webm", "libopus", s, rate=48_000, piped=True),
    "webm in live clusters": lambda s: container(
        "webm", "libopus", s, rate=48_000, piped=True, options={"live": "1"}
    ),
    "webm with a picture": lambda s: container("webm", "libopus", s, rate=48_000, picture=True),
    "m4a of a phone": lambda s: container("ipod", "aac", s, rate=48_000),
    "m4a for the web": lambda s: for_the_web(container("ipod", "aac", s, rate=48_000)),
    "m4a in stereo": lambda s: container("ipod", "aac", s, rate=48_000, layout="stereo"),
    "mp4 in fragments": lambda s: container("mp4", "aac", s, rate=48_000, options=FRAGMENTS),
    "mp4 of a browser": lambda s: container(
        "mp4", "libopus", s, rate=48_000, piped=True, options=FRAGMENTS
    ),
    "mp4 with a picture": lambda s: container("mp4", "aac", s, rate=48_000, picture=True),
    "m4a without loss": lambda s: container("ipod", "alac", s, rate=48_000),
    "mov of a camera": lambda s: container("mov", "pcm_s16le", s, rate=48_000, picture=True),
    "3gp": lambda s: container("3gp", "aac", s, rate=48_000),
    "mkv with flac": lambda s: container("matroska", "flac", s, rate=48_000),
    "mkv with plain samples": lambda s: container("matroska", "pcm_s16le", s, rate=48_000),
    "bare aac": lambda s: container("adts", "aac", s, rate=48_000),
    "bare aac behind a tag": lambda s: (
        b"ID3\4\0\0\0\0\0\x0a" + bytes(10) + container("adts", "aac", s, rate=48_000)
    ),
    "flac of a pipe": lambda s: container("flac", "flac", s, rate=48_000, piped=True),
}


@pytest.mark.parametrize("name", FILES)
def test_it_is_heard_at_its_right_length(name: str) -> None:
    sound = tone(2.3, 48_000)
    audio = decode(FILES[name](sound))
    assert audio.rate == 48_000
    # The priming of aac is skipped where the container says so; a frame has no end of its own.
    frame = 0.045 if "bare" in name or "fragments" in name else 0.022
    assert audio.seconds == pytest.approx(2.3, abs=frame)
    assert pitch(audio.samples, 48_000) == pytest.approx(440, abs=1)
    assert 0.25 < np.abs(audio.samples).max() < 0.5


@pytest.mark.parametrize("name", FILES)
def test_it_begins_where_the_sound_began(name: str) -> None:
    click = np.zeros(48_000, np.float32)
    click[24_000:] = tone(0.5, 48_000)
    audio = decode(FILES[name](click))
    loud = int(np.argmax(np.abs(audio.samples) > 0.1)) / 48_000
    late = 0.045 if "bare" in name or "fragments" in name else 0.003
    assert 0.497 < loud < 0.501 + late


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100])
@pytest.mark.parametrize(("kind", "codec"), [("ipod", "aac"), ("matroska", "aac"), ("mov", "alac")])
def test_any_rate_comes_out_at_the_one_wanted(kind: str, codec: str, rate: int) -> None:
    audio = decode(container(kind, codec, tone(1.0, rate), rate=rate), rate=RATE)
    assert audio.rate == RATE
    assert audio.seconds == pytest.approx(1.0, abs=3 * 1024 / rate)
    assert pitch(audio.samples, RATE) == pytest.approx(440, abs=2)


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("mov", "pcm_s16be"),
        ("mov", "pcm_s24le"),
        ("mov", "pcm_s32be"),
        ("mov", "pcm_f32le"),
        ("matroska", "pcm_u8"),
        ("matroska", "pcm_s16le"),
        ("matroska", "flac"),
        ("mov", "alac"),
        ("flac", "flac"),
    ],
)
def test_what_loses_nothing_gives_back_the_samples(kind: str, codec: str) -> None:
    sound = tone(0.5)
    audio = decode(container(kind, codec, sound))
    np.testing.assert_allclose(audio.samples, sound, atol=1 / 64 if codec == "pcm_u8" else 1e-4)


@pytest.mark.parametrize("made", [film(), film("webm", "libvpx"), film("mov", "mpeg4")])
def test_a_video_without_sound_is_a_clear_refusal(made: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="file cannot be decoded: it holds no sound"):
        decode(made)


def test_a_codec_that_is_not_taken_is_a_clear_refusal() -> None:
    made = container("matroska", "wavpack")
    with pytest.raises(InvalidRequestError, match="codec that is not taken"):
        decode(made)


@pytest.mark.parametrize("name", [name for name in FILES if "mkv" not in name])
def test_what_a_phone_writes_behind_the_file_is_no_matter(name: str) -> None:
    made = FILES[name](tone(1.0, 48_000))
    trailer = b"SEFHx" + bytes(20) + b"\x18\0\0\0SEFT"
    if name.startswith("flac"):
        trailer = b"TAG" + bytes(125)
    assert decode(made + trailer).seconds == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("kind", "codec"), [("mp4", "aac"), ("webm", "libopus"), ("mov", "pcm_s16le")]
)
def test_the_eight_channels_of_a_film_are_mixed(kind: str, codec: str) -> None:
    audio = decode(container(kind, codec, tone(1.0, 48_000), rate=48_000, layout="7.1"))
    middle = audio.samples[10_000:40_000]
    assert pitch(middle, 48_000) == pytest.approx(440, abs=3)
    assert np.abs(middle).max() == pytest.approx(0.3, abs=0.05)


def test_a_stream_that_changes_its_channels_and_its_rate_is_read_as_it_changes() -> None:
    bare = {"write_xing": "0"}
    sound = tone(1.0, 48_000)
    parts = [
        container("mp3", "libmp3lame", sound, rate=48_000, options=bare),
        container("mp3", "libmp3lame", sound, rate=48_000, layout="stereo", options=bare),
        container("mp3", "libmp3lame", tone(1.0, 32_000), rate=32_000, options=bare),
    ]
    audio = decode(b"".join(parts))
    assert audio.rate == 48_000
    assert audio.seconds == pytest.approx(3.0, abs=0.2)
    for at in (0.5, 1.5, 2.5):
        middle = audio.samples[round((at - 0.3) * 48_000) : round((at + 0.3) * 48_000)]
        assert pitch(middle, 48_000) == pytest.approx(440, abs=3)
        assert np.abs(middle).max() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    ("layout", "order"), [("5.1", 0x7A_0006), ("6.1", 0x7D_0007), ("7.1", 0x80_0008)]
)
def test_a_mov_whose_channels_have_an_order_of_their_own_is_read(layout: str, order: int) -> None:
    sound = tone(1.0, 48_000)
    made = patched(
        container("mov", "pcm_s16le", sound, rate=48_000, layout=layout), b"chan", 4, order
    )
    for _ in range(3):  # whoever frees twice what holds the order rarely lives that long
        assert np.abs(decode(made).samples - sound).max() <= 2**-14


def test_a_packet_of_far_too_many_frames_is_a_clear_refusal() -> None:
    sink = io.BytesIO()
    with av.open(sink, "w", format="matroska") as file:
        stream: Any = file.add_stream("pcm_u8", rate=RATE, layout="mono")
        stream.codec_context.open()
        packet = av.Packet(bytes(80 << 20))
        packet.stream, packet.pts, packet.dts = stream, 0, 0
        file.mux(packet)
    with pytest.raises(InvalidRequestError, match="frames in one packet are too many"):
        decode(sink.getvalue(), max_seconds=3 * 3600)


def test_tags_in_any_encoding_are_no_matter() -> None:
    made = container("ipod", "aac", options={"movflags": "use_metadata_tags"})
    tag = made.replace(b"Lavf", b"\xff\xfe\xe9\x80")
    assert tag != made
    assert decode(tag).seconds == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", FILES)
def test_decoding_ends_between_packets_when_it_is_told_to(name: str) -> None:
    made = FILES[name](tone(8.0, 48_000))
    stop = Stop()
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks > 3:
            stop.set()
        stop.check()

    with pytest.raises(Stopped):
        decode(made, check=check)
    assert looks == 4


def test_a_container_is_known_by_its_bytes() -> None:
    kinds = {name: sniff(memoryview(make(tone(0.2, 48_000)))) for name, make in FILES.items()}
    found = {name: found[0] if found else None for name, found in kinds.items()}
    for name, kind in found.items():
        first = name.split()[0].replace("bare", "aac")
        assert kind == {"m4a": "mp4", "mov": "mp4", "3gp": "mp4", "mkv": "webm"}.get(first, first)
