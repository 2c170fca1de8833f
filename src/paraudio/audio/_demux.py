"""All but wav, read by ffmpeg's libraries through PyAV.

The library is told which container it is and which codecs may open: nothing is guessed, no picture
is decoded, and nothing but the bytes at hand is opened, whatever a file refers to.
"""

import ctypes
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, NoReturn, Self, cast

import av
from av import _core
from av.audio import AudioStream
from av.audio.codeccontext import AudioCodecContext
from av.container import InputContainer

from paraudio.audio._boxes import check_tables
from paraudio.audio._joined import Joined, piece
from paraudio.audio._lengths import adts_seconds, check_pages, last_cluster_s, mp3_seconds
from paraudio.audio._sniff import Kind
from paraudio.audio._source import Claim, Piece, UnusableError
from paraudio.audio._turns import Turns
from paraudio.audio._view import View

_DEMUXERS: Final[dict[Kind, str]] = {
    "mp3": "mp3",
    "flac": "flac",
    "ogg": "ogg",
    "webm": "matroska",
    "mp4": "mov",
    "aac": "aac",
}
_CODECS: Final = frozenset(
    {"aac", "aac_fixed", "alac", "opus", "vorbis", "flac", "mp3", "mp3float", "mp2", "mp2float"}
    | {"speex"}
    | {"ac3", "eac3", "amrnb", "amrwb", "pcm_alaw", "pcm_mulaw", "pcm_u8", "pcm_s8"}
    | {
        f"pcm_{kind}{order}"
        for kind in ("s16", "s24", "s32", "f32", "f64")
        for order in ("le", "be")
    }
)
_OPTIONS: Final = {
    "codec_whitelist": ",".join(sorted(_CODECS)),
    "protocol_whitelist": "",
    # Enough to know what the sound is; the picture beside it is of no interest.
    "probesize": "1000000",
    "max_streams": "32",
}
_BUFFER_BYTES: Final = 1 << 18
_MAX_BAD: Final = 0.1
"""The part of the packets that may be damaged, beside two."""

_LOOK_EVERY: Final = 16

_MICRO: Final = 1_000_000
_MP3_SLACK: Final = 2 * 1152 + 1105
"""Frames that an mp3 may count and its decoder drop: one at each end, and the delay."""

_MOST_AT_ONCE: Final = 128 << 20
"""The most bytes that the libraries may ask for at once: tables can hide where nobody looks."""

_TURNS: Final = Turns()

# Tags may be in any encoding; later releases take them as they are.
_TAGS: Final[dict[str, Any]] = (
    {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
)


def _bound_memory() -> None:
    """Bound every allocation of the libraries; PyAV has no word for it, its libraries do."""
    bound = getattr(ctypes.CDLL(_core.__file__), "av_max_alloc", None)
    if bound is not None:
        bound(ctypes.c_size_t(_MOST_AT_ONCE))


_bound_memory()


class _Shared(View):
    """A file whose reader lets others work in between: a step may read all of it, for a mark."""

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, none at the end."""
        _TURNS.offer()
        return super().read(size)


class DemuxSource:
    """A file that ffmpeg's libraries read; only its first sound."""

    def __init__(self, view: memoryview, kind: Kind, *, look: Callable[[], None]) -> None:
        """Open it.

        Args:
            view: The file, from its first own byte on.
            kind: What it is.
            look: Called now and then; what it raises ends the work.

        Raises:
            UnusableError: It is broken, or has no sound that can be decoded.
        """
        self._kind = kind
        self._look = look
        self._view = view
        self._told = _told(view, kind)
        look()
        if kind == "mp4":
            check_tables(view, look)
        elif kind == "ogg":
            check_pages(view)
        with ExitStack() as stack:
            self._file = stack.enter_context(_open(_Shared(view), kind))
            self._stream = _sound_of(self._file)
            if kind == "flac":
                # It carries checks, which its decoder only heeds when it is told to.
                self._stream.codec_context.options = {"err_detect": "crccheck+explode"}
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def claim(self) -> Claim:
        """What its head says, or the places of its frames."""
        context = self._stream.codec_context
        rate = context.sample_rate
        seconds = self._seconds() if self._told is None else self._told
        return Claim(rate, context.layout.nb_channels, seconds)

    def _seconds(self) -> float | None:
        stream, base = self._stream, self._stream.time_base
        if stream.duration is not None and base is not None:
            return stream.duration * base.numerator / base.denominator
        if self._file.duration is not None:
            return self._file.duration / _MICRO
        return last_cluster_s(self._view) if self._kind == "webm" else None

    def pieces(self) -> Iterator[Piece]:
        """Its sound, in blocks of one rate and one count of channels."""
        frames, joined = self._frames(), Joined()
        while (block := _next(frames, joined)) is not None:
            yield piece(block)

    def _frames(self) -> Iterator[av.AudioFrame]:
        """What can be decoded of it; a recorder's first and last packets are often damaged."""
        good = bad = samples = 0
        least, most = self._told_frames()
        lost = _Lost()
        for packet in self._packets():
            try:
                frames = packet.decode()
            except av.FFmpegError:
                bad += 1
                continue
            for frame in frames:
                if self._kind == "flac":
                    lost.look(frame, samples)
                good += 1
                samples += frame.samples
                if samples > most:
                    raise UnusableError(f"the {self._kind} holds more than it says")
                yield frame
        if not good or bad > 2 + _MAX_BAD * good:
            raise UnusableError(f"the {self._kind} is damaged or cut off, or holds no sound")
        if samples < least or (bad and self._kind == "flac"):
            raise UnusableError(
                f"the {self._kind} is damaged or cut off: it holds {samples} frames of {least}"
            )

    def _told_frames(self) -> tuple[int, float]:
        """The fewest and most frames that the file may hold by what it says of itself."""
        claim = self.claim
        if claim.seconds is None or self._kind not in {"flac", "mp3"}:
            return 0, math.inf
        frames = round(claim.seconds * claim.rate)
        return (frames, frames) if self._kind == "flac" else (frames - _MP3_SLACK, math.inf)

    def _packets(self) -> "Iterator[av.Packet[AudioStream]]":
        try:
            # All of it, since PyAV skips what is not asked for, a whole film, in one step.
            for count, packet in enumerate(self._file.demux()):
                if count % _LOOK_EVERY == 0:
                    self._look()
                _TURNS.offer()
                if packet.stream_index == self._stream.index:
                    yield cast("av.Packet[AudioStream]", packet)
        except av.FFmpegError as error:
            raise UnusableError(f"the {self._kind} is damaged ({_reason(error)})") from error


class _Lost:
    """Finds what a decoder left out in silence, by the places that frames say they have."""

    def __init__(self) -> None:
        self._first: int | None = None

    def look(self, frame: av.AudioFrame, samples: int) -> None:
        """Refuse a frame that is not where the one before ended.

        Args:
            frame: One of flac, whose places are counted in samples.
            samples: How many there were before it.
        """
        if frame.pts is None:
            return
        ahead = frame.pts - samples
        if self._first is None:
            self._first = ahead  # a part that was cut out of a longer file keeps its places
        if ahead > self._first:
            raise UnusableError(
                f"the flac is damaged or cut off: {ahead - self._first} frames are missing before "
                f"frame {samples}"
            )


def _next(frames: Iterator[av.AudioFrame], joined: Joined) -> av.AudioFrame | None:
    """The next block, in a turn; None at the end."""
    with _TURNS.turn():
        for frame in frames:
            if (block := joined.add(frame)) is not None:
                return block
        return joined.rest()


def _told(view: memoryview, kind: Kind) -> float | None:
    """How long the file is by its frames, where its library only guesses."""
    if kind == "aac":
        return adts_seconds(view)
    return mp3_seconds(view) if kind == "mp3" else None


def _open(view: View, kind: Kind) -> InputContainer:
    try:
        opened: InputContainer = av.open(
            view,
            "r",
            format=_DEMUXERS[kind],
            options=_OPTIONS,
            buffer_size=_BUFFER_BYTES,
            io_open=_refuse,
            **_TAGS,
        )
    except (av.FFmpegError, UnicodeError) as error:
        raise UnusableError(f"it is a broken {kind} ({_reason(error)})") from error
    else:
        return opened


def _refuse(url: str, flags: int, options: object) -> NoReturn:
    """Open nothing beside the file itself, whatever it refers to."""
    del flags, options
    raise PermissionError(url)


def _sound_of(file: InputContainer) -> AudioStream:
    streams = file.streams.audio
    if not streams:
        raise UnusableError("it holds no sound")
    for stream in streams:
        # The types say that there is one; without a decoder there is none.
        context = cast("AudioCodecContext | None", stream.codec_context)
        if context is not None and context.name in _CODECS:
            context.thread_count = 1
            _forget_order(context)
            return stream
    raise UnusableError("its sound is in a codec that is not taken here")


def _forget_order(context: AudioCodecContext) -> None:
    """Keep the count of the channels, not where they belong; nobody asks for that here.

    An order of its own, as a mov of seven channels has it, lies in memory that PyAV gives to each
    frame and to each layout without a copy, and each of them frees it: that ends the process.
    """
    channels = context.layout.nb_channels
    if channels:
        context.layout = f"{channels}C"


def _reason(error: Exception) -> str:
    """The library's own words for what is wrong."""
    return str(getattr(error, "strerror", None) or type(error).__name__)
