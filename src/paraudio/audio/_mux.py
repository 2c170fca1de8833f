"""ffmpeg's encoders and containers, through PyAV. Loaded by the first sound that needs them."""

import io
from typing import Final

import av
import numpy as np
from av.audio import AudioStream
from numpy.typing import NDArray

from paraudio.audio._formats import Codec
from paraudio.engines import Samples

_SCALE: Final = np.float32(32768)


class _Pipe:
    """A file that can only be appended to, so that no head is written again."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """The bytes since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class _Whole(io.BytesIO):
    """A file whose head is written again at the end."""

    def take(self) -> bytes:
        """All bytes, once."""
        data = self.getvalue()
        self.seek(0)
        self.truncate()
        return data


class Muxer:
    """One encoder with its container. Equal sounds give equal bytes."""

    def __init__(self, codec: Codec, rate: int, *, whole: bool) -> None:
        """Open the encoder.

        Args:
            codec: Which one.
            rate: A sample rate that it knows, in Hz.
            whole: Whether the head may be written again at the end.
        """
        self._sink = _Whole() if whole else _Pipe()
        self._whole = whole
        self._layout = codec.layout
        self._rate = rate
        self._at = 0
        self._closed = False
        packing = {"fflags": "+bitexact", "flush_packets": "1", **dict(codec.packing)}
        self._file = av.open(
            self._sink,
            "w",
            format=codec.muxer,
            options=packing | ({} if whole else dict(codec.growing)),
        )
        try:
            self._stream = self._open(codec)
        except BaseException:
            self._file.close()
            raise

    def _open(self, codec: Codec) -> AudioStream:
        options = {"flags": "+bitexact", **dict(codec.options)}
        if bits := codec.bit_rate(self._rate):
            options["b"] = str(bits)
        # The name is not one of those that the library's types list.
        stream: AudioStream = self._file.add_stream(  # type: ignore[assignment]
            codec.encoder, rate=self._rate, layout="mono", options=options
        )
        stream.codec_context.format = codec.layout
        stream.codec_context.thread_count = 1
        return stream

    def write(self, samples: NDArray[np.int16]) -> None:
        """Encode samples, shape [frames]."""
        planes: NDArray[np.int16] | Samples = samples[np.newaxis]
        if self._layout == "fltp":
            planes = planes.astype(np.float32) / _SCALE
        frame = av.AudioFrame.from_ndarray(planes, format=self._layout, layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._at
        self._at += len(samples)
        self._file.mux(self._stream.encode(frame))

    def finish(self) -> None:
        """Encode what is held back, and write the end of the file."""
        self._file.mux(self._stream.encode(None))
        self.close()

    def take(self) -> bytes:
        """The bytes since the last time; of a whole file none before its end."""
        if self._whole and not self._closed:
            return b""
        return self._sink.take()

    def close(self) -> None:
        """Free the encoder; what is not finished gets no end that anybody reads."""
        if not self._closed:
            self._closed = True
            self._file.close()
