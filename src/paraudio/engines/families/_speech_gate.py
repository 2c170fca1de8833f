"""What of a sound is speech, for a recogniser that hears words in everything.

PocketSphinx makes words out of silence and noise. So only stretches that hold speech are passed on,
each brought to the same loudness. The detector is the one that comes with PocketSphinx (WebRTC's),
because it needs no second model; it judges frames of 30 ms by their absolute level, so the sound is
prepared for it: rumble is removed, a quiet recording is raised, and what is silent or perfectly
steady as a whole is no speech to begin with.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paraudio.audio import to_int16
from paraudio.engines._stop import Stop
from paraudio.engines._values import Samples
from paraudio.engines.families._spans import RATE, Rules, Span, find_speech

FRAME: Final = 480
"""Samples of a frame of the detector: 30 ms."""

# Chosen on read sentences with pauses and noise, for the lowest word error rate that still finds
# words of one syllable.
RULES: Final = Rules(min_speech_ms=150, min_silence_ms=400, speech_pad_ms=200, max_speech_s=20)

_SILENT: Final = 1e-3
"""A sound whose loudest frames stay below this level (-60 dB) is silence."""

_STEADY: Final = 1.8
"""Speech has pauses and weak sounds: its loud frames stand out from its quiet ones by more."""

LOUDEST: Final = 5
"""The loudness of a sound is that of its fifth loudest frame."""

QUIETEST: Final = 10
"""Its quiet is the level that so many percent of its frames stay below."""

_LEVEL_SEEN: Final = 0.2
_LEVEL_HEARD: Final = 0.1
_MOST_GAIN: Final = 20.0
RUMBLE: Final = RATE // 200
"""Samples on either side of one that tell what of it is rumble."""

_BLOCK: Final = 1000 * FRAME


def speech_spans(samples: Samples, is_speech: Callable[[bytes], bool], stop: Stop) -> list[Span]:
    """Find the stretches that hold speech.

    Args:
        samples: Shape [samples], at 16 kHz.
        is_speech: Judges one frame of 16 bit samples.
        stop: Seen about once a second of work.

    Raises:
        Stopped: ``stop`` was set.
    """
    if not len(samples):
        return []
    found = np.concatenate([levels(block) for block in _blocks(samples, stop)])
    rank = min(LOUDEST, len(found))
    loud = float(np.partition(found, len(found) - rank)[-rank])
    if is_still(loud, float(np.percentile(found, QUIETEST))):
        return []
    gain = np.float32(level_gain(loud))
    flags = [
        float(is_speech(frame.tobytes()))
        for block in _blocks(samples, stop)
        for frame in to_int16(block * gain).astype("<i2").reshape(-1, FRAME)
    ]
    return find_speech(flags, len(samples), RULES, frame=FRAME)


def is_still(loud: float, quiet: float) -> bool:
    """Whether a sound is silent or perfectly steady, going by its loud and its quiet frames."""
    return loud < _SILENT or loud < _STEADY * quiet


def level_gain(loud: float) -> float:
    """What brings loud frames to the level that the detector expects."""
    return min(_LEVEL_SEEN / max(loud, 1e-6), _MOST_GAIN)


def loudness_gain(power: float, count: int) -> float:
    """What brings ``count`` samples of a summed square to the loudness of `hearing_gain`."""
    return _LEVEL_HEARD / max(math.sqrt(power / max(count, 1)), 1e-6)


def hearing_gain(samples: Samples, spans: list[Span]) -> float:
    """What brings the speech in a sound to the loudness that the recogniser expects."""
    power = sum(float(np.square(samples[span.start : span.end]).sum()) for span in spans)
    count = sum(span.end - span.start for span in spans)
    return loudness_gain(power, count)


def _blocks(samples: Samples, stop: Stop) -> Iterator[Samples]:
    """The sound without its rumble, in blocks of whole frames; silence fills the last frame."""
    for start in range(0, len(samples), _BLOCK):
        stop.check()
        wanted = min(_BLOCK, -(-(len(samples) - start) // FRAME) * FRAME)
        around = np.zeros(wanted + 2 * RUMBLE, dtype=np.float64)
        first = max(0, start - RUMBLE)
        piece = samples[first : start + wanted + RUMBLE]
        at = first - start + RUMBLE
        around[at : at + len(piece)] = piece
        yield without_rumble(around)


def without_rumble(around: NDArray[np.floating]) -> Samples:
    """Take away the mean of the 10 ms around each sample: what lies below about 80 Hz.

    Args:
        around: Shape [80 + samples + 80]: the sound, and what stands before and after it.

    Returns:
        Shape [samples].
    """
    sound = around.astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(sound)))
    mean = (total[2 * RUMBLE :] - total[: -2 * RUMBLE])[:-1] / (2 * RUMBLE)
    return (sound[RUMBLE:-RUMBLE] - mean).astype(np.float32)


def levels(block: Samples) -> Samples:
    """The level of each frame, shape [frames]."""
    return np.asarray(np.sqrt(np.square(block.reshape(-1, FRAME)).mean(axis=1)), dtype=np.float32)
