"""Where a model's files are and how they are opened, with refusals that name the field at fault."""

import os
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import BinaryIO, Final

from paraudio.engines._ort import OrtError, OrtSession, open_session
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.families._protobuf import GRAPH_INPUT, MODEL_GRAPH, WireError, skim
from paraudio.errors import InvalidRequestError

_NAME: Final = 1
"""The number in onnx.proto3 of the field with an input's name."""

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


def inputs_of(file: Path) -> frozenset[str]:
    """The names of a model's inputs, found in its file without reading the weights.

    Raises:
        InvalidRequestError: The file is no ONNX model, or only the beginning of one.
        OSError: It cannot be read.
    """
    try:
        with file.open("rb") as opened:
            graph = _graph(opened)
            spans = [span for number, *span in skim(opened, *graph) if number == GRAPH_INPUT]
            names = [_name(opened, begin, end) for begin, end in spans]
    except WireError as error:
        raise InvalidRequestError(
            f"path is no ONNX model that can be used: {error}", param="path"
        ) from error
    return frozenset(names)


def _graph(file: BinaryIO) -> tuple[int, int]:
    """Where the one graph of a model begins and ends."""
    size = file.seek(0, os.SEEK_END)
    graphs = [(begin, end) for number, begin, end in skim(file, 0, size) if number == MODEL_GRAPH]
    if len(graphs) != 1:
        raise WireError(f"it holds {len(graphs) or 'no'} graphs")
    return graphs[0]


def _name(file: BinaryIO, start: int, end: int) -> str:
    """The name of an input."""
    for number, begin, stop in skim(file, start, end):
        if number == _NAME:
            file.seek(begin)
            return file.read(stop - begin).decode(errors="replace")
    return ""


def check_inputs(names: AbstractSet[str], needed: AbstractSet[str], what: str) -> None:
    """Make sure that a model is of the kind that is wanted.

    Raises:
        InvalidRequestError: It lacks an input.
    """
    missing = needed - names
    if missing:
        lacking = ", ".join(sorted(missing))
        raise InvalidRequestError(
            f"path is no {what}: the model has no input {lacking}", param="path"
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
