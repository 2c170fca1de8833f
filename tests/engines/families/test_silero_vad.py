import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.engines.families.tiny_voices import load_of

from paraudio.engines import Audio, Job, Result, Segment, Stop, Stopped
from paraudio.engines.families.silero_vad import SileroVadFamily, SileroVadModel, frames
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

RATE = 16_000


def tiny_detector(*, stepwise: bool = False) -> bytes:
    """A detector that takes the loudest sample of a frame's own 512 for a probability.

    It hands its state on plus one, so that what it is given can be seen in what it gives.
    """
    state = "state" if stepwise else "h"
    sizes = [2, None, 128] if stepwise else [1, 1, 128]
    names = ("output", "stateN") if stepwise else ("speech_probs", "hn")
    nodes = [
        helper.make_node("Slice", ["input", "from", "to", "axis"], ["own"]),
        helper.make_node("Abs", ["own"], ["loudness"]),
        helper.make_node("ReduceMax", ["loudness"], [names[0]], axes=[1], keepdims=int(stepwise)),
        helper.make_node("Add", [state, "one"], [names[1]]),
    ]
    inputs = [
        helper.make_tensor_value_info("input", TensorProto.FLOAT, ["frames", 576]),
        helper.make_tensor_value_info(state, TensorProto.FLOAT, sizes),
    ]
    shape: list[str | int | None] = ["frames", 1] if stepwise else ["frames"]
    outputs = [
        helper.make_tensor_value_info(names[0], TensorProto.FLOAT, shape),
        helper.make_tensor_value_info(names[1], TensorProto.FLOAT, sizes),
    ]
    if stepwise:
        inputs.append(helper.make_tensor_value_info("sr", TensorProto.INT64, []))
    else:
        nodes.append(helper.make_node("Add", ["c", "one"], ["cn"]))
        inputs.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, sizes))
        outputs.append(helper.make_tensor_value_info("cn", TensorProto.FLOAT, sizes))
    constants = [
        helper.make_tensor(name, TensorProto.INT64, [1], [value])
        for name, value in (("from", 64), ("to", 576), ("axis", 1))
    ]
    constants.append(helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]))
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 13)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return data


def opened(folder: Path, *, stepwise: bool = False) -> SileroVadModel:
    file = folder / "detector.onnx"
    file.write_bytes(tiny_detector(stepwise=stepwise))
    return SileroVadFamily().load(load_of(file, task="vad"), Stop())


@pytest.fixture(params=[False, True], ids=["sequence", "stepwise"])
def model(tmp_path: Path, request: pytest.FixtureRequest) -> SileroVadModel:
    return opened(tmp_path, stepwise=request.param)


def talk(*parts: tuple[float, float]) -> Audio:
    """Sound of seconds and loudness each."""
    pieces = [np.full(round(seconds * RATE), level, np.float32) for seconds, level in parts]
    return Audio(np.concatenate(pieces), RATE)


def heard(model: SileroVadModel, audio: Audio, **options: Json) -> Result:
    session = model.session()
    prepared = session.prepare(Job(task="vad", audio=audio, options=options))
    return session.run(prepared, Stop())


def test_speech_is_found_in_samples_at_sixteen_kilohertz(model: SileroVadModel) -> None:
    result = heard(model, talk((1, 0), (2, 0.9), (1, 0)), speech_pad_ms=0)
    assert result.sample_rate == RATE
    (segment,) = result.segments
    assert abs(segment.start - RATE) < 512
    assert abs(segment.end - 3 * RATE) < 512
    assert segment.confidence == pytest.approx(0.9, abs=0.02)


def test_sound_of_any_rate_is_brought_to_sixteen_kilohertz(model: SileroVadModel) -> None:
    at_48 = talk((1, 0), (2, 0.9), (1, 0))
    audio = Audio(np.repeat(at_48.samples, 3), 48_000)
    (segment,) = heard(model, audio).segments
    assert abs(segment.start - RATE) < 1100
    assert abs(segment.end - 3 * RATE) < 1100


@pytest.mark.parametrize("samples", [0, 1, 511, 512, 513, 512 * 512, 512 * 512 + 1])
def test_sound_of_any_length_is_heard_whole(model: SileroVadModel, samples: int) -> None:
    audio = Audio(np.full(samples, 0.9, np.float32), RATE)
    segments = heard(model, audio, min_speech_ms=0).segments
    assert [(each.start, each.end) for each in segments] == ([(0, samples)] if samples else [])


def test_silence_holds_no_speech(model: SileroVadModel) -> None:
    assert heard(model, talk((5, 0))).segments == ()


def test_options_decide_what_is_speech(model: SileroVadModel) -> None:
    audio = talk((1, 0), (0.2, 0.6), (0.3, 0), (1, 0.9), (1, 0))
    assert len(heard(model, audio).segments) == 1
    assert len(heard(model, audio, min_speech_ms=100).segments) == 2
    assert len(heard(model, audio, min_speech_ms=100, threshold=0.7).segments) == 1
    assert len(heard(model, audio, min_speech_ms=100, min_silence_ms=400).segments) == 1
    (wide,) = heard(model, audio, speech_pad_ms=500).segments
    (narrow,) = heard(model, audio, speech_pad_ms=0).segments
    assert narrow.start - wide.start == wide.end - narrow.end == RATE // 2
    cut = heard(model, talk((5, 0.9)), max_speech_s=1.0, speech_pad_ms=0).segments
    assert all(each.end - each.start <= RATE for each in cut)


def test_frames_carry_the_end_of_the_one_before() -> None:
    samples = np.arange(1, 512 * 600 + 100, dtype=np.float32)
    rows = np.concatenate(list(frames(samples)))
    assert rows.shape == (601, 576)
    assert not rows[0, :64].any()
    np.testing.assert_array_equal(rows[1:, :64], rows[:-1, -64:])
    np.testing.assert_array_equal(rows[:, 64:].reshape(-1)[: len(samples)], samples)
    assert not rows[-1, 64 + 99 :].any()


def test_state_is_handed_from_block_to_block_and_begins_anew(tmp_path: Path) -> None:
    model = opened(tmp_path)
    session = model.session()
    detector = session._open()
    state = detector.start()
    for count in range(3):
        assert all((part == count).all() for part in state)
        _, state = detector.step(np.zeros((1, 576), np.float32), state, Stop())
    session.run(session.prepare(Job(task="vad", audio=talk((40, 0)))), Stop())
    assert all(not part.any() for part in detector.start())


def test_sessions_at_work_together_give_what_each_gives_alone(model: SileroVadModel) -> None:
    sounds = [talk((0.5, 0), (0.3 + number / 10, 0.9), (1, 0)) for number in range(16)]
    alone = [heard(model, sound).segments for sound in sounds]
    start = threading.Barrier(4)

    def work(index: int) -> list[tuple[Segment, ...]]:
        start.wait()
        return [heard(model, sound).segments for sound in sounds[index::4]]

    with ThreadPoolExecutor(4) as pool:
        for index, found in enumerate(pool.map(work, range(4))):
            assert found == alone[index::4]


def test_stop_ends_the_work(model: SileroVadModel) -> None:
    session = model.session()
    stop = Stop()
    stop.set()
    prepared = session.prepare(Job(task="vad", audio=talk((1, 0.9))))
    with pytest.raises(Stopped):
        session.run(prepared, stop)
    session.reset()
    assert session.run(prepared, Stop()).segments


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"threshold": 1}, "options.threshold"),
        ({"min_speech_ms": -1}, "options.min_speech_ms"),
        ({"max_speech_s": 0.5}, "options.max_speech_s"),
        ({"threshhold": 0.5}, "options.threshhold"),
    ],
)
def test_wrong_option_is_refused_by_name(
    model: SileroVadModel, options: dict[str, Json], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        heard(model, talk((1, 0)), **options)
    assert caught.value.param == param


def test_job_of_another_kind_is_refused(model: SileroVadModel) -> None:
    session = model.session()
    job = Job(task="vad", audio=talk((1, 0)))
    for wrong, param in ((replace(job, task="asr"), "task"), (replace(job, audio=None), "audio")):
        with pytest.raises(InvalidRequestError) as caught:
            session.prepare(wrong)
        assert caught.value.param == param
    with pytest.raises(TypeError):
        session.run(Result(), Stop())


def test_files_of_the_package_are_known_by_name(tmp_path: Path) -> None:
    family = SileroVadFamily()
    (tmp_path / "silero_vad.onnx").write_bytes(tiny_detector(stepwise=True))
    (tmp_path / "silero_vad_half.onnx").write_bytes(b"")
    load = load_of(tmp_path, task="vad")
    assert family.inspect(load) == {"sample_rate": RATE, "file": "silero_vad.onnx"}
    (tmp_path / "silero_vad_16k_sequence.onnx").write_bytes(tiny_detector())
    assert family.inspect(load)["file"] == "silero_vad_16k_sequence.onnx"
    assert family.estimate(load) > 0
    picked = load_of(tmp_path, task="vad", weight="silero_vad.onnx")
    assert family.load(picked, Stop()).session() is not None


@pytest.mark.parametrize("data", [b"", b"no model", tiny_detector()[:-9]])
def test_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.onnx").write_bytes(data)
    with pytest.raises(InvalidRequestError) as caught:
        SileroVadFamily().load(load_of(tmp_path, task="vad"), Stop())
    assert caught.value.param == "path"


@pytest.mark.parametrize("missing", [b"sr", b"state"])
def test_detector_of_another_kind_is_refused(tmp_path: Path, missing: bytes) -> None:
    model = tiny_detector(stepwise=True).replace(missing, missing.upper())
    (tmp_path / "a.onnx").write_bytes(model)
    with pytest.raises(InvalidRequestError, match="no Silero detector") as caught:
        SileroVadFamily().load(load_of(tmp_path, task="vad"), Stop())
    assert caught.value.param == "path"


def test_closed_session_listens_no_more(model: SileroVadModel) -> None:
    session = model.session()
    prepared = session.prepare(Job(task="vad", audio=talk((1, 0))))
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(prepared, Stop())


def test_closed_detector_builds_no_session(model: SileroVadModel) -> None:
    assert 1 <= model.capacity() <= 16
    assert model.voices() == ()
    model.close()
    model.close()
    with pytest.raises(RuntimeError, match="closed"):
        model.session()
