"""A file that grows is playable at its end, and its first bytes do not wait for the rest."""

import io
import math
from contextlib import closing

import av
import numpy as np
import pytest
import soundfile
from tests.audio.sounds import RATE, pitch, tone

from paraudio.audio import FORMATS, decode, encode, open_growing, to_int16
from paraudio.engines import Audio, Samples
from paraudio.errors import InvalidRequestError

COMPRESSED = ["mp3", "flac", "opus", "aac"]


def grown(container: str, pieces: list[Samples], rate: int) -> list[bytes]:
    """What comes out for each piece, and at the end."""
    with closing(open_growing(container, rate)) as file:
        made = [file.push(Audio(piece, rate)) for piece in pieces]
        return [*made, file.end()]


@pytest.mark.parametrize("container", COMPRESSED)
@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 24_000, 48_000, 96_000])
def test_the_whole_is_the_sound_of_its_pieces(container: str, rate: int) -> None:
    sound = tone(5.0, rate)
    cuts = np.cumsum([rate // 3, 1, rate // 2, 0, rate])
    audio = decode(b"".join(grown(container, np.split(sound, cuts), rate)))
    # No frame of a codec says how much of it is filling.
    assert audio.seconds == pytest.approx(5.0, abs=3 * 1024 / min(rate, 48_000))
    assert pitch(audio.samples, audio.rate) == pytest.approx(440, abs=1)
    middle = audio.samples[audio.rate : -audio.rate]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.3 / math.sqrt(2), rel=0.06)


@pytest.mark.parametrize("container", FORMATS)
def test_the_first_sentence_goes_out_before_the_second_comes(container: str) -> None:
    sentence = tone(1.5, 22_050)
    first, _, _ = grown(container, [sentence, sentence], 22_050)
    if container == "pcm":
        assert first == encode(Audio(sentence, 22_050), "pcm")
        return
    # Only what is in work is still held back: a few frames of a codec.
    with av.open(io.BytesIO(first), "r") as file:
        stream = file.streams.audio[0]
        assert sum(frame.samples for frame in file.decode(stream)) / stream.sample_rate > 1.2


@pytest.mark.parametrize("container", ["wav", "mp3", "opus"])
def test_another_library_reads_what_has_grown(container: str) -> None:
    data = b"".join(grown(container, [tone(1.0), tone(1.0)], RATE))
    samples, rate = soundfile.read(io.BytesIO(data))
    assert len(samples) / rate == pytest.approx(2.0, abs=0.1)


def test_a_growing_flac_keeps_each_sample() -> None:
    sound = tone(2.0)
    data = b"".join(grown("flac", np.split(sound, [100, 5000]), RATE))
    np.testing.assert_array_equal(to_int16(decode(data).samples), to_int16(sound))


def test_a_growing_wav_is_one_head_of_unknown_size_and_gapless_sound() -> None:
    pieces = [tone(0.1, hertz=hertz) for hertz in (300, 500, 700)]
    data = b"".join(grown("wav", pieces, RATE))
    assert data[4:8] == data[40:44] == b"\xff\xff\xff\xff"
    assert data.count(b"RIFF") == 1
    np.testing.assert_array_equal(to_int16(decode(data).samples), to_int16(np.concatenate(pieces)))


@pytest.mark.parametrize("container", FORMATS)
def test_growing_gives_equal_bytes_for_equal_pieces(container: str) -> None:
    pieces = [tone(0.5), tone(0.7)]
    assert grown(container, pieces, RATE) == grown(container, pieces, RATE)


@pytest.mark.parametrize("container", FORMATS)
def test_a_file_without_any_sound_is_a_file_too(container: str) -> None:
    (data,) = grown(container, [], RATE)
    if container == "pcm":
        assert data == b""
    elif container != "wav":
        assert decode(data).seconds < 0.2
    else:
        assert soundfile.info(io.BytesIO(data)).frames == 0


@pytest.mark.parametrize("container", FORMATS)
@pytest.mark.parametrize("pushed", [False, True])
def test_it_can_be_closed_at_any_time_and_again(container: str, *, pushed: bool) -> None:
    file = open_growing(container, RATE)
    if pushed:
        file.push(Audio(tone(), RATE))
    file.close()
    file.close()


@pytest.mark.parametrize("container", FORMATS)
def test_a_piece_of_another_rate_is_refused(container: str) -> None:
    with (
        closing(open_growing(container, 22_050)) as file,
        pytest.raises(ValueError, match="22050"),
    ):
        file.push(Audio(tone(), RATE))


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match="one of wav, mp3, flac, opus, aac, pcm,"):
        open_growing("mp9", RATE)


def test_pushing_ends_where_its_check_says_so() -> None:
    def check() -> None:
        raise TimeoutError

    with closing(open_growing("mp3", RATE)) as file, pytest.raises(TimeoutError):
        file.push(Audio(tone(), RATE), check=check)
