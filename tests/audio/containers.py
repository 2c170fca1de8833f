"""Files as browsers, phones and cameras make them, made here."""

import io
import struct
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from tests.audio.sounds import RATE, tone

from paraudio.engines import Samples


class _Pipe:
    """A file that is only ever appended to, as a recorder's is."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


def container(
    kind: str,
    codec: str,
    samples: Samples | NDArray[np.float64] | None = None,
    *,
    rate: int = RATE,
    layout: str = "mono",
    piped: bool = False,
    picture: bool = False,
    pictures: int = 5,
    options: Mapping[str, str] | None = None,
    coding: Mapping[str, str] | None = None,
) -> bytes:
    """A sound, shape [frames], in a container.

    Args:
        kind: The container, in ffmpeg's words.
        codec: The codec, in ffmpeg's words.
        samples: The sound; a tone of a second where there is none.
        rate: Frames a second.
        layout: Of the channels, which all hold the same.
        piped: Whether nothing is written again, as a recorder's page does it.
        picture: Whether there is a video beside the sound.
        pictures: How many pictures it has.
        options: Of the container.
        coding: Of the codec.
    """
    sink: Any = _Pipe() if piped else io.BytesIO()
    sound = tone(1.0, rate) if samples is None else samples
    with av.open(sink, "w", format=kind, options=dict(options or {})) as file:
        video = _video(file) if picture else None
        stream: Any = file.add_stream(codec, rate=rate, layout=layout, options=dict(coding or {}))
        form = stream.codec_context.codec.audio_formats[0].name
        stream.codec_context.format = form
        if video is not None:
            _film(file, video, pictures)
        frame = _frame(sound, form, layout)
        frame.sample_rate = rate
        frame.pts = 0
        frame.time_base = Fraction(1, rate)
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return bytes(sink.data) if piped else bytes(sink.getvalue())


def wide_aac(channels: int, frames: int = 20) -> bytes:
    """Bare aac of silence in so many channels, as elements of one channel each (ISO 14496-3)."""
    # A program config element tells the channels: 8 bits of head, then one element for each.
    bits = "101" + "0000" + "01" + "0011"  # PCE, tag 0, LC, 48 kHz
    front = "".join(f"0{at:04b}" for at in range(channels))
    bits += f"{channels:04b}" + "0000" + "0000" + "00" + "000" + "0000" + "000" + front
    bits += "0" * (-len(bits) % 8) + "0" * 8
    # Each element: a global gain, one long window, no band, and nothing else.
    element = "10000000" + "0" + "00" + "0" + "000000" + "0" + "0" + "0" + "0"
    bits += "".join(f"000{at:04b}{element}" for at in range(channels)) + "111"
    bits += "0" * (-len(bits) % 8)
    body = int(bits, 2).to_bytes(len(bits) // 8)
    size = len(body) + 7
    head = 0xFFF1 << 40 | 1 << 38 | 3 << 34 | size << 13 | 0x7FF << 2
    return (head.to_bytes(7) + body) * frames


def film(kind: str = "mp4", codec: str = "mpeg4") -> bytes:
    """A video without any sound."""
    sink = io.BytesIO()
    with av.open(sink, "w", format=kind) as file:
        _film(file, _video(file, codec))
    return sink.getvalue()


def _video(file: Any, codec: str = "") -> Any:
    chosen = codec or {"webm": "libvpx"}.get(file.format.name, "mpeg4")
    return file.add_stream(chosen, rate=25, width=64, height=64, pix_fmt="yuv420p")


def _film(file: Any, stream: Any, pictures: int = 5) -> None:
    for at in range(pictures):
        frame = av.VideoFrame.from_ndarray(np.full((96, 64), at % 256, np.uint8), format="yuv420p")
        frame.pts = at
        frame.time_base = Fraction(1, 25)
        file.mux(stream.encode(frame))
    file.mux(stream.encode(None))


def _frame(sound: Samples | NDArray[np.float64], form: str, layout: str) -> av.AudioFrame:
    channels = av.AudioLayout(layout).nb_channels
    plain = form.removesuffix("p")
    scale = {"u8": 127, "s16": 2**15 - 1, "s32": 2**31 - 200, "flt": 1, "dbl": 1}[plain]
    kind = {"u8": "u1", "s16": "i2", "s32": "i4", "flt": "f4", "dbl": "f8"}[plain]
    mono = (sound * scale + (128 if plain == "u8" else 0)).astype(kind)
    planes = np.stack([mono] * channels)
    if channels > 7:  # PyAV reads past the end of more planes; encoding lays them apart
        form = plain
    if not form.endswith("p"):
        planes = planes.T.reshape(1, -1)
    return av.AudioFrame.from_ndarray(np.ascontiguousarray(planes), format=form, layout=layout)


def box(name: bytes, *content: bytes, size: int | None = None) -> bytes:
    """An mp4 box; ``size`` is what it says, where that is not the truth."""
    whole = b"".join(content)
    return struct.pack(">I4s", len(whole) + 8 if size is None else size, name) + whole


def words(*values: int) -> bytes:
    """32 bit words, the most significant byte first."""
    return struct.pack(f">{len(values)}I", *values)


def patched(data: bytes, name: bytes, offset: int, value: int) -> bytes:
    """An mp4 with one 32 bit word of the last box of a name changed."""
    at = data.rindex(name) + 4 + offset
    return data[:at] + words(value) + data[at + 4 :]


def for_the_web(data: bytes) -> bytes:
    """An mp4 with its head moved to the front, as sites want it."""
    at = data.rindex(b"moov") - 4
    (front,) = struct.unpack_from(">I", data)
    head = data[at:]
    place = head.index(b"stco") + 8
    (count,) = struct.unpack_from(">I", head, place)
    offsets = struct.unpack_from(f">{count}I", head, place + 4)
    moved = words(*[offset + len(head) for offset in offsets])
    head = head[: place + 4] + moved + head[place + 4 + len(moved) :]
    return data[:front] + head + data[front:at]
