"""The startup check of onnxruntime says what is wrong and what mends it."""

from types import SimpleNamespace

import onnxruntime
import pytest
from onnx import TensorProto, helper

from paraudio.engines import _ort, onnxruntime_check
from paraudio.engines._ort import OrtError
from paraudio.engines.onnxruntime_check import PROBE, check_onnxruntime


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = ["onnxruntime-gpu"]
    monkeypatch.setattr(onnxruntime_check, "installed_distributions", lambda: names)
    return names


def use_module(monkeypatch: pytest.MonkeyPatch, **contents: object) -> None:
    module = SimpleNamespace(set_default_logger_severity=lambda _: None, **contents)
    monkeypatch.setattr(onnxruntime_check, "library", lambda: module)
    monkeypatch.setattr(_ort, "library", lambda: module)


def complete(*providers: str) -> dict[str, object]:
    return {
        "__version__": "1.2.3",
        "InferenceSession": object,
        "get_available_providers": lambda: list(providers),
    }


def test_this_installation_is_sound_on_the_cpu() -> None:
    report = check_onnxruntime("cpu")
    assert report.backend == "cpu"
    assert report.version == onnxruntime.__version__
    assert report.problems == ()


def test_two_distributions_in_one_folder_are_named(installed: list[str]) -> None:
    installed.append("onnxruntime")
    (problem,) = check_onnxruntime("cpu").problems
    assert "onnxruntime-gpu and onnxruntime" in problem.text
    assert "pip uninstall" in problem.text
    assert not problem.fatal


def test_a_gutted_module_is_fatal(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use_module(monkeypatch)
    (problem,) = check_onnxruntime("cpu").problems
    assert problem.fatal
    assert "incomplete" in problem.text


def test_a_missing_module_is_fatal(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        raise ModuleNotFoundError("No module named 'onnxruntime'")

    monkeypatch.setattr(onnxruntime_check, "library", missing)
    (problem,) = check_onnxruntime("auto").problems
    assert problem.fatal


def test_cuda_without_its_provider_is_fatal(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_module(monkeypatch, **complete("CPUExecutionProvider"))
    report = check_onnxruntime("cuda")
    assert report.backend == "cuda"
    (problem,) = report.problems
    assert problem.fatal
    assert "no CUDA provider" in problem.text


def test_cuda_without_a_device_is_fatal(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_module(monkeypatch, **complete("CUDAExecutionProvider", "CPUExecutionProvider"))
    monkeypatch.setattr(onnxruntime_check, "cuda_devices", lambda: 1)
    (problem,) = check_onnxruntime("cuda", device=1).problems
    assert problem.fatal
    assert "no CUDA device 1: the driver shows 1" in problem.text


@pytest.mark.parametrize("backend", ["cuda", "auto"])
def test_cuda_that_does_not_open_is_told_with_the_extra_that_mends_it(
    backend: str, installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise OrtError("libcublasLt.so.13: cannot open shared object file")

    use_module(monkeypatch, **complete("CUDAExecutionProvider", "CPUExecutionProvider"))
    monkeypatch.setattr(onnxruntime_check, "cuda_devices", lambda: 1)
    monkeypatch.setattr(onnxruntime_check, "open_session", refuse)
    report = check_onnxruntime(backend)
    (problem,) = report.problems
    assert "libcublasLt" in problem.text
    assert ".[cuda]" in problem.text
    assert problem.fatal == (backend == "cuda")
    assert report.backend == ("cuda" if backend == "cuda" else "cpu")


def test_auto_takes_cuda_where_it_opens(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_module(monkeypatch, **complete("CUDAExecutionProvider", "CPUExecutionProvider"))
    monkeypatch.setattr(onnxruntime_check, "cuda_devices", lambda: 1)
    monkeypatch.setattr(onnxruntime_check, "open_session", lambda *_, **__: None)
    assert check_onnxruntime("auto") == onnxruntime_check.OnnxruntimeReport("cuda", "1.2.3", ())


def test_auto_is_the_cpu_without_a_device_and_says_nothing(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime_check, "cuda_devices", lambda: 0)
    report = check_onnxruntime("auto")
    assert (report.backend, report.problems) == ("cpu", ())


def test_the_probe_is_the_model_that_it_says() -> None:
    shape = [1]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model.producer_name = ""
    assert model.SerializeToString() == PROBE
