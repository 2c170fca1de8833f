"""The sound that the simulated family speaks: a tone that depends on all that was asked for."""

import zlib

import numpy as np

from paraudio.engines._values import Audio, Job

RATE = 22_050
_SECONDS_A_CHARACTER = 0.04
_SHORTEST_S, _LONGEST_S = 0.1, 60.0


def tone(job: Job) -> Audio:
    """Speak a job: its text sets pitch and length, its voice the timbre, its seed the phase.

    The pitch is one of 37 half-tones from 220 Hz up.
    """
    text = job.text or ""
    seconds = min(max(len(text) * _SECONDS_A_CHARACTER, _SHORTEST_S), _LONGEST_S)
    frames = round(seconds / (job.speed or 1.0) * RATE)
    pitch = pitch_of(text)
    overtone = 2 + zlib.crc32((job.voice.name or "").encode()) % 5
    phase = 0.0 if job.seed is None else (job.seed % 1009) / 1009 * 2 * np.pi
    angle = np.arange(frames, dtype=np.float64) * (2 * np.pi * pitch / RATE) + phase
    wave = 0.3 * np.sin(angle) + 0.1 * np.sin(angle * overtone)
    return Audio(wave.astype(np.float32), RATE)


def pitch_of(text: str) -> float:
    """The pitch, in Hz, that a text is spoken at."""
    return 220.0 * float(2 ** (zlib.crc32(text.encode()) % 37 / 12))
