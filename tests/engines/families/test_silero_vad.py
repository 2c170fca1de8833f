import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.engines.families.tiny_voices import load_of

from paraudio.engines import Audio, Boundary, Job, Result, Segment, Stop, Stopped
from paraudio.engines.families._silero_detector import frames
from paraudio.engines.families.silero_vad import SileroVadFamily, SileroVadModel
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


def cut(audio: Audio, size: int) -> list[Audio]:
    """The sound in pieces of ``size`` samples."""
    return [
        Audio(audio.samples[at : at + size], audio.rate)
        for at in range(0, len(audio.samples), size)
    ]


def heard_live(
    model: SileroVadModel, pieces: list[Audio], **options: Json
) -> tuple[list[Boundary], Result]:
    session = model.session()
    session.begin(Job(task="vad", options=options), Stop())
    events = [event for piece in pieces for event in session.feed(piece, Stop())]
    *rest, last = session.finish(Stop())
    boundaries = [event.boundary for event in (*events, *rest) if event.boundary is not None]
    assert len(boundaries) == len(events) + len(rest)
    assert last.result is not None
    return boundaries, last.result


def places(boundaries: list[Boundary]) -> list[tuple[int, int]]:
    assert [each.kind for each in boundaries] == ["start", "end"] * (len(boundaries) // 2)
    at = [each.at for each in boundaries]
    return list(zip(at[::2], at[1::2], strict=True))


@pytest.mark.parametrize("rate", [RATE, 8_000, 44_100])
@pytest.mark.parametrize("size", [1, 7, 256, 511, 512, 513, 5000, 10**6])
def test_live_sound_gives_what_the_whole_gives_wherever_it_is_cut(
    model: SileroVadModel, size: int, rate: int
) -> None:
    seconds = 0.5 if size == 1 else 6.0
    rng = np.random.default_rng(7)
    loudness = np.repeat(rng.random(round(seconds * 10)), rate // 10).astype(np.float32)
    audio = Audio(loudness * (rng.random(len(loudness), np.float32) * 2 - 1), rate)
    options: dict[str, Json] = {"min_speech_ms": 100, "speech_pad_ms": 40}
    boundaries, live = heard_live(model, cut(audio, size), **options)
    whole = heard(model, audio, **options)
    assert live == whole
    assert live.segments
    assert places(boundaries) == [
        (each.start * rate // RATE, each.end * rate // RATE) for each in whole.segments
    ]


@pytest.mark.parametrize("pieces", [[], [Audio(np.empty(0, np.float32), 48_000)]])
def test_live_sound_that_never_came_holds_no_speech(
    model: SileroVadModel, pieces: list[Audio]
) -> None:
    assert heard_live(model, pieces) == ([], heard(model, talk((0, 0))))


def test_boundaries_come_while_the_sound_goes_on(model: SileroVadModel) -> None:
    session = model.session()
    session.begin(Job(task="vad", options={"speech_pad_ms": 0}), Stop())
    assert session.feed(talk((1, 0), (0.2, 0.9)), Stop()) == []
    (start,) = session.feed(talk((0.3, 0.9)), Stop())
    assert start.boundary is not None
    assert start.boundary.kind == "start"
    assert abs(start.boundary.at - RATE) < 512
    (end,) = session.feed(talk((0.3, 0)), Stop())
    assert end.boundary is not None
    assert end.boundary.kind == "end"
    assert abs(end.boundary.at - 1.5 * RATE) < 512


def test_live_job_leaves_nothing_for_the_next(model: SileroVadModel) -> None:
    session = model.session()
    session.begin(Job(task="vad"), Stop())
    session.feed(talk((0.7, 0.9)), Stop())
    session.reset()
    with pytest.raises(RuntimeError, match="begun"):
        session.feed(talk((1, 0.9)), Stop())
    session.begin(Job(task="vad"), Stop())
    session.feed(Audio(talk((0.01, 0)).samples, 8_000), Stop())
    (last,) = session.finish(Stop())
    assert last.result is not None
    assert last.result.segments == ()


def test_live_piece_of_the_wrong_kind_is_refused(model: SileroVadModel) -> None:
    session = model.session()
    for wrong in (Job(task="asr"), Job(task="vad", options={"threshold": 7})):
        with pytest.raises(InvalidRequestError):
            session.begin(wrong, Stop())
    session.begin(Job(task="vad"), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        session.feed("words", Stop())
    assert caught.value.param == "audio"
    session.feed(talk((0.1, 0)), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        session.feed(Audio(np.zeros(10, np.float32), 48_000), Stop())
    assert caught.value.param == "sample_rate"


def test_stop_ends_a_piece(model: SileroVadModel) -> None:
    session = model.session()
    session.begin(Job(task="vad"), Stop())
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        session.feed(talk((1, 0.9)), stop)
    session.reset()
    assert heard(model, talk((1, 0.9))).segments
