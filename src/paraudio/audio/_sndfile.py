"""Wav, mp3 and ogg, read by libsndfile."""

from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import numpy as np
import soundfile

from paraudio.audio._riff import BadWavError, plain_wav
from paraudio.audio._sniff import Kind
from paraudio.audio._source import BLOCK_SAMPLES, Claim, Piece, UnusableError
from paraudio.audio._view import View
from paraudio.engines import Samples

_MP3_SLACK: Final = 2 * 1152 + 1105
"""Frames that an mp3 may count and its decoder drop: one at each end, and the delay."""

_SURPLUS_S: Final = 10.0
"""Seconds that a file may hold beyond what it says."""

_ERRORS: Final = (soundfile.SoundFileError, RuntimeError, ValueError)


class SndfileSource:
    """A file that libsndfile reads."""

    def __init__(self, view: memoryview, kind: Kind) -> None:
        """Open it.

        Args:
            view: The file, from its first own byte on.
            kind: What it is.

        Raises:
            UnusableError: It is broken.
        """
        self._kind = kind
        try:
            self._file = soundfile.SoundFile(_source(view, kind))
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
        rate, frames = int(self._file.samplerate), int(self._file.frames)
        known = 0 <= frames < 2**62 and rate > 0
        return Claim(rate, int(self._file.channels), frames / rate if known else None)

    def pieces(self) -> Iterator[Piece]:
        """Its sound in blocks."""
        claim = self.claim
        block = max(1, BLOCK_SAMPLES // claim.channels)
        frames = 0
        while True:
            samples = self._read(block)
            frames += len(samples)
            if claim.seconds is not None and frames / claim.rate > claim.seconds + _SURPLUS_S:
                raise UnusableError(f"the {self._kind} holds more than it says")
            yield Piece(samples, claim.rate)
            if len(samples) < block:
                break
        self._check_length(frames, claim)

    def _read(self, frames: int) -> Samples:
        """The next block, shape [frames, channels]; shorter only at the end."""
        try:
            piece = self._file.read(frames, dtype="float32", always_2d=True)
        except _ERRORS as error:
            raise UnusableError(
                f"the {self._kind} is damaged or cut off ({_reason(error)})"
            ) from error
        return np.asarray(piece, dtype=np.float32)

    def _check_length(self, frames: int, claim: Claim) -> None:
        """Refuse what ended before the length that the file itself declares."""
        if self._kind != "mp3" or claim.seconds is None:
            return
        declared = round(claim.seconds * claim.rate)
        if frames + _MP3_SLACK < declared:
            raise UnusableError(f"the mp3 is cut off: it holds {frames} of {declared} frames")


def _source(view: memoryview, kind: Kind) -> View:
    if kind != "wav":
        return View(view)
    try:
        head, body = plain_wav(view)
    except BadWavError as error:
        raise UnusableError(str(error)) from error
    if not body:
        raise UnusableError("the wav file holds no sound")
    return View(head, body)


def _reason(error: Exception) -> str:
    """The library's own words, without the address of our memory view."""
    text = getattr(error, "error_string", None) or type(error).__name__
    return str(text).strip().rstrip(".")
