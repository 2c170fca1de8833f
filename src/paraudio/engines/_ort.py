"""onnxruntime behind one small surface: open a session, run it, stop either.

Everything that is particular to the library is here: its untyped calls, its errors, what its
options cost. Families see arrays, `Stopped`, and errors that say what was wrong.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from numpy.typing import NDArray

from paraudio.engines._stop import Stop, Stopped

# Arrays of any shape and type: that is the model's own affair.
Tensor: TypeAlias = NDArray[Any]

_PROVIDERS: Final = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_TERMINATED: Final = "terminate flag"
_LOAD_CANCELED: Final = "canceled due to user request"
_SILENCE: Final = "ORT_DISABLE_TELEMETRY"
"""Read once, before the library begins; its function for the same leaves a first report."""
_WEIGHTS_FOLDER: Final = "session.model_external_initializers_file_folder_path"
_FATAL_ONLY: Final = 4
_ERRORS: Final = 3


class OrtError(Exception):
    """onnxruntime could not open or run a model; the message is its own, with what was asked."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of a model.

    Attributes:
        name: Its name.
        type: Its element type, in onnxruntime's words (``tensor(float)``).
        shape: Its dimensions: numbers, or names and None where they are free.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...]


class OrtSession:
    """An open model; safe to run from several threads at once, each with its own feeds.

    Attributes:
        inputs: What ``run`` takes.
        outputs: What ``run`` gives, in order.
        metadata: The model's own key-value pairs.
        backend: ``cpu`` or ``cuda``.
    """

    def __init__(self, session: Any, backend: str) -> None:
        self._session = session
        self.backend = backend
        self.inputs = _infos(session.get_inputs())
        self.outputs = _infos(session.get_outputs())
        self.metadata: dict[str, str] = dict(session.get_modelmeta().custom_metadata_map)
        self._names = [info.name for info in self.outputs]

    def run(self, feeds: Mapping[str, Tensor], stop: Stop, *, shrink: bool = False) -> list[Tensor]:
        """Run the model.

        Args:
            feeds: An array for each input that has no default, by name.
            stop: Ends the run between two of the model's operators.
            shrink: Give the memory that this run made the arena grow by back to the system: worth
                it after a run that needed much more than most.

        Returns:
            The outputs, in the order of ``outputs``.

        Raises:
            Stopped: ``stop`` was set; the session is as good as before.
            OrtError: The feeds do not fit, or an operator failed.
        """
        stop.check()
        options = library().RunOptions()
        options.log_severity_level = _FATAL_ONLY  # a stop would be logged as an error
        if shrink:
            arenas = "cpu:0" if self.backend == "cpu" else "cpu:0;gpu:0"
            options.add_run_config_entry("memory.enable_memory_arena_shrinkage", arenas)
        with stop.calls(lambda: setattr(options, "terminate", True)):
            try:
                outputs: list[Tensor] = self._session.run(self._names, dict(feeds), options)
            except Exception as error:
                if stop.is_set() and _TERMINATED in str(error):
                    raise Stopped from error
                raise OrtError(str(error)) from error
        return outputs


def open_session(
    model: str | Path | bytes,
    *,
    backend: str = "cpu",
    device: int = 0,
    threads: int = 1,
    weights: Path | None = None,
    stop: Stop | None = None,
) -> OrtSession:
    """Open a model.

    Args:
        model: The ``.onnx`` file (weights beside it are mapped, not copied), or its bytes.
        backend: ``cpu`` or ``cuda``.
        device: Index of the CUDA device.
        threads: Threads that one run may use on the CPU; 1 is the most efficient where several
            runs go on side by side.
        weights: The folder with the files that ``model`` has weights in, where it is bytes.
        stop: Ends the loading.

    Raises:
        Stopped: ``stop`` was set; nothing is left behind.
        OrtError: It is no model, or the backend is not to be had.
    """
    stop = stop or Stop()
    stop.check()
    if backend == "cuda":
        prepare_cuda()
    source = model if isinstance(model, bytes) else str(model)
    options = _session_options(max(threads, 1))
    if weights is not None:
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(weights))
    with stop.calls(lambda: options.set_load_cancellation_flag(True)):
        try:
            session = library().InferenceSession(
                source, options, providers=_providers(backend, device)
            )
        except Exception as error:
            if stop.is_set() and _LOAD_CANCELED in str(error):
                raise Stopped from error
            raise OrtError(str(error)) from error
    stop.check()
    session.disable_fallback()
    if _PROVIDERS[backend] not in session.get_providers():
        raise OrtError(
            f"onnxruntime gave {session.get_providers()[0]} where the {backend} backend was asked "
            "for; 'paraudio serve' names the cause at startup"
        )
    return OrtSession(session, backend)


def library() -> Any:
    """The module ``onnxruntime``, imported at first use: half a second, and only where needed.

    Its official builds report on their use to their maker. A local server tells nobody anything, so
    that is off, unless whoever starts it has set the variable to something else.
    """
    os.environ.setdefault(_SILENCE, "1")
    return import_module("onnxruntime")


def prepare_cuda() -> None:
    """Load CUDA's own libraries where pip has put them, as the ``cuda`` extra does."""
    preload = getattr(library(), "preload_dlls", None)
    if preload is not None:
        preload()


def _session_options(threads: int) -> Any:
    options = library().SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS
    # The planner of memory reuse takes three of four seconds of a Piper voice's load and changes
    # neither the speed nor the memory of a run.
    options.enable_mem_reuse = False
    # Threads that spin while they wait take the core from the session beside this one.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _providers(backend: str, device: int) -> list[object]:
    if backend not in _PROVIDERS:
        raise OrtError(f"there is no backend {backend!r}; there are " + ", ".join(_PROVIDERS))
    if backend == "cuda":
        return [(_PROVIDERS["cuda"], {"device_id": str(device)}), _PROVIDERS["cpu"]]
    return [_PROVIDERS["cpu"]]


def _infos(arguments: Sequence[Any]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(each.name, each.type, tuple(each.shape)) for each in arguments)
