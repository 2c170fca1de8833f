"""Wav and plain flac, read by libsndfile.

It opens a wav in a fiftieth of the time that ffmpeg's libraries take, and unpacks a flac in half of
it, block by block, without the interpreter's lock: files beside each other do not slow each other.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import numpy as np
import soundfile

from paraudio.audio._riff import BadWavError, plain_wav
from paraudio.audio._source import BLOCK_SAMPLES, Claim, Piece, UnusableError
from paraudio.audio._view import View
from paraudio.engines import Samples

_ERRORS: Final = (soundfile.SoundFileError, RuntimeError, ValueError)


def open_wav(view: memoryview) -> "SndfileSource":
    """Open a wav file of whatever kind of samples.

    Args:
        view: The file, from ``RIFF`` on.

    Raises:
        UnusableError: It is broken or cut off.
    """
    try:
        head, body = plain_wav(view)
    except BadWavError as error:
        raise UnusableError(str(error)) from error
    if not body:
        raise UnusableError("the wav file holds no sound")
    return SndfileSource(View(head, body), "wav")


def open_flac(view: memoryview) -> "SndfileSource":
    """Open a flac file that is plain.

    Args:
        view: The file, from ``fLaC`` on.

    Raises:
        UnusableError: It is broken.
    """
    return SndfileSource(View(view), "flac")


class SndfileSource:
    """A file that libsndfile reads."""

    def __init__(self, file: View, kind: str) -> None:
        """Open it.

        Args:
            file: Nothing but the file.
            kind: What it is, for errors.

        Raises:
            UnusableError: It is broken.
        """
        self._kind = kind
        try:
            self._file = soundfile.SoundFile(file)
        except _ERRORS as error:
            raise UnusableError(
                f"it is a broken or unknown kind of {kind} ({_reason(error)})"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def claim(self) -> Claim:
        """What its head says."""
        rate = int(self._file.samplerate)
        return Claim(rate, int(self._file.channels), self._file.frames / rate if rate > 0 else None)

    def pieces(self) -> Iterator[Piece]:
        """Its sound in blocks."""
        rate, block = int(self._file.samplerate), max(1, BLOCK_SAMPLES // self._file.channels)
        while True:
            samples = self._read(block)
            yield Piece(samples, rate)
            if len(samples) < block:
                return

    def _read(self, frames: int) -> Samples:
        """The next block, shape [frames, channels]; shorter only at the end."""
        try:
            piece = self._file.read(frames, dtype="float32", always_2d=True)
        except _ERRORS as error:
            raise UnusableError(
                f"the {self._kind} is damaged or cut off ({_reason(error)})"
            ) from error
        return np.asarray(piece, dtype=np.float32)


def _reason(error: Exception) -> str:
    """The library's own words, without the address of our memory view."""
    text = getattr(error, "error_string", None) or type(error).__name__
    return str(text).strip().rstrip(".")
