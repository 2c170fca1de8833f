"""The real detector, listening to the real voice."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.engines.families.tiny_voices import load_of

from paraudio.engines import Audio, Job, Stop
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.engines.families.silero_vad import SileroVadFamily, SileroVadModel
from paraudio.engines.isolation import Isolation, open_process_isolation, open_thread_isolation
from paraudio.store import Store
from paraudio.testing import Case, LiveCase, check_session

pytestmark = pytest.mark.models

LEAD_S = 1.5
LIVE = ("live", "abandoned_live", "stopped_live", "wrong_live", "interleaved_live")
FILES = ["silero_vad_16k_sequence.onnx", "silero_vad.onnx"]


@pytest.fixture(scope="module")
def folder(model_store: Store) -> Path:
    path = model_store.path("silero-vad")
    assert path is not None
    return path


@pytest.fixture(scope="module")
def utterance(model_store: Store) -> Audio:
    """A sentence of the real voice between two silences, and nothing random in it."""
    session = PiperTtsFamily().load(load_of(model_store.path("piper-joe") or ""), Stop()).session()
    quiet = {"noise_scale": 0, "noise_w": 0}
    job = Job(task="tts", text="We are going to the market to buy some bread.", options=quiet)
    audio = session.run(session.prepare(job), Stop()).audio
    assert audio is not None
    silence = np.zeros(round(LEAD_S * audio.rate), np.float32)
    return Audio(np.concatenate((silence, audio.samples, silence)), audio.rate)


@pytest.fixture(scope="module", params=FILES)
def model(folder: Path, request: pytest.FixtureRequest) -> SileroVadModel:
    return SileroVadFamily().load(load_of(folder, task="vad", weight=request.param), Stop())


def found(model: SileroVadModel, audio: Audio) -> list[tuple[float, float]]:
    session = model.session()
    result = session.run(session.prepare(Job(task="vad", audio=audio)), Stop())
    return [
        (each.start / result.sample_rate, each.end / result.sample_rate) for each in result.segments
    ]


def test_speech_is_found_within_a_few_hundredths_of_a_second(
    model: SileroVadModel, utterance: Audio
) -> None:
    loud = np.flatnonzero(np.abs(utterance.samples) > 0.02) / utterance.rate
    segments = found(model, utterance)
    assert segments[0][0] == pytest.approx(loud[0], abs=0.15)
    assert segments[-1][1] == pytest.approx(loud[-1], abs=0.15)
    assert sum(end - start for start, end in segments) > 0.8 * (loud[-1] - loud[0])


def test_both_forms_of_the_model_find_the_same(folder: Path, utterance: Audio) -> None:
    one, other = (
        found(SileroVadFamily().load(load_of(folder, task="vad", weight=file), Stop()), utterance)
        for file in FILES
    )
    assert one == other


def test_noise_and_silence_hold_no_speech(model: SileroVadModel) -> None:
    rng = np.random.default_rng(0)
    for samples in (np.zeros(80_000), rng.normal(0, 0.01, 80_000), np.zeros(0)):
        assert found(model, Audio(samples.astype(np.float32), 16_000)) == []


def cut(audio: Audio, size: int) -> tuple[Audio, ...]:
    return tuple(
        Audio(audio.samples[at : at + size], audio.rate)
        for at in range(0, len(audio.samples), size)
    )


def case(isolation: Isolation, folder: Path, utterance: Audio) -> Case:
    job = Job(task="vad", audio=utterance)
    # The real model goes through an hour in seconds, so only the slow form is slow enough to stop.
    long = Audio(np.tile(utterance.samples, 200), utterance.rate)
    return Case(
        isolation=isolation,
        family=SileroVadFamily(),
        load=load_of(folder, task="vad", weight="silero_vad.onnx", model_id="silero"),
        job=job,
        other=replace(job, audio=Audio(utterance.samples[::2], utterance.rate)),
        invalid=replace(job, options={"threshold": 2}),
        long=replace(job, audio=long),
        live=LiveCase(
            job=replace(job, audio=None),
            pieces=cut(utterance, 30_000),
            other=cut(Audio(utterance.samples[::2], utterance.rate), 20_000),
            wrong="words",
            invalid=replace(job, audio=None, options={"threshold": 2}),
            slow_job=replace(job, audio=None),
            slow=long,
            whole=job,
        ),
        cancel_after_s=(0.0, 0.05, 0.5),
        stop_within_s=2.0,
    )


async def test_detector_keeps_every_promise_of_a_session_in_threads(
    folder: Path, utterance: Audio
) -> None:
    async with open_thread_isolation() as isolation:
        made = await check_session(case(isolation, folder, utterance))
    assert {"results", "interleaving", "invalid_job", "stop", "closing", *LIVE} <= set(made)


@pytest.mark.process
async def test_detector_keeps_every_promise_of_a_session_in_processes(
    folder: Path, utterance: Audio
) -> None:
    async with open_process_isolation() as isolation:
        made = await check_session(case(isolation, folder, utterance))
    assert {"results", "interleaving", "stop", "crash", "crashed_live", *LIVE} <= set(made)


@pytest.mark.parametrize("size", [1, 160, 800, 22_050])
def test_live_sound_gives_what_the_whole_gives_wherever_it_is_cut(
    model: SileroVadModel, utterance: Audio, size: int
) -> None:
    until = round((LEAD_S + 0.6) * utterance.rate) if size == 1 else len(utterance.samples)
    audio = Audio(utterance.samples[:until], utterance.rate)
    session = model.session()
    session.begin(Job(task="vad"), Stop())
    events = [
        event
        for at in range(0, until, size)
        for event in session.feed(Audio(audio.samples[at : at + size], audio.rate), Stop())
    ]
    *rest, last = session.finish(Stop())
    whole = session.run(session.prepare(Job(task="vad", audio=audio)), Stop())
    assert last.result == whole
    assert whole.segments
    told = [event.boundary.at for event in (*events, *rest) if event.boundary is not None]
    assert told == [
        place * audio.rate // whole.sample_rate
        for each in whole.segments
        for place in (each.start, each.end)
    ]
