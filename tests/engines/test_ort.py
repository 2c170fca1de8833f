"""onnxruntime behind our own surface: runs, stops, refusals."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.engines.tiny_models import doubling, endless

from paraudio.engines import Stop, Stopped
from paraudio.engines._ort import OrtError, TensorInfo, open_session

ONES = {"x": np.ones(3, np.float32)}


def test_a_session_tells_what_it_takes_and_gives() -> None:
    session = open_session(doubling())
    assert session.inputs == (TensorInfo("x", "tensor(float)", ("n",)),)
    assert session.outputs == (TensorInfo("y", "tensor(float)", ("n",)),)
    assert session.metadata == {"maker": "a test"}
    assert session.backend == "cpu"


@pytest.mark.parametrize("shrink", [False, True])
def test_a_run_gives_the_outputs_in_order(shrink: bool) -> None:
    (doubled,) = open_session(doubling(), threads=2).run(ONES, Stop(), shrink=shrink)
    assert doubled.tolist() == [2, 2, 2]


def test_a_stop_ends_an_endless_run_and_only_that(capfd: pytest.CaptureFixture[str]) -> None:
    session = open_session(endless())
    doubler = open_session(doubling())
    for _ in range(3):
        stop = Stop()
        threading.Timer(0.05, stop.set).start()
        began = time.monotonic()
        with pytest.raises(Stopped):
            session.run(ONES, stop)
        assert time.monotonic() - began < 2
        assert doubler.run(ONES, Stop())[0].tolist() == [2, 2, 2]
    assert capfd.readouterr().err == ""


def test_a_run_that_was_stopped_before_does_not_begin() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        open_session(endless()).run(ONES, stop)


def test_a_load_that_was_stopped_before_does_not_begin() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        open_session(doubling(), stop=stop)


def test_a_load_is_stopped_inside_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Stop()

    # The library polls its flag from the first node on, so a stop as it is about to begin is one
    # that it must notice itself.
    def late(*_: object) -> list[object]:
        stop.set()
        return ["CPUExecutionProvider"]

    monkeypatch.setattr("paraudio.engines._ort._providers", late)
    with pytest.raises(Stopped) as caught:
        open_session(endless(), stop=stop)
    assert "MODEL_LOAD_CANCELED" in str(caught.value.__cause__)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(OrtError, match="protobuf"):
        open_session(b"no model")


def test_feeds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OrtError, match="rank"):
        open_session(doubling()).run({"x": np.ones((2, 2), np.float32)}, Stop())


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(OrtError, match="no backend 'tpu'"):
        open_session(doubling(), backend="tpu")


def test_the_library_keeps_to_itself_what_is_done_with_it(tmp_path: Path) -> None:
    model = tmp_path / "doubling.onnx"
    model.write_bytes(doubling())
    program = (
        "from pathlib import Path; import numpy as np; "
        "from paraudio.engines import Stop; from paraudio.engines._ort import open_session; "
        f"session = open_session(Path({str(model)!r})); "
        "print(session.run({'x': np.ones(3, np.float32)}, Stop())[0].tolist())"
    )
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    own = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**own, "HOME": str(home), "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "[2.0, 2.0, 2.0]\n"
    assert [*home.rglob("*"), *scratch.rglob("*")] == []
