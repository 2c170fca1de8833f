import io
import math

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.audio.sounds import RATE, pitch, tone

from paraudio.audio import (
    FORMATS,
    content_type,
    decode,
    encode,
    from_int16,
    resample,
    to_int16,
)
from paraudio.engines import Audio, Stop, Stopped
from paraudio.errors import InvalidRequestError

COMPRESSED = ["mp3", "flac", "opus", "aac"]


def test_wav_is_what_another_library_reads() -> None:
    data = encode(Audio(tone(0.5), RATE), "wav")
    samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == RATE
    np.testing.assert_array_equal(samples, to_int16(tone(0.5)))
    assert soundfile.info(io.BytesIO(data)).subtype == "PCM_16"


def test_pcm_is_little_endian_and_bare() -> None:
    samples = np.array([0, 1 / 32768, -1, 1], dtype=np.float32)
    assert encode(Audio(samples, RATE), "pcm") == b"\0\0\1\0\0\x80\xff\x7f"


def test_encoded_sound_decodes_to_the_same() -> None:
    sound = Audio(from_int16(to_int16(tone())), RATE)
    back = decode(encode(sound, "wav"))
    np.testing.assert_array_equal(back.samples, sound.samples)


def test_each_format_has_a_content_type() -> None:
    assert {name: content_type(name) for name in FORMATS} == {
        "aac": "audio/aac",
        "flac": "audio/flac",
        "mp3": "audio/mpeg",
        "opus": "audio/ogg",
        "pcm": "audio/pcm",
        "wav": "audio/wav",
    }


@pytest.mark.parametrize("container", COMPRESSED)
@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 96000])
def test_compressed_sound_is_the_same_tone_of_the_same_length(container: str, rate: int) -> None:
    back = decode(encode(Audio(tone(10, rate), rate), container))
    assert len(back.samples) / back.rate == pytest.approx(10, abs=3 * 1024 / min(rate, 48_000))
    assert pitch(back.samples, back.rate) == pytest.approx(440, abs=1)
    middle = back.samples[back.rate : -back.rate]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(
        0.3 / math.sqrt(2), rel=0.06
    )  # LAME turns it down


@pytest.mark.parametrize("container", FORMATS)
def test_no_sound_is_a_whole_file_too(container: str) -> None:
    data = encode(Audio(np.empty(0, np.float32), RATE), container)
    if container == "wav":
        assert soundfile.info(io.BytesIO(data)).frames == 0
    elif container != "pcm":
        assert decode(data).seconds < 0.2


def test_flac_keeps_each_sample() -> None:
    sound = Audio(from_int16(to_int16(tone(10))), RATE)
    data = encode(sound, "flac")
    np.testing.assert_array_equal(decode(data).samples, sound.samples)
    assert len(data) < 2 * len(sound.samples)


@pytest.mark.parametrize(
    ("container", "subtype"), [("mp3", "MPEG_LAYER_III"), ("flac", "PCM_16"), ("opus", "OPUS")]
)
def test_a_compressed_file_is_what_its_name_says(container: str, subtype: str) -> None:
    assert soundfile.info(io.BytesIO(encode(Audio(tone(), RATE), container))).subtype == subtype


@pytest.mark.parametrize("container", FORMATS)
def test_equal_sounds_give_equal_bytes(container: str) -> None:
    sound = Audio(tone(3.0, 22_050), 22_050)
    assert encode(sound, container) == encode(sound, container)


@pytest.mark.parametrize("container", COMPRESSED)
def test_a_file_says_nothing_about_who_made_it(container: str) -> None:
    data = encode(Audio(tone(), RATE), container)
    with av.open(io.BytesIO(data)) as file:
        assert file.metadata == {}
        assert file.streams.audio[0].metadata == {}
    assert b"paraudio" not in data


@pytest.mark.parametrize("container", COMPRESSED)
def test_compressing_ends_where_its_check_says_so(container: str) -> None:
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        encode(Audio(tone(60), RATE), container, check=check)
    assert looks == 3


@pytest.mark.parametrize("container", ["", "WAV", "mp9", "exe", "../wav"])
def test_unknown_format_is_refused_by_name(container: str) -> None:
    for call in (lambda: content_type(container), lambda: encode(Audio(tone(), RATE), container)):
        with pytest.raises(
            InvalidRequestError, match="one of wav, mp3, flac, opus, aac, pcm,"
        ) as caught:
            call()
        assert caught.value.param == "response_format"


def test_all_16_bit_values_survive_the_way_to_float_and_back() -> None:
    ints = np.arange(-32768, 32768).astype(np.int16)
    np.testing.assert_array_equal(to_int16(from_int16(ints)), ints)


@given(arrays.arrays(np.float32, st.integers(0, 50), elements=st.floats(width=32, allow_nan=True)))
def test_no_float_wraps_around(samples: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
    ints = to_int16(samples)
    for sample, value in zip(samples.tolist(), ints.tolist(), strict=True):
        if math.isnan(sample):
            assert value == 0
        elif sample >= 1:
            assert value == 32767
        elif sample <= -1:
            assert value == -32768
        else:
            assert abs(value - sample * 32768) <= 1


def test_conversion_leaves_its_input_alone() -> None:
    samples = np.array([np.nan, 9.0], dtype=np.float32)
    to_int16(samples)
    assert np.isnan(samples[0])
    assert samples[1] == 9


def test_resampling_to_the_same_rate_is_the_same_object() -> None:
    sound = Audio(tone(), RATE)
    assert resample(sound, RATE) is sound


@pytest.mark.parametrize("rate", [8000, 22050, 48000])
def test_resampling_there_and_back_keeps_a_tone(rate: int) -> None:
    sound = Audio(tone(), RATE)
    back = resample(resample(sound, rate), RATE)
    assert abs(len(back.samples) - RATE) <= 2
    middle = slice(2000, 14000)
    np.testing.assert_allclose(back.samples[middle], sound.samples[middle], atol=2e-3)


def test_long_sound_is_resampled_in_blocks_as_if_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Audio(tone(1.0, 44_100), 44_100)
    whole = resample(sound, RATE)
    monkeypatch.setattr("paraudio.audio._resample._BLOCK", 1000)
    np.testing.assert_allclose(resample(sound, RATE).samples, whole.samples, atol=1e-6)
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        resample(sound, RATE, check=stop.check)


def test_resampling_never_leaves_full_scale() -> None:
    square = np.sign(tone(1.0, 44100)).astype(np.float32)
    assert np.abs(resample(Audio(square, 44100), RATE).samples).max() <= 1


def test_resampling_nothing_gives_nothing() -> None:
    assert len(resample(Audio(np.empty(0, np.float32), 44100), RATE).samples) == 0


@pytest.mark.parametrize("rate", [0, -1, 999, 384_001])
def test_rate_out_of_range_is_a_fault_of_the_program(rate: int) -> None:
    with pytest.raises(ValueError, match=str(rate)):
        resample(Audio(tone(), RATE), rate)
