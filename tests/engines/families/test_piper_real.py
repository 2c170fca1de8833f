"""The real voice: what it says is checked by its own promises, and by what hears it elsewhere."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import trio
from tests.engines.families.tiny_voices import load_of
from tests.engines.isolation.processes import pid_of

from paraudio.engines import Job, Samples, Stop
from paraudio.engines.families.piper_tts import PiperTtsFamily, PiperTtsModel
from paraudio.engines.isolation import (
    SessionHandle,
    open_process_isolation,
    open_thread_isolation,
)
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json
from paraudio.store import Store
from paraudio.testing import Case, check_abandoned_stream, check_interleaving, check_stop

pytestmark = pytest.mark.models

TEXT = "The sun rose over the hills. A small bird sang, and the wind was still. Who goes there?"
QUIET: dict[str, Json] = {"noise_scale": 0, "noise_w": 0}


@pytest.fixture(scope="module")
def joe(model_store: Store) -> Path:
    path = model_store.path("piper-joe")
    assert path is not None
    return path


@pytest.fixture(scope="module")
def model(joe: Path) -> Iterator[PiperTtsModel]:
    model = PiperTtsFamily().load(load_of(joe), Stop())
    yield model
    model.close()


def spoken(model: PiperTtsModel, job: Job) -> Samples:
    session = model.session()
    result = session.run(session.prepare(job), Stop())
    assert result.audio is not None
    assert result.audio.rate == 22_050
    return result.audio.samples


async def test_voice_can_be_stopped_and_shared(joe: Path) -> None:
    async with open_thread_isolation() as isolation:
        job = Job(task="tts", text="A small bird sang.", options=QUIET)
        case = Case(
            isolation=isolation,
            family=PiperTtsFamily(),
            load=load_of(joe, model_id="joe"),
            job=job,
            other=replace(job, text="Who goes there?", seed=7, options={}),
            invalid=replace(job, text="..."),
            long=Job(task="tts", text=TEXT * 20),
            cancel_after_s=(0.0, 0.05, 0.5),
            stop_within_s=2.0,
        )
        for check in (check_interleaving, check_stop, check_abandoned_stream):
            assert await check(case)


def maps_weights(session: SessionHandle) -> bool:
    """Whether the worker of a session has a file of weights in its memory."""
    return ".onnx" in Path(f"/proc/{pid_of(session)}/maps").read_text(encoding="utf-8")


@pytest.mark.process
@pytest.mark.parametrize("settled", [True, False])
async def test_workers_hold_the_weights_of_a_settled_file_once(
    joe: Path, model: PiperTtsModel, *, settled: bool
) -> None:
    """One that may be written over while it is used is read, for what is mapped would change."""
    job = Job(task="tts", text="Who goes there?", seed=3)
    load = replace(load_of(joe, model_id="joe"), settled=settled)
    async with open_process_isolation() as isolation:
        opened = await isolation.load(PiperTtsFamily(), load)
        sessions = [await opened.session() for _ in range(2)]
        for session in sessions:
            result = await session.run(job)
            assert result.audio is not None
            np.testing.assert_array_equal(result.audio.samples, spoken(model, job))
        for session in sessions:
            assert maps_weights(session) == settled
            await session.close()
        await opened.close()


async def test_sixteen_requests_over_four_slots_sound_as_they_do_alone(
    joe: Path, model: PiperTtsModel
) -> None:
    jobs = [
        Job(
            task="tts",
            text=f"This is number {number}. And so on.",
            seed=2**64 - 1 - number if number % 2 else number,
            speed=1 + number / 16,
        )
        for number in range(16)
    ]
    alone = await trio.to_thread.run_sync(lambda: [spoken(model, job) for job in jobs])
    together: dict[int, Samples] = {}

    async def work(session: SessionHandle, index: int) -> None:
        for number in range(index, 16, 4):
            result = await session.run(jobs[number])
            assert result.audio is not None
            together[number] = result.audio.samples

    async with open_thread_isolation() as isolation:
        handle = await isolation.load(PiperTtsFamily(), load_of(joe))
        sessions = [await handle.session() for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for index, session in enumerate(sessions):
                nursery.start_soon(work, session, index)
        for session in sessions:
            await session.close()
        await handle.close()
    for number, samples in enumerate(alone):
        np.testing.assert_array_equal(together[number], samples)


def test_seed_decides_the_sound_and_its_absence_leaves_it_open(model: PiperTtsModel) -> None:
    job = Job(task="tts", text=TEXT, seed=5)
    first = spoken(model, job)
    np.testing.assert_array_equal(spoken(model, job), first)
    assert not np.array_equal(spoken(model, replace(job, seed=6)), first)
    unseeded = replace(job, seed=None)
    assert not np.array_equal(spoken(model, unseeded), spoken(model, unseeded))


def test_sound_has_the_length_and_the_noise_of_speech(model: PiperTtsModel) -> None:
    samples = spoken(model, Job(task="tts", text=TEXT, seed=5))
    assert 4 * 22_050 < len(samples) < 10 * 22_050
    assert np.abs(samples).max() == pytest.approx(1, abs=0.01)
    assert 0.03 < float(np.sqrt(np.square(samples).mean())) < 0.4
    quick = spoken(model, Job(task="tts", text=TEXT, seed=5, speed=2.0))
    assert 0.4 * len(samples) < len(quick) < 0.7 * len(samples)


def test_long_text_without_a_mark_is_spoken_whole_in_bounded_memory(model: PiperTtsModel) -> None:
    word = spoken(model, Job(task="tts", text="word " * 8, options=QUIET, speed=4.0))
    session = model.session()
    prepared = session.prepare(Job(task="tts", text="word " * 400, options=QUIET, speed=4.0))
    before = psutil.Process().memory_info().rss
    sizes = [
        len(event.audio.samples)
        for event in session.stream(prepared, Stop())
        if event.audio is not None
    ]
    grown = psutil.Process().memory_info().rss - before
    assert sum(sizes) > 0.7 * 50 * len(word)
    assert max(sizes) < 22_050 * 15
    assert grown - 8 * sum(sizes) < 200 << 20


@pytest.mark.contract("beyond/g11_memory_released_after_unload")
def test_memory_comes_back_when_the_voice_is_closed(joe: Path) -> None:
    process = psutil.Process()
    left = []
    for _ in range(4):
        model = PiperTtsFamily().load(load_of(joe), Stop())
        session = model.session()
        session.run(session.prepare(Job(task="tts", text=TEXT)), Stop())
        held = process.memory_info().rss
        session.close()
        model.close()
        left.append(process.memory_info().rss)
        assert held - left[-1] > 40 << 20
    assert left[-1] - left[0] < 16 << 20


def test_text_beyond_the_limit_is_refused(model: PiperTtsModel) -> None:
    with pytest.raises(InvalidRequestError, match="50000") as caught:
        model.session().prepare(Job(task="tts", text="word " * 200_000))
    assert caught.value.param == "input"


@pytest.mark.parametrize("text", ["😀", "<speak>" + "<p>Hello there.</p>" * 250 + "</speak>", "5"])
def test_what_has_a_name_is_spoken(model: PiperTtsModel, text: str) -> None:
    session = model.session()
    prepared = session.prepare(Job(task="tts", text=text, speed=4.0))
    audio = next(iter(session.stream(prepared, Stop()))).audio
    assert audio is not None
    assert audio.seconds > 0.1


def test_live_text_gives_the_samples_of_the_whole_text(model: PiperTtsModel) -> None:
    text = "Good morning. Dr. Hill said it costs 3.14, or so. Is that all? Then come in"
    job = Job(task="tts", seed=5, speed=3.0)
    session = model.session()
    session.begin(job, Stop())
    counts = [len(session.feed(word + " ", Stop())) for word in text.split()]
    assert [index for index, count in enumerate(counts) if count] == [1, 9, 12]
    last = session.finish(Stop())[-1].result
    assert last is not None
    assert last.audio is not None
    np.testing.assert_array_equal(last.audio.samples, spoken(model, replace(job, text=text + " ")))


def test_letters_that_the_voice_does_not_read_are_refused_or_told(model: PiperTtsModel) -> None:
    session = model.session()
    cyrillic = "\N{CYRILLIC SMALL LETTER EM}\N{CYRILLIC SMALL LETTER I}\N{CYRILLIC SMALL LETTER ER}"
    with pytest.raises(InvalidRequestError, match="Cyrillic letters") as caught:
        session.prepare(Job(task="tts", text=cyrillic))
    assert caught.value.param == "input"
    result = session.run(session.prepare(Job(task="tts", text=f"Hello {cyrillic}.")), Stop())
    assert result.audio is not None
    assert "Cyrillic letters" in str(result.artifacts["warnings"])
