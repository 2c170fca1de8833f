"""Sound formats against another library, and the track against plain lists."""

import io
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from paraudio.http._realtime_config import Hearing
from paraudio.http._realtime_sound import Format, Frames, Track
from paraudio.http._realtime_utterance import Utterance


@pytest.mark.parametrize(("kind", "subtype"), [("audio/pcmu", "ULAW"), ("audio/pcma", "ALAW")])
def test_telephone_bytes_mean_what_another_library_says(kind: str, subtype: str) -> None:
    every = bytes(range(256))
    raw = {"samplerate": 8000, "channels": 1, "subtype": subtype, "format": "RAW"}
    expected, _ = soundfile.read(io.BytesIO(every), dtype="int16", **raw)
    assert Format(kind, 8000).read(every).tolist() == expected.tolist()


def test_pcm_is_little_endian_and_half_a_frame_is_none() -> None:
    assert Format().read(b"\x01\x00\xff\xff\x00\x80\x07").tolist() == [1, -1, -32768]
    assert Format().frame_bytes == 2
    assert Format("audio/pcmu", 8000).frame_bytes == 1


@given(st.lists(st.integers(0, 7), max_size=12), st.data())
def test_a_track_gives_what_was_put_on_it(sizes: list[int], data: st.DataObject) -> None:
    track, put = Track(), list[int]()
    for size in sizes:
        frames = list(range(len(put), len(put) + size))
        track.append(np.array(frames, dtype=np.int16))
        put += frames
    before = data.draw(st.integers(0, len(put)))
    track.forget(before)
    assert track.end == len(put)
    assert track.start <= before or track.start == track.end == len(put) == before
    start = data.draw(st.integers(track.start, track.end))
    end = data.draw(st.integers(start, track.end))
    assert track.between(start, end).tolist() == put[start:end]


@pytest.mark.parametrize(
    "kept", [Track().append, Utterance("item", 8000, Hearing(), live=True).add]
)
def test_sound_that_comes_frame_by_frame_is_kept_in_few_bytes(
    kept: Callable[[Frames], None],
) -> None:
    count = 20_000
    tracemalloc.start()
    try:
        for _ in range(count):
            kept(Format().read(b"\x01\x00"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 * 2 * count


def test_a_track_that_counts_at_another_rate_goes_on_at_the_same_time() -> None:
    track = Track()
    track.append(np.zeros(24_000, dtype=np.int16))
    track.forget(track.end)
    track.rescale(24_000, 8_000)
    assert (track.start, track.end) == (8_000, 8_000)
