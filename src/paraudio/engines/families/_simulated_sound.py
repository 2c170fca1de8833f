"""What the simulated family speaks and hears.

It speaks a tone that depends on all that was asked for, and hears speech where it is loud.
"""

import zlib
from collections.abc import Iterator

import numpy as np

from paraudio.engines._values import Audio, Boundary, Job, Samples, SpeakerTurn
from paraudio.errors import InvalidRequestError

RATE = 22_050
_SECONDS_A_CHARACTER = 0.04
_SHORTEST_S, _LONGEST_S = 0.1, 60.0
_LOUD = 0.01
_FRAMES_A_SECOND = 100
_QUIET = 30
_SPEAKERS = 2


def tone(job: Job) -> Audio:
    """Speak a job: its text sets pitch and length, its voice the timbre, its seed the phase.

    The pitch is one of 37 half-tones from 220 Hz up.
    """
    text = job.text or ""
    seconds = min(max(len(text) * _SECONDS_A_CHARACTER, _SHORTEST_S), _LONGEST_S)
    frames = round(seconds / (job.speed or 1.0) * RATE)
    pitch = pitch_of(text)
    imitated = job.voice.reference
    voice = (job.voice.name or "").encode() if imitated is None else imitated.samples.tobytes()
    overtone = 2 + zlib.crc32(voice) % 5
    phase = 0.0 if job.seed is None else (job.seed % 1009) / 1009 * 2 * np.pi
    angle = np.arange(frames, dtype=np.float64) * (2 * np.pi * pitch / RATE) + phase
    wave = 0.3 * np.sin(angle) + 0.1 * np.sin(angle * overtone)
    return Audio(wave.astype(np.float32), RATE)


def pitch_of(text: str) -> float:
    """The pitch, in Hz, that a text is spoken at."""
    return 220.0 * float(2 ** (zlib.crc32(text.encode()) % 37 / 12))


def no_text() -> InvalidRequestError:
    """What is said to whoever gives nothing to speak."""
    return InvalidRequestError("there is no text to speak", param="text")


def spans(start: int, end: int, rate: int) -> Iterator[tuple[int, int]]:
    """The seconds between two places, the last one as short as it is."""
    for at in range(start, end, rate or 1):
        yield at, min(at + rate, end)


def turns_between(start: int, end: int, rate: int) -> tuple[SpeakerTurn, ...]:
    """Who speaks between two places, of which the first begins a second."""
    return tuple(
        SpeakerTurn(f"speaker {at // rate % _SPEAKERS + 1}", at, stop)
        for at, stop in spans(start, end, rate)
    )


class LoudFinder:
    """Finds where it is loud: frames of 10 ms that reach 0.01; 300 ms below that end it.

    Where the sound is cut into pieces changes nothing.
    """

    # Counted in frames: how many there were, where loudness began, and behind its last frame.

    def __init__(self, rate: int) -> None:
        self._frame = max(1, rate // _FRAMES_A_SECOND)
        self._rest: Samples = np.empty(0, np.float32)
        self._frames = 0
        self._start: int | None = None
        self._last = 0

    def take(self, samples: Samples) -> list[Boundary]:
        """The boundaries that are known by more sound."""
        sound = np.concatenate((self._rest, samples))
        whole = len(sound) // self._frame
        self._rest = sound[whole * self._frame :]
        blocks = sound[: whole * self._frame].reshape(whole, self._frame)
        return self._find(np.abs(blocks).max(axis=1, initial=0.0))

    def end(self) -> list[Boundary]:
        """The boundaries that are known by the end."""
        length = self._frames * self._frame + len(self._rest)
        found = self._find(np.abs(self._rest[np.newaxis]).max(axis=1, initial=0.0))
        if self._start is not None:
            found.append(Boundary("end", min(self._last * self._frame, length)))
        return found

    def _find(self, peaks: Samples) -> list[Boundary]:
        found: list[Boundary] = []
        for index in np.flatnonzero(peaks >= _LOUD).tolist():
            self._end_before(self._frames + index, found)
            if self._start is None:
                self._start = self._frames + index
                found.append(Boundary("start", self._start * self._frame))
            self._last = self._frames + index + 1
        self._frames += len(peaks)
        self._end_before(self._frames, found)
        return found

    def _end_before(self, frame: int, found: list[Boundary]) -> None:
        """End the stretch if it has been quiet for long enough before ``frame``."""
        if self._start is not None and frame - self._last >= _QUIET:
            found.append(Boundary("end", self._last * self._frame))
            self._start = None
