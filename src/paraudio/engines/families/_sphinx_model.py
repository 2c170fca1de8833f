"""The files of a CMU Sphinx model: acoustic model, dictionary, language model."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from paraudio.engines._values import Load
from paraudio.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class SphinxFiles:
    """Where they are.

    Attributes:
        acoustic: Folder of the acoustic model.
        dictionary: The words and their phonemes.
        language: The language model.
    """

    acoustic: Path
    dictionary: Path
    language: Path

    def size(self) -> int:
        """Bytes of all of them."""
        files = [self.dictionary, self.language, *self.acoustic.iterdir()]
        return sum(file.stat().st_size for file in files if file.is_file())


def find_files(load: Load) -> SphinxFiles:
    """Find the files in ``path``, or in the package where ``path`` is empty.

    A model is a folder with the acoustic model's files (or one folder that has them), one ``.dict``
    and one ``.lm.bin`` or ``.lm``.

    Raises:
        InvalidRequestError: ``path`` is no such folder; says what is missing.
    """
    folder = Path(load.path) if load.path else packaged()
    if not folder.is_dir():
        raise InvalidRequestError(
            f"path must be the folder of a CMU Sphinx model, or empty for the English one that "
            f"comes with the package; {load.path!r} is no folder",
            param="path",
        )
    for name in ("config", "weight"):
        if getattr(load, name) is not None:
            raise InvalidRequestError(
                f"{name} has no meaning for this family; put the model's files into path",
                param=name,
            )
    acoustic = sorted({found.parent for found in (*folder.glob("mdef"), *folder.glob("*/mdef"))})
    language = [*folder.glob("*.lm.bin"), *folder.glob("*.lm")]
    return SphinxFiles(
        acoustic=_one(acoustic, folder, "acoustic model (a file mdef)"),
        dictionary=_one(sorted(folder.glob("*.dict")), folder, "dictionary (*.dict)"),
        language=_one(
            sorted(file for file in language if "phone" not in file.name),
            folder,
            "language model (*.lm.bin or *.lm)",
        ),
    )


def packaged() -> Path:
    """The folder of the English model in the package, found without loading the library."""
    found = find_spec("pocketsphinx")
    places = [] if found is None else found.submodule_search_locations or []
    return Path(*places[:1], "model", "en-us")


def _one(found: list[Path], folder: Path, what: str) -> Path:
    if len(found) != 1:
        raise InvalidRequestError(
            f"path must hold one {what}; {str(folder)!r} holds {len(found)}", param="path"
        )
    return found[0]
