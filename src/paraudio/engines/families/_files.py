"""Where a model's files are and how they are opened, with refusals that name the field at fault."""

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from paraudio.engines._ort import OrtError, OrtSession, open_session
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.errors import InvalidRequestError

# How onnxruntime says that the file is at fault, and not the machine.
_FILE_FAULTS: Final = ("INVALID_PROTOBUF", "INVALID_GRAPH", "NO_SUCHFILE", "Load model from")


def weights_file(load: Load, *, names: tuple[str, ...] = ()) -> Path:
    """The ``.onnx`` file of a model: ``path`` itself, or the one in the folder ``path``.

    Args:
        load: What is loaded; ``weight`` picks a file of the folder.
        names: Files to prefer, first one first, where a folder holds several.

    Raises:
        InvalidRequestError: There is no such file, or too many of them; names the field.
    """
    if not load.path:
        raise InvalidRequestError(
            "path must name the model's .onnx file or its folder; it is empty", param="path"
        )
    path = Path(load.path)
    if path.is_file():
        if load.weight is not None:
            raise InvalidRequestError(
                f"weight picks a file of a folder, and path is a file: {load.path!r}",
                param="weight",
            )
        return path
    if not path.is_dir():
        raise InvalidRequestError(
            f"path is neither a file nor a folder: {load.path!r}", param="path"
        )
    if load.weight is not None:
        return _picked(path, load.weight)
    return _only(path, names)


def beside(file: Path, name: str) -> Path:
    """A file named relative to another one's folder, or by its whole path."""
    return file.parent / name


def open_model(
    model: str | Path | bytes, load: Load, stop: Stop, *, weights: Path | None = None
) -> OrtSession:
    """Open a model as ``load`` says; one thread a run unless it says more.

    Args:
        model: Its file, or its bytes.
        load: What is loaded.
        stop: Ends it.
        weights: The folder with the files that bytes have weights in.

    Raises:
        InvalidRequestError: The file is no ONNX model.
        OrtError: The model cannot be opened for another reason.
        Stopped: ``stop`` was set; nothing is left behind.
    """
    try:
        return open_session(
            model,
            backend=load.backend,
            device=load.device,
            threads=max(load.threads, 1),
            weights=weights,
            stop=stop,
        )
    except OrtError as error:
        if not any(fault in str(error) for fault in _FILE_FAULTS):
            raise
        raise InvalidRequestError(
            f"path is no ONNX model that can be used: {error}", param="path"
        ) from error


def check_inputs(session: OrtSession, needed: AbstractSet[str], what: str) -> None:
    """Make sure that a model is of the kind that is wanted.

    Raises:
        InvalidRequestError: It lacks an input.
    """
    missing = needed - {info.name for info in session.inputs}
    if missing:
        names = ", ".join(sorted(missing))
        raise InvalidRequestError(
            f"path is no {what}: the model has no input {names}", param="path"
        )


def _picked(folder: Path, weight: str) -> Path:
    picked = folder / weight
    if not picked.resolve().is_relative_to(folder.resolve()) or not picked.is_file():
        raise InvalidRequestError(
            f"weight must name a file inside path; there is no {weight!r} there", param="weight"
        )
    return picked


def _only(folder: Path, names: tuple[str, ...]) -> Path:
    found = sorted(folder.glob("*.onnx"))
    for name in names:
        if folder / name in found:
            return folder / name
    if not found:
        raise InvalidRequestError(f"path holds no .onnx file: {str(folder)!r}", param="path")
    if len(found) > 1:
        raise InvalidRequestError(
            "weight must say which file of path is meant: "
            + ", ".join(file.name for file in found[:10]),
            param="weight",
        )
    return found[0]
