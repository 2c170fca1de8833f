from collections.abc import Callable

import numpy as np
import pytest
from pocketsphinx import Vad

from paraudio.engines import Samples, Stop, Stopped
from paraudio.engines.families._spans import RATE, Span
from paraudio.engines.families._speech_gate import FRAME, _blocks, hearing_gain, speech_spans

SECONDS = 5
AT = np.arange(SECONDS * RATE) / RATE


def real_detector() -> Callable[[bytes], bool]:
    detector: Callable[[bytes], bool] = Vad(3, RATE, 0.03).is_speech
    return detector


def loud(frame: bytes) -> bool:
    """A detector that hears speech in what is loud."""
    return bool(np.abs(np.frombuffer(frame, "<i2").astype(np.int32)).mean() > 1000)


def noise(decibels: float) -> Samples:
    rng = np.random.default_rng(3)
    return np.asarray(rng.normal(0, 10 ** (decibels / 20), SECONDS * RATE), dtype=np.float32)


def syllables(level: float = 0.3, seconds: float = 1.0) -> Samples:
    """Something with the ups and downs of speech: a tone that swells four times a second."""
    at = np.arange(round(seconds * RATE)) / RATE
    swell = np.abs(np.sin(2 * np.pi * 2 * at))
    return np.asarray(level * swell * np.sin(2 * np.pi * 300 * at), dtype=np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), dtype=np.float32)


def spans(samples: Samples, detector: Callable[[bytes], bool] = loud) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in speech_spans(samples, detector, Stop())]


@pytest.mark.parametrize(
    "sound",
    [
        pytest.param(silence(0), id="nothing"),
        pytest.param(silence(1 / RATE), id="one sample"),
        pytest.param(silence(SECONDS), id="silence"),
        pytest.param(np.full(SECONDS * RATE, 0.1, np.float32), id="an offset"),
        *[pytest.param(noise(level), id=f"noise at {level} dB") for level in range(-80, -10, 10)],
        pytest.param((0.1 * np.sin(2 * np.pi * 50 * AT)).astype(np.float32), id="hum"),
        pytest.param((0.1 * np.sin(2 * np.pi * 440 * AT)).astype(np.float32), id="a tone"),
        pytest.param((noise(-40) + 0.2 * np.sin(2 * np.pi * 9 * AT)).astype(np.float32), id="wind"),
    ],
)
def test_what_is_no_speech_is_not_passed_on(sound: Samples) -> None:
    assert spans(sound, real_detector()) == []


@pytest.mark.parametrize("level", [0.5, 0.1, 0.02])
def test_quiet_recording_is_raised_to_where_the_detector_hears_it(level: float) -> None:
    sound = np.concatenate([silence(1), syllables(level), silence(1)])
    ((start, end),) = spans(sound)
    assert abs(start - 0.8 * RATE) < 0.1 * RATE
    assert abs(end - 2.2 * RATE) < 0.1 * RATE


def test_offset_and_rumble_do_not_hide_speech() -> None:
    sound = np.concatenate([silence(1), syllables(0.05), silence(1)])
    wanted = spans(sound)
    at = np.arange(len(sound)) / RATE
    rumble = (0.3 * np.sin(2 * np.pi * 8 * at) + 0.2).astype(np.float32)
    assert len(wanted) == 1
    np.testing.assert_allclose(spans(sound + rumble), wanted, atol=2 * FRAME)


def test_only_rumble_is_taken_away_and_nothing_is_moved() -> None:
    at = np.arange(65 * RATE + 7) / RATE
    tone = (0.3 * np.sin(2 * np.pi * 1000 * at)).astype(np.float32)
    blocks = list(_blocks(tone + np.float32(0.2), Stop()))
    assert len(blocks) == 3
    assert all(len(block) % FRAME == 0 for block in blocks)
    kept = np.concatenate(blocks)[: len(tone)]
    np.testing.assert_allclose(kept[200:-200], tone[200:-200], atol=1e-3)


def test_long_speech_is_cut_into_stretches_of_twenty_seconds() -> None:
    found = spans(np.concatenate([syllables(0.3, 70), silence(1)]))
    assert len(found) >= 4
    assert all(end - start <= 20 * RATE for start, end in found)
    assert found[0][0] == 0


def test_places_hold_across_the_blocks_that_the_work_is_done_in() -> None:
    sound = np.concatenate(
        [silence(29.5), syllables(0.3), silence(29.4), syllables(0.3), silence(1)]
    )
    first, second = spans(sound)
    assert abs(first[0] - 29.3 * RATE) < 0.1 * RATE
    assert abs(second[0] - 59.7 * RATE) < 0.1 * RATE


def test_stop_is_seen() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        speech_spans(silence(1), loud, stop)


def test_speech_is_brought_to_one_loudness() -> None:
    for level in (0.01, 0.5):
        sound = np.concatenate([silence(1), syllables(level)])
        raised = sound * hearing_gain(sound, [Span(RATE, 2 * RATE)])
        assert np.sqrt(np.square(raised[RATE:]).mean()) == pytest.approx(0.1, rel=1e-3)
    assert np.isfinite(hearing_gain(silence(1), [Span(0, RATE)]))
    assert np.isfinite(hearing_gain(silence(1), []))
