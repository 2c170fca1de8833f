"""Is the onnxruntime that is installed the one that the configuration needs?

Several distributions put one module ``onnxruntime`` into one folder, and no installer minds: then
CUDA is silently gone, or, after one of them was removed, most of the module is. This check says so
at startup, in words, instead of failing in the first request.
"""

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final, Literal

from paraudio.engines._ort import OrtError, library, open_session

Backend = Literal["cpu", "cuda"]

DISTRIBUTIONS: Final = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-silicon",
)
"""Distributions that provide the module ``onnxruntime``."""

PROBE: Final = bytes.fromhex(
    "080812003a370a100a017812017922084964656e746974791201675a0f0a0178120a0a080801"
    "12040a020801620f0a0179120a0a08080112040a02080142040a00100d"
)
"""A model of one Identity operator: the least that makes a provider show whether it works."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong.

    Attributes:
        text: What, and what mends it.
        fatal: Whether no model of onnxruntime can run as configured.
    """

    text: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class OnnxruntimeReport:
    """What the check found.

    Attributes:
        backend: Where models will run: what was asked for, or what ``auto`` comes to here.
        version: The library's version, or "" where it has none.
        problems: What is wrong.
    """

    backend: Backend
    version: str
    problems: tuple[Problem, ...]


def check_onnxruntime(backend: str = "auto", device: int = 0) -> OnnxruntimeReport:
    """Check the installation for a backend.

    Blocks: it imports the library (half a second) and, where there is a CUDA device to be used,
    opens it (seconds).

    Args:
        backend: ``cpu``, ``cuda`` or ``auto``, which takes CUDA where it works.
        device: Index of the CUDA device.
    """
    problems = _installation_problems(installed_distributions())
    version = ""
    resolved: Backend = "cuda" if backend == "cuda" else "cpu"
    try:
        module = library()
    except ImportError as error:
        problems.append(Problem(f"onnxruntime cannot be imported: {error}", fatal=True))
        return OnnxruntimeReport(resolved, version, tuple(problems))
    version = getattr(module, "__version__", "")
    if not version or not hasattr(module, "InferenceSession"):
        text = (
            "the module onnxruntime is incomplete, as happens when one of two distributions of it "
            f"was uninstalled; {_REINSTALL}"
        )
        problems.append(Problem(text, fatal=True))
        return OnnxruntimeReport(resolved, version, tuple(problems))
    if backend == "cuda":
        problems += [Problem(text, fatal=True) for text in _cuda_problems(device)]
    elif backend == "auto" and cuda_devices() > 0:
        texts = _cuda_problems(device)
        resolved = "cpu" if texts else "cuda"
        problems += [Problem(f"{text}; models run on the CPU", fatal=False) for text in texts]
    return OnnxruntimeReport(resolved, version, tuple(problems))


def installed_distributions() -> list[str]:
    """The distributions of the module onnxruntime that are installed."""
    found = []
    for name in DISTRIBUTIONS:
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found.append(name)
    return found


def cuda_devices() -> int:
    """How many CUDA devices the driver shows; 0 where there is no driver."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int(0)
        if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
            return 0
    except (OSError, AttributeError):
        return 0
    return count.value


_REINSTALL: Final = (
    "uninstall all of them (pip uninstall -y " + " ".join(DISTRIBUTIONS[:2]) + ") and install "
    "paraudio again (in its clone: pip install --force-reinstall .)"
)


def _installation_problems(installed: Sequence[str]) -> list[Problem]:
    if len(installed) < 2:
        return []
    names = " and ".join(installed)
    text = f"{names} are installed into one folder and overwrite each other; {_REINSTALL}"
    return [Problem(text, fatal=False)]


def _cuda_problems(device: int) -> list[str]:
    providers = library().get_available_providers()
    if "CUDAExecutionProvider" not in providers:
        text = (
            "this onnxruntime has no CUDA provider: it needs the distribution onnxruntime-gpu, and "
            f"that alone; {_REINSTALL}"
        )
        return [text]
    devices = cuda_devices()
    if device >= devices:
        return [f"there is no CUDA device {device}: the driver shows {devices or 'none'}"]
    try:
        _open_quietly(device)
    except OrtError as error:
        text = (
            f"CUDA does not work ({error}); the extra cuda brings its libraries: in a clone "
            "python3 -m uv run --extra cuda paraudio, or pip install '.[cuda]'"
        )
        return [text]
    return []


def _open_quietly(device: int) -> None:
    """Open the device; what the library would print about it is in our own message."""
    library().set_default_logger_severity(4)
    try:
        open_session(PROBE, backend="cuda", device=device)
    finally:
        library().set_default_logger_severity(2)
