"""The real recogniser, listening to the real voice."""

import re
from collections.abc import Iterator
from dataclasses import replace

import jiwer
import numpy as np
import pytest
import trio
from tests.engines.families.tiny_voices import load_of

from paraudio.engines import Audio, Job, Result, Samples, Stop, StreamEvent
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.engines.families.pocketsphinx_asr import (
    PocketsphinxAsrFamily,
    PocketsphinxAsrSession,
)
from paraudio.engines.isolation import SessionHandle, open_process_isolation
from paraudio.store import Store
from paraudio.testing import Case, LiveCase, check_session

pytestmark = pytest.mark.models

SENTENCES = (
    "The sun is shining and the birds are singing.",
    "She opened the window and looked at the garden.",
    "We are going to the market to buy some bread.",
    "The train to the city leaves at seven in the morning.",
    "My brother works in a small office near the river.",
    "Please close the door when you leave the room.",
    "The children played in the park all afternoon.",
    "He wrote a long letter to his old friend.",
    "It was raining so we stayed at home and read books.",
    "The doctor told him to drink more water every day.",
)


@pytest.fixture(scope="module")
def spoken(model_store: Store) -> list[Audio]:
    """The sentences, said by the real voice without anything random in it."""
    session = PiperTtsFamily().load(load_of(model_store.path("piper-joe") or ""), Stop()).session()
    found = []
    for text in SENTENCES:
        job = Job(task="tts", text=text, options={"noise_scale": 0, "noise_w": 0})
        audio = session.run(session.prepare(job), Stop()).audio
        assert audio is not None
        found.append(audio)
    return found


@pytest.fixture(scope="module")
def session() -> Iterator[PocketsphinxAsrSession]:
    session = PocketsphinxAsrFamily().load(load_of("", task="asr"), Stop()).session()
    yield session
    session.close()


def heard(session: PocketsphinxAsrSession, audio: Audio) -> Result:
    return session.run(session.prepare(Job(task="asr", audio=audio)), Stop())


def plain(text: str) -> str:
    return re.sub(r"[^a-z' ]", "", text.lower())


def silence(seconds: float, rate: int = 22_050) -> Samples:
    return np.zeros(round(seconds * rate), dtype=np.float32)


def test_ten_plain_sentences_are_understood(
    session: PocketsphinxAsrSession, spoken: list[Audio]
) -> None:
    texts = [heard(session, audio).text or "" for audio in spoken]
    assert jiwer.wer([plain(text) for text in SENTENCES], texts) <= 0.2


def test_quiet_and_noisy_recordings_are_understood_too(
    session: PocketsphinxAsrSession, spoken: list[Audio]
) -> None:
    rng = np.random.default_rng(1)
    texts = []
    for audio in spoken:
        padded = np.concatenate((silence(1), audio.samples * 0.03, silence(1)))
        noisy = padded + rng.normal(0, 3e-5, len(padded)).astype(np.float32)
        texts.append(heard(session, Audio(noisy, audio.rate)).text or "")
    assert jiwer.wer([plain(text) for text in SENTENCES], texts) <= 0.2


def test_text_does_not_depend_on_what_was_heard_before(
    session: PocketsphinxAsrSession, spoken: list[Audio]
) -> None:
    forth = [heard(session, audio) for audio in spoken[:4]]
    back = [heard(session, audio) for audio in reversed(spoken[:4])]
    assert forth == back[::-1]


def test_silence_after_speech_is_an_empty_text(
    session: PocketsphinxAsrSession, spoken: list[Audio]
) -> None:
    assert heard(session, spoken[0]).text
    rng = np.random.default_rng(2)
    for samples in (silence(3), silence(0), rng.normal(0, 0.01, 60_000).astype(np.float32)):
        result = heard(session, Audio(samples, 22_050))
        assert (result.text, result.words, result.segments) == ("", (), ())


def test_words_and_stretches_are_where_they_are_said(
    session: PocketsphinxAsrSession, spoken: list[Audio]
) -> None:
    one, two = spoken[1], spoken[5]
    audio = Audio(
        np.concatenate((silence(1), one.samples, silence(2), two.samples, silence(1))), one.rate
    )
    result = heard(session, audio)
    first, second = result.segments
    assert first.start / 16_000 == pytest.approx(1, abs=0.2)
    assert first.end / 16_000 == pytest.approx(1 + one.seconds, abs=0.3)
    assert second.start / 16_000 == pytest.approx(3 + one.seconds, abs=0.2)
    assert result.text == f"{first.text} {second.text}"
    assert [word.text for word in result.words] == (result.text or "").split()
    for word, following in zip(result.words, result.words[1:], strict=False):
        assert 0 <= word.start < word.end <= following.start
    assert all(0 <= (word.confidence or 0) <= 1 for word in result.words)


def test_short_words_are_not_taken_for_silence(
    session: PocketsphinxAsrSession, model_store: Store
) -> None:
    voice = PiperTtsFamily().load(load_of(model_store.path("piper-joe") or ""), Stop()).session()
    for text in ("Yes.", "No.", "Stop."):
        audio = voice.run(voice.prepare(Job(task="tts", text=text, seed=1)), Stop()).audio
        assert audio is not None
        padded = np.concatenate((silence(1), audio.samples * 0.2, silence(1)))
        assert heard(session, Audio(padded, audio.rate)).text


def live(session: PocketsphinxAsrSession, audio: Audio, size: int) -> list[StreamEvent]:
    """The events of sound that comes in pieces, the last of them with the result."""
    session.begin(Job(task="asr"), Stop())
    events: list[StreamEvent] = []
    for at in range(0, len(audio.samples), size):
        events += session.feed(Audio(audio.samples[at : at + size], audio.rate), Stop())
    return [*events, *session.finish(Stop())]


def cut(audio: Audio, size: int) -> tuple[Audio, ...]:
    return tuple(
        Audio(audio.samples[at : at + size], audio.rate)
        for at in range(0, len(audio.samples), size)
    )


def texts(events: list[StreamEvent]) -> str:
    """The settled text; checks that the result has the same."""
    result = events[-1].result
    assert result is not None
    assert "".join(event.text or "" for event in events) == result.text
    assert [word.text for word in result.words] == result.text.split()
    return result.text


def test_live_sentences_are_understood_as_well_as_recorded_ones(
    session: PocketsphinxAsrSession, spoken: list[Audio]
) -> None:
    understood = []
    for audio in spoken:
        events = live(session, audio, audio.rate // 10)
        assert any(event.partial for event in events)
        understood.append(texts(events))
    assert jiwer.wer([plain(text) for text in SENTENCES], understood) <= 0.2


def test_live_stretches_are_settled_one_by_one_wherever_the_sound_is_cut(
    session: PocketsphinxAsrSession, spoken: list[Audio]
) -> None:
    one, two = spoken[1], spoken[5]
    parts = (silence(1), one.samples, silence(2), two.samples, silence(1))
    audio = Audio(np.concatenate(parts), one.rate)
    fine, coarse = (live(session, audio, size) for size in (441, len(audio.samples)))
    assert texts(fine) == texts(coarse)
    assert fine[-1] == coarse[-1]
    result, whole = fine[-1].result, heard(session, audio)
    assert result is not None
    assert jiwer.wer(whole.text or "", result.text or "") <= 0.3
    for each, other in zip(result.segments, whole.segments, strict=True):
        assert each.start / 16_000 == pytest.approx(other.start / 16_000, abs=0.2)
        assert each.end / 16_000 == pytest.approx(other.end / 16_000, abs=0.2)


def test_live_silence_and_noise_are_an_empty_text(session: PocketsphinxAsrSession) -> None:
    rng = np.random.default_rng(2)
    for samples in (silence(3), silence(0), rng.normal(0, 0.01, 200_000).astype(np.float32)):
        (last,) = live(session, Audio(samples, 22_050), 2205)
        assert last.result is not None
        assert (last.result.text, last.result.words, last.result.segments) == ("", (), ())


@pytest.mark.process
async def test_recogniser_keeps_every_promise_of_a_session(spoken: list[Audio]) -> None:
    job = Job(task="asr", audio=spoken[7])
    joined = np.concatenate([audio.samples for audio in spoken] * 3)
    async with open_process_isolation() as isolation:
        made = await check_session(
            Case(
                isolation=isolation,
                family=PocketsphinxAsrFamily(),
                load=load_of("", task="asr", model_id="sphinx"),
                job=job,
                other=replace(job, audio=spoken[6]),
                invalid=replace(job, language="xx"),
                long=replace(job, audio=Audio(joined, spoken[0].rate)),
                live=LiveCase(
                    job=replace(job, audio=None),
                    pieces=cut(spoken[7], 20_000),
                    other=cut(spoken[6], 50_000),
                    wrong="words",
                    invalid=replace(job, audio=None, language="xx"),
                    slow_job=replace(job, audio=None),
                    slow=Audio(joined, spoken[0].rate),
                ),
                cancel_after_s=(0.0, 0.1, 0.6),
                stop_within_s=3.0,
            )
        )
    assert {"results", "interleaving", "invalid_job", "stop", "stream", "crash"} <= set(made)
    assert {"live", "abandoned_live", "stopped_live", "wrong_live", "crashed_live"} <= set(made)


@pytest.mark.process
async def test_sixteen_requests_over_four_slots_are_understood_as_they_are_alone(
    spoken: list[Audio],
) -> None:
    jobs = [Job(task="asr", audio=spoken[number % 10]) for number in range(16)]
    together: dict[int, Result] = {}

    async def work(session: SessionHandle, index: int) -> None:
        for number in range(index, 16, 4):
            together[number] = await session.run(jobs[number])

    async with open_process_isolation() as isolation:
        model = await isolation.load(PocketsphinxAsrFamily(), load_of("", task="asr"))
        sessions = [await model.session() for _ in range(4)]
        alone = [await sessions[0].run(job) for job in jobs[:10]]
        async with trio.open_nursery() as nursery:
            for index, session in enumerate(sessions):
                nursery.start_soon(work, session, index)
        for session in sessions:
            await session.close()
        await model.close()
    assert [together[number] for number in range(16)] == [*alone, *alone[:6]]
