"""Sound files in: recognised by content, bounded, mixed to one channel, resampled."""

from collections.abc import Callable
from typing import Final

import numpy as np
import soundfile

from paraudio.audio._resample import MAX_RATE, MIN_RATE, Resampler
from paraudio.audio._riff import BadWavError, plain_wav
from paraudio.audio._sniff import TAKEN, Kind, name_other, sniff
from paraudio.audio._view import View
from paraudio.engines import Audio, Samples
from paraudio.errors import InvalidRequestError

MAX_SECONDS: Final = 4 * 3600.0
"""The longest sound that `decode` takes unless told otherwise, in seconds."""

MAX_SAMPLES: Final = 2**30
"""The most samples of all channels together that one file may hold: three hours of 48 kHz stereo.

A few kilobytes of a compressed format can hold hours of many channels; this bounds the work and the
memory that they can cause.
"""

MAX_CHANNELS: Final = 16
_BLOCK_SAMPLES: Final = 1 << 18
_MP3_SLACK: Final = 2 * 1152 + 1105
"""Frames that an mp3 may count and its decoder drop: one at each end, and the delay."""


def decode(
    data: bytes | bytearray | memoryview,
    *,
    rate: int | None = None,
    most_rate: int | None = None,
    max_seconds: float = MAX_SECONDS,
    param: str = "file",
    check: Callable[[], None] | None = None,
) -> Audio:
    """Decode a sound file in memory, whatever its name and declared type say.

    Args:
        data: The file: wav (integers of 8 to 32 bits, floats, extensible, sizes unknown to the
            writer), flac, mp3, ogg with vorbis or opus.
        rate: Frames a second wanted, or None for the file's own.
        most_rate: The most frames a second of any use, so that no more is held in memory than that.
        max_seconds: The longest sound taken, in seconds.
        param: The field that holds the file, for the error.
        check: Called between blocks; what it raises ends the decoding (a stop, a cancellation).

    Returns:
        At least one frame: the mean of the channels, clipped to [-1, 1], with NaN as silence.

    Raises:
        InvalidRequestError: The file is empty, cut off, no such format, or over a limit.
    """
    view = memoryview(data).cast("B")
    try:
        kind, file = _open(view)
        with file:
            target = int(file.samplerate) if rate is None else rate
            target = target if most_rate is None else min(target, most_rate)
            return _read(file, kind, target, max_seconds, check)
    except (_Unusable, BadWavError) as error:
        message = f"{param} cannot be decoded: {error}"
        raise InvalidRequestError(message, param=param) from error


class _Unusable(Exception):  # noqa: N818 - it never leaves this module
    """Why the file cannot be used, in words for the caller."""


def _open(view: memoryview) -> tuple[Kind, soundfile.SoundFile]:
    if not view:
        raise _Unusable("the file is empty")
    found = sniff(view)
    if found is None:
        raise _Unusable(f"it is {name_other(view)}; send one of: {TAKEN}")
    kind, start = found
    if kind == "wav":
        head, body = plain_wav(view[start:])
        if not body:
            raise _Unusable("the wav file holds no sound")
        source = View(head, body)
    else:
        source = View(view[start:])
    try:
        return kind, soundfile.SoundFile(source)
    except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
        raise _Unusable(f"it is a broken or unknown kind of {kind} ({_reason(error)})") from error


def _read(
    file: soundfile.SoundFile,
    kind: Kind,
    target: int,
    max_seconds: float,
    check: Callable[[], None] | None,
) -> Audio:
    source, channels = int(file.samplerate), int(file.channels)
    if not MIN_RATE <= source <= MAX_RATE:
        raise _Unusable(f"its rate is {source} Hz; {MIN_RATE} to {MAX_RATE} Hz are taken")
    if channels > MAX_CHANNELS:
        raise _Unusable(f"it has {channels} channels; up to {MAX_CHANNELS} are taken")
    most = int(min(max_seconds * source, MAX_SAMPLES // channels))
    resampler = Resampler(source, target)
    sink = _Sink()
    block = max(1, _BLOCK_SAMPLES // channels)
    frames = 0
    while True:
        if check is not None:
            check()
        piece = _block(file, block, kind)
        frames += len(piece)
        if frames > most:
            raise _Unusable(f"it is longer than {most / source:.0f} s, the longest taken here")
        sink.add(resampler.push(_mono(piece), last=len(piece) < block))
        if len(piece) < block:
            break
    _check_length(file, kind, frames)
    samples = sink.samples()
    if not len(samples):
        raise _Unusable("it holds no sound")
    return Audio(samples, target)


def _block(file: soundfile.SoundFile, frames: int, kind: Kind) -> Samples:
    """The next block, shape [frames, channels]; shorter only at the end."""
    try:
        piece = file.read(frames, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
        raise _Unusable(f"the {kind} is damaged or cut off ({_reason(error)})") from error
    return np.asarray(piece, dtype=np.float32)


def _mono(piece: Samples) -> Samples:
    if piece.shape[1] == 1:
        return piece[:, 0]
    return np.asarray(piece.mean(axis=1), dtype=np.float32)


def _check_length(file: soundfile.SoundFile, kind: Kind, frames: int) -> None:
    """Refuse what ended before the length that the file itself declares."""
    declared = int(file.frames)
    slack = _MP3_SLACK if kind == "mp3" else 0
    if kind in {"mp3", "flac"} and declared < 2**62 and frames + slack < declared:
        raise _Unusable(f"the {kind} is cut off: it holds {frames} of {declared} frames")


def _reason(error: Exception) -> str:
    """The library's own words, without the address of our memory view."""
    text = getattr(error, "error_string", None) or type(error).__name__
    return str(text).strip().rstrip(".")


class _Sink:
    """Grows like a list but holds one array, so that the sound is in memory about once."""

    def __init__(self) -> None:
        self._buffer: Samples = np.empty(0, dtype=np.float32)
        self._used = 0

    def add(self, piece: Samples) -> None:
        """Append a piece, shape [frames]."""
        need = self._used + len(piece)
        if need > len(self._buffer):
            grown = np.empty(max(need, len(self._buffer) * 3 // 2), dtype=np.float32)
            grown[: self._used] = self._buffer[: self._used]
            self._buffer = grown
        self._buffer[self._used : need] = piece
        self._used = need

    def samples(self) -> Samples:
        """All pieces joined, shape [frames]."""
        return self._buffer[: self._used]
