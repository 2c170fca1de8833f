"""Sound out, piece by piece: each piece of sound gives the bytes that are ready by then.

A whole file is the same with one long piece. The difference is its head: what a growing file cannot
know yet, its length above all, a whole one says.
"""

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from paraudio.audio._formats import CODECS, Codec, content_type
from paraudio.audio._pcm import to_int16
from paraudio.audio._resample import Resampler
from paraudio.audio._wav import pcm, wav_header
from paraudio.engines import Audio, Samples

Check = Callable[[], None]

BLOCK: Final = 65_536
"""Samples that are compressed between two looks at whether anybody still waits."""


class Growing(Protocol):
    """A file that grows. Blocking code for one thread at a time."""

    def push(self, audio: Audio, *, check: Check | None = None) -> bytes:
        """Take the next piece of sound, and give the bytes that are ready.

        Args:
            audio: Mono sound at the rate that the file was begun with.
            check: Called between blocks; what it raises ends the work.

        Raises:
            ValueError: The piece has another rate.
        """

    def end(self) -> bytes:
        """The last bytes; nothing may follow."""

    def close(self) -> None:
        """Free what it holds; may be called again, and at any time between two other calls."""


class GrowingPcm:
    """Bare samples, or a wav file of one head with unknown sizes and nothing but samples behind.

    Players take sizes of 0xFFFFFFFF as "until the end", so the pieces play without gaps.
    """

    def __init__(self, rate: int, *, wav: bool) -> None:
        self._rate = rate
        self._head = wav_header(rate, None) if wav else b""

    def push(self, audio: Audio, *, check: Check | None = None) -> bytes:
        """The samples, the first ones behind the head."""
        del check  # a memory copy
        _check_rate(audio, self._rate)
        head, self._head = self._head, b""
        return head + pcm(audio)

    def end(self) -> bytes:
        """The head, if there was no sound at all."""
        head, self._head = self._head, b""
        return head

    def close(self) -> None:
        """There is nothing to free."""


class GrowingCompressed:
    """A file that ffmpeg's libraries encode and pack."""

    def __init__(self, codec: Codec, rate: int, *, whole: bool) -> None:
        """Begin a file.

        Args:
            codec: Which one.
            rate: Of the sound that will come, in Hz. A codec that does not know it gets the next
                higher that it knows, or its highest.
            whole: Whether the head may say at the end what was not known at the beginning. Then all
                bytes come with `end`.
        """
        from paraudio.audio._mux import Muxer  # noqa: PLC0415 - 20 MB, for those who need it

        self._rate = rate
        target = codec.rate_for(rate)
        self._resampler = Resampler(rate, target)
        self._muxer = Muxer(codec, target, whole=whole)
        self._empty = True

    def push(self, audio: Audio, *, check: Check | None = None) -> bytes:
        """The bytes of the frames that are full."""
        _check_rate(audio, self._rate)
        for start in range(0, len(audio.samples), BLOCK):
            if check is not None:
                check()
            piece = audio.samples[start : start + BLOCK]
            self._write(self._resampler.push(piece, last=False))
        return self._muxer.take()

    def end(self) -> bytes:
        """The last frame, filled up with silence where its codec wants that."""
        self._write(self._resampler.push(np.empty(0, np.float32), last=True))
        if self._empty:
            # There is no head where there is no sound; one silent sample brings it.
            self._write(np.zeros(1, np.float32))
        self._muxer.finish()
        return self._muxer.take()

    def close(self) -> None:
        """Free the encoder."""
        self._muxer.close()

    def _write(self, samples: Samples) -> None:
        if len(samples):
            self._empty = False
            self._muxer.write(to_int16(samples))


def open_growing(container: str, rate: int, *, param: str = "response_format") -> Growing:
    """Begin a file that grows; the caller closes it.

    Args:
        container: One of ``paraudio.audio.FORMATS``.
        rate: Of the sound that will come, in Hz.
        param: The field that holds the format, for the error.

    Raises:
        InvalidRequestError: There is no such format.
    """
    content_type(container, param=param)
    if container in CODECS:
        return GrowingCompressed(CODECS[container], rate, whole=False)
    return GrowingPcm(rate, wav=container == "wav")


def _check_rate(audio: Audio, rate: int) -> None:
    if audio.rate != rate:
        raise ValueError(f"a stream of {rate} Hz got a piece of {audio.rate} Hz")
