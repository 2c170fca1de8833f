"""Sound files in: recognised by content, bounded, mixed to one channel, resampled."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np

from paraudio.audio._flac import is_plain
from paraudio.audio._resample import MAX_RATE, MIN_RATE, Resampler
from paraudio.audio._sndfile import open_flac, open_wav
from paraudio.audio._sniff import TAKEN, name_other, sniff
from paraudio.audio._source import Claim, Piece, Sink, Source, UnusableError
from paraudio.engines import Audio
from paraudio.errors import InvalidRequestError

MAX_SECONDS: Final = 4 * 3600.0
"""The longest sound that `decode` takes unless told otherwise, in seconds."""

MAX_SAMPLES: Final = 2**30
"""The most samples of all channels together that one file may hold: three hours of 48 kHz stereo.

A few kilobytes of a compressed format can hold hours of many channels; this bounds the work and the
memory that they can cause.
"""

FREE_SAMPLES: Final = 2**25
"""The samples of all channels together that the smallest file may hold: 11 minutes of 48 kHz."""

MOST_PER_BYTE: Final = 150
"""The most samples for each byte of a larger file: opus at 6 kbit/s in stereo has 128."""

MAX_WORK_SECONDS: Final = 600.0
"""The longest time that one file may take to be decoded, in seconds."""

MAX_CHANNELS: Final = 16
_ROUNDING_S: Final = 1e-6
_NOTHING: Final = np.empty(0, np.float32)


def decode(
    data: bytes | bytearray | memoryview,
    *,
    rate: int | None = None,
    most_rate: int | None = None,
    max_seconds: float = MAX_SECONDS,
    max_work_s: float = MAX_WORK_SECONDS,
    param: str = "file",
    check: Callable[[], None] | None = None,
) -> Audio:
    """Decode a sound file in memory, whatever its name and declared type say.

    Args:
        data: The file: wav (integers of 8 to 32 bits, floats, extensible, sizes unknown to the
            writer), flac, mp3, ogg with vorbis or opus, webm or Matroska, m4a, mp4, mov or 3gp,
            bare aac (ADTS). Of a video only the first sound is heard.
        rate: Frames a second wanted, or None for the file's own.
        most_rate: The most frames a second of any use, so that no more is held in memory than that.
        max_seconds: The longest sound taken, in seconds. A file that says that it is longer is
            refused before anything is unpacked.
        max_work_s: The longest time to work on it, in seconds.
        param: The field that holds the file, for the error.
        check: Called between blocks; what it raises ends the decoding (a stop, a cancellation).

    Returns:
        At least one frame: the mean of the channels, clipped to [-1, 1], with NaN as silence.

    Raises:
        InvalidRequestError: The file is empty, cut off, no such format, or over a limit.
    """
    view = memoryview(data).cast("B")
    limits = _Limits(len(view), max_seconds, max_work_s, check)
    try:
        limits.look()
        with _open(view, limits) as source:
            claim = source.claim
            limits.judge(claim)
            return _read(source, _Resampled(rate, most_rate, claim.seconds), limits)
    except UnusableError as error:
        message = f"{param} cannot be decoded: {error}"
        raise InvalidRequestError(message, param=param) from error


class _Limits:
    """What a file may be, and cost."""

    def __init__(
        self,
        size: int,
        max_seconds: float,
        max_work_s: float,
        check: Callable[[], None] | None,
    ) -> None:
        self._size = size
        self._max_seconds = max_seconds
        self._work_s = max_work_s
        self._ends = time.monotonic() + max_work_s
        self._check = check
        self._seconds = 0.0
        self._samples = 0

    def look(self) -> None:
        """End the work if nobody waits for it any more, or if it has taken too long."""
        if self._check is not None:
            self._check()
        if time.monotonic() > self._ends:
            raise UnusableError(f"it takes longer than {self._work_s:.0f} s to decode")

    def judge(self, claim: Claim) -> None:
        """Refuse what says of itself that it is over a limit."""
        self._judge_shape(claim.rate, claim.channels)
        if claim.seconds is not None:
            self._judge_length(claim.seconds, claim.seconds * claim.rate * claim.channels, claim)

    def count(self, piece: Piece) -> None:
        """Refuse what is over a limit, whatever it said."""
        frames, channels = piece.samples.shape
        self._judge_shape(piece.rate, channels)
        self._seconds += frames / piece.rate
        self._samples += frames * channels
        self._judge_length(self._seconds, self._samples, Claim(piece.rate, channels, None))

    def _judge_shape(self, rate: int, channels: int) -> None:
        if not MIN_RATE <= rate <= MAX_RATE:
            raise UnusableError(f"its rate is {rate} Hz; {MIN_RATE} to {MAX_RATE} Hz are taken")
        if not 1 <= channels <= MAX_CHANNELS:
            raise UnusableError(f"it has {channels} channels; up to {MAX_CHANNELS} are taken")

    def _judge_length(self, seconds: float, samples: float, shape: Claim) -> None:
        if seconds > self._max_seconds + _ROUNDING_S or samples > MAX_SAMPLES:
            most = min(self._max_seconds, MAX_SAMPLES / (shape.rate * shape.channels))
            raise UnusableError(f"it is longer than {most:.0f} s, the longest taken here")
        if samples > max(FREE_SAMPLES, MOST_PER_BYTE * self._size):
            raise UnusableError(
                f"its {self._size} bytes hold more than {MOST_PER_BYTE} samples each"
            )


def _open(view: memoryview, limits: _Limits) -> Source:
    if not view:
        raise UnusableError("the file is empty")
    found = sniff(view)
    if found is None:
        raise UnusableError(f"it is {name_other(view)}; send one of: {TAKEN}")
    kind, start = found
    file = view[start:]
    if kind == "wav":
        return open_wav(file)
    if kind == "flac" and is_plain(file):
        with suppress(UnusableError):  # for its tags, which the other library reads over
            return open_flac(file)
    from paraudio.audio._demux import DemuxSource  # noqa: PLC0415 - 20 MB, for those who need it

    return DemuxSource(file, kind, look=limits.look)


def _read(source: Source, sink: "_Resampled", limits: _Limits) -> Audio:
    for piece in source.pieces():
        limits.count(piece)
        sink.add(piece)
        limits.look()
    return sink.audio()


class _Resampled:
    """Collects pieces at one rate: the one wanted, or that of the first."""

    def __init__(self, rate: int | None, most_rate: int | None, seconds: float | None) -> None:
        self._rate = rate
        self._most_rate = most_rate
        self._seconds = seconds or 0.0
        self._target = 0
        self._source = 0
        self._resampler: Resampler | None = None
        self._sink = Sink()

    def add(self, piece: Piece) -> None:
        """Append a piece; one of another rate than the last starts anew."""
        if not len(piece.samples):
            return
        mono = piece.mono()
        resampler = self._resampler
        if resampler is None or piece.rate != self._source:
            self._finish()
            resampler = self._begin(piece.rate)
        self._sink.add(resampler.push(mono, last=False))

    def audio(self) -> Audio:
        """The whole.

        Raises:
            UnusableError: There is nothing.
        """
        self._finish()
        samples = self._sink.samples()
        if not len(samples):
            raise UnusableError("it holds no sound")
        return Audio(samples, self._target)

    def _begin(self, source: int) -> Resampler:
        if not self._target:
            target = source if self._rate is None else self._rate
            self._target = target if self._most_rate is None else min(target, self._most_rate)
            self._sink = Sink(self._seconds * self._target)
        self._source = source
        self._resampler = Resampler(source, self._target)
        return self._resampler

    def _finish(self) -> None:
        if self._resampler is not None:
            self._sink.add(self._resampler.push(_NOTHING, last=True))
