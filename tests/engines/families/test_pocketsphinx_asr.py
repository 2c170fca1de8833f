import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from tests.engines.families.test_pocketsphinx_gate import silence, syllables
from tests.engines.families.tiny_voices import load_of

from paraudio.engines import (
    Audio,
    Job,
    Result,
    Samples,
    Segment,
    Stop,
    Stopped,
    StreamEvent,
    Word,
)
from paraudio.engines.families._sphinx_model import packaged
from paraudio.engines.families.pocketsphinx_asr import (
    PocketsphinxAsrFamily,
    PocketsphinxAsrModel,
    PocketsphinxAsrSession,
)
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

RATE = 16_000


@dataclass
class Heard:
    """What the library calls a segment."""

    word: str
    start_frame: int
    end_frame: int
    prob: float = 1.0


@dataclass
class Guess:
    """What the library calls a hypothesis."""

    hypstr: str


@dataclass
class FakeDecoder:
    """A decoder that understands what it is told to, and notes what is done with it.

    Attributes:
        answers: What each utterance is understood as, in turn.
        log: What was called.
        samples: Samples of each utterance.
        stop: Set after the first piece of sound, if given.
        guesses: What an open utterance is taken for, in turn.
    """

    answers: list[list[Heard]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    stop: Stop | None = None
    guesses: list[str] = field(default_factory=list)

    def reinit_feat(self) -> None:
        self.log.append("new features")

    def start_utt(self) -> None:
        self.log.append("start")
        self.samples.append(0)

    def process_raw(self, data: bytes, _no_search: bool, full_utt: bool) -> None:
        assert not full_utt
        assert 0 < len(data) <= 3200
        self.samples[-1] += len(data) // 2
        if self.stop is not None:
            self.stop.set()

    def end_utt(self) -> None:
        self.log.append("end")

    def hyp(self) -> Guess | None:
        return Guess(self.guesses.pop(0)) if self.guesses else None

    def seg(self) -> list[Heard] | None:
        return self.answers.pop(0) if self.answers else None


def job(samples: Samples, rate: int = RATE, **changes: object) -> Job:
    return replace(Job(task="asr", audio=Audio(samples, rate)), **changes)  # type: ignore[arg-type] # fields by name


def two_stretches() -> Samples:
    return np.concatenate([silence(1), syllables(), silence(2), syllables(), silence(1)])


def test_words_are_at_their_places_in_the_whole_sound() -> None:
    decoder = FakeDecoder(
        [
            [Heard("<s>", 0, 9), Heard("hello", 10, 49, 0.5), Heard("</s>", 50, 60)],
            [
                Heard("<sil>", 0, 4),
                Heard("the(2)", 5, 14, 1.2),
                Heard("[NOISE]", 15, 19),
                Heard("end", 20, 999, -0.1),
                Heard("++UH++", 1000, 1001),
            ],
        ]
    )
    session = PocketsphinxAsrSession(decoder, "en")
    result = session.run(session.prepare(job(two_stretches())), Stop())
    first, second = (segment.start for segment in result.segments)
    assert result.text == "hello the end"
    assert result.language == "en"
    assert result.sample_rate == RATE
    hello, the, end = result.words
    assert hello == Word("hello", first, first + 6400, 0.5)
    assert the == Word("the", second, second + 1600, 1.0)
    assert (end.text, end.confidence) == ("end", 0.0)
    assert end.end <= len(two_stretches())
    assert abs(first - 10 * 160 - 0.8 * RATE) < 0.1 * RATE
    assert abs(second - 5 * 160 - 3.8 * RATE) < 0.1 * RATE
    assert result.segments[0] == Segment(hello.start, hello.end, "hello", 0.5)
    assert result.segments[1].text == "the end"


def test_each_request_begins_with_new_features() -> None:
    decoder = FakeDecoder()
    session = PocketsphinxAsrSession(decoder, "en")
    for _ in range(2):
        session.run(session.prepare(job(two_stretches())), Stop())
    assert decoder.log == ["new features", "start", "end", "start", "end"] * 2
    assert 2 * sum(decoder.samples[:2]) == sum(decoder.samples)


def test_silence_is_an_empty_text_and_never_reaches_the_library() -> None:
    decoder = FakeDecoder([[Heard("phantom", 0, 9)]])
    session = PocketsphinxAsrSession(decoder, "en")
    for samples in (silence(0), silence(3)):
        result = session.run(session.prepare(job(samples)), Stop())
        assert (result.text, result.words, result.segments) == ("", (), ())
    assert "start" not in decoder.log


def test_detector_can_be_switched_off() -> None:
    decoder = FakeDecoder([[Heard("phantom", 0, 9)]])
    session = PocketsphinxAsrSession(decoder, "en")
    everything = job(silence(50), options={"vad": False})
    assert session.run(session.prepare(everything), Stop()).text == "phantom"
    assert decoder.samples == [20 * RATE, 20 * RATE, 10 * RATE]


def test_sound_of_any_rate_is_brought_to_sixteen_kilohertz() -> None:
    decoder = FakeDecoder()
    session = PocketsphinxAsrSession(decoder, "en")
    sound = job(np.repeat(silence(3), 3), 48_000, options={"vad": False})
    session.run(session.prepare(sound), Stop())
    assert decoder.samples == [3 * RATE]


def test_stretch_without_words_is_no_segment() -> None:
    decoder = FakeDecoder([[Heard("<sil>", 0, 9)], [Heard("yes", 0, 9)]])
    session = PocketsphinxAsrSession(decoder, "en")
    result = session.run(session.prepare(job(two_stretches())), Stop())
    assert [segment.text for segment in result.segments] == ["yes"]


def test_stream_gives_the_text_of_each_stretch_and_then_the_whole() -> None:
    answers = [[Heard("one", 0, 9), Heard("two", 10, 19)], [Heard("three", 0, 9)]]
    session = PocketsphinxAsrSession(FakeDecoder([*answers, *answers]), "en")
    prepared = session.prepare(job(two_stretches()))
    events = list(session.stream(prepared, Stop()))
    assert [event.text for event in events] == ["one two", " three", None]
    assert events[-1].result == session.run(prepared, Stop())


def test_stop_is_seen_between_pieces_and_the_utterance_is_ended_by_the_reset() -> None:
    stop = Stop()
    decoder = FakeDecoder(stop=stop)
    session = PocketsphinxAsrSession(decoder, "en")
    with pytest.raises(Stopped):
        session.run(session.prepare(job(two_stretches())), stop)
    assert decoder.log[-1] == "start"
    assert decoder.samples == [1600]
    session.reset()
    assert decoder.log[-3:] == ["end", "start", "end"]
    decoder.stop = None
    session.run(session.prepare(job(two_stretches())), Stop())


def test_stop_before_the_end_spares_the_last_search() -> None:
    stop = Stop()
    decoder = FakeDecoder(stop=stop)
    session = PocketsphinxAsrSession(decoder, "en")
    short = job(silence(0.05), options={"vad": False})
    with pytest.raises(Stopped):
        session.run(session.prepare(short), stop)
    assert "end" not in decoder.log


def fed(
    session: PocketsphinxAsrSession,
    samples: Samples,
    size: int,
    rate: int = RATE,
    **changes: object,
) -> list[StreamEvent]:
    """The events of sound that comes in pieces, the last of them with the result."""
    begun = replace(Job(task="asr"), **changes)  # type: ignore[arg-type] # fields by name
    session.begin(begun, Stop())
    events: list[StreamEvent] = []
    for at in range(0, len(samples), size):
        events += session.feed(Audio(samples[at : at + size], rate), Stop())
    return [*events, *session.finish(Stop())]


@pytest.mark.parametrize("size", [1, 160, 700, 16_000, 10**6])
def test_live_words_are_at_their_places_wherever_the_sound_is_cut(size: int) -> None:
    answers = [[Heard("hello", 10, 49, 0.5)], [Heard("<s>", 0, 4), Heard("there(2)", 5, 14)]]
    sound = two_stretches()
    decoder = FakeDecoder([*answers, *answers])
    session = PocketsphinxAsrSession(decoder, "en")
    *events, last = fed(session, sound, size)
    live, lengths = last.result, decoder.samples[:]
    assert live is not None
    assert [event.text for event in events] == ["hello", " there"]
    whole = session.run(session.prepare(job(sound)), Stop())
    assert live.text == whole.text == "hello there"
    assert [word.text for word in live.words] == ["hello", "there"]
    for one, other in zip(live.words, whole.words, strict=True):
        assert abs(one.start - other.start) < 0.1 * RATE
    for length, whole_length in zip(lengths, decoder.samples[2:], strict=True):
        assert abs(length - whole_length) < 0.1 * RATE
    assert decoder.log[:5] == ["new features", "start", "end", "start", "end"]


def test_partials_come_while_an_utterance_goes_on_and_its_text_when_it_has_ended() -> None:
    decoder = FakeDecoder([[Heard("one", 0, 9)]], guesses=["", "<s> won(2)", "won", "one"])
    session = PocketsphinxAsrSession(decoder, "en")
    session.begin(Job(task="asr"), Stop())
    assert session.feed(Audio(silence(1), RATE), Stop()) == []
    talk = syllables(seconds=2)
    said = [
        event.partial
        for at in range(0, len(talk), 1600)
        for event in session.feed(Audio(talk[at : at + 1600], RATE), Stop())
    ]
    assert said == ["won", "one"]
    assert session.feed(Audio(silence(1), RATE), Stop()) == [StreamEvent(text="one")]
    assert len(session.finish(Stop())) == 1


def test_live_silence_never_reaches_the_library() -> None:
    decoder = FakeDecoder([[Heard("phantom", 0, 9)]])
    session = PocketsphinxAsrSession(decoder, "en")
    for samples in (silence(0), silence(3), np.full(5 * RATE, 0.3, np.float32)):
        (last,) = fed(session, samples, 1600)
        assert last.result is not None
        assert (last.result.text, last.result.words) == ("", ())
    assert "start" not in decoder.log


def test_speech_that_begins_with_the_sound_is_heard_from_its_beginning() -> None:
    decoder = FakeDecoder([[Heard("yes", 0, 9)]])
    session = PocketsphinxAsrSession(decoder, "en")
    (_, last) = fed(session, np.concatenate((syllables(seconds=2), silence(1))), 800)
    assert last.result is not None
    assert decoder.samples[0] >= 2 * RATE


def test_live_speech_without_a_pause_is_cut_in_bounds_and_loses_nothing() -> None:
    breathless = np.concatenate([syllables(seconds=25), silence(1)])
    decoder = FakeDecoder()
    session = PocketsphinxAsrSession(decoder, "en")
    fed(session, breathless, 3000)
    assert len(decoder.samples) == 2
    assert max(decoder.samples) <= 20.1 * RATE
    assert sum(decoder.samples) >= 25 * RATE
    short = np.concatenate([syllables(seconds=2), silence(0.3)] * 10)
    decoder.samples.clear()
    fed(session, short, 3000)
    assert all(9.9 * RATE < each < 13 * RATE for each in decoder.samples[:-1])
    assert abs(sum(decoder.samples) - len(short)) < RATE


def test_detector_can_be_switched_off_live_too() -> None:
    decoder = FakeDecoder([[Heard("phantom", 0, 9)]])
    session = PocketsphinxAsrSession(decoder, "en")
    events = fed(session, silence(50), 7000, options={"vad": False})
    assert [event.text for event in events] == ["phantom", None]
    assert decoder.samples == [20 * RATE, 20 * RATE, 10 * RATE]


def test_live_sound_of_any_rate_is_brought_to_sixteen_kilohertz() -> None:
    decoder = FakeDecoder()
    session = PocketsphinxAsrSession(decoder, "en")
    fed(session, np.repeat(silence(3), 3), 999, 48_000, options={"vad": False})
    assert decoder.samples == [3 * RATE]


def test_stop_in_a_live_piece_leaves_a_session_that_a_reset_makes_new() -> None:
    decoder = FakeDecoder()
    session = PocketsphinxAsrSession(decoder, "en")
    session.begin(Job(task="asr"), Stop())
    decoder.stop = Stop()
    with pytest.raises(Stopped):
        session.feed(Audio(syllables(seconds=3), RATE), decoder.stop)
    assert decoder.log[-1] == "start"
    decoder.stop = None
    session.reset()
    assert decoder.log[-3:] == ["end", "start", "end"]
    with pytest.raises(RuntimeError, match="begun"):
        session.feed(Audio(silence(1), RATE), Stop())


def test_wrong_live_job_or_piece_is_refused_by_field() -> None:
    session = PocketsphinxAsrSession(FakeDecoder(), "en")
    for wrong, param in (
        (Job(task="tts"), "task"),
        (Job(task="asr", language="de"), "language"),
        (Job(task="asr", options={"vad": 1}), "options.vad"),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            session.begin(wrong, Stop())
        assert caught.value.param == param
    session.begin(Job(task="asr"), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        session.feed("words", Stop())
    assert caught.value.param == "audio"
    session.feed(Audio(silence(1), RATE), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        session.feed(Audio(silence(1), 8_000), Stop())
    assert caught.value.param == "sample_rate"


@pytest.mark.parametrize("language", [None, "", "en", "en-US", "en_gb", "EN"])
def test_english_is_taken(language: str | None) -> None:
    PocketsphinxAsrSession(FakeDecoder(), "en").prepare(job(silence(1), language=language))


@pytest.mark.parametrize("language", ["de", "xx", "english", "auto"])
def test_other_language_is_refused_by_name(language: str) -> None:
    with pytest.raises(InvalidRequestError, match=language) as caught:
        PocketsphinxAsrSession(FakeDecoder(), "en").prepare(job(silence(1), language=language))
    assert caught.value.param == "language"


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        (replace(job(silence(1)), task="tts"), "task"),
        (replace(job(silence(1)), audio=None), "audio"),
        (job(silence(1), options={"vad": 1}), "options.vad"),
        (job(silence(1), options={"beam": 1}), "options.beam"),
    ],
)
def test_wrong_job_is_refused_by_field(wrong: Job, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        PocketsphinxAsrSession(FakeDecoder(), "en").prepare(wrong)
    assert caught.value.param == param


def test_only_its_own_preparations_are_run() -> None:
    with pytest.raises(TypeError):
        PocketsphinxAsrSession(FakeDecoder(), "en").run(Result(), Stop())


def opened(path: str = "", **changes: object) -> PocketsphinxAsrModel:
    return PocketsphinxAsrFamily().load(load_of(path, task="asr", **changes), Stop())


def test_model_of_the_package_is_there_without_a_path() -> None:
    family = PocketsphinxAsrFamily()
    load = load_of("", task="asr")
    facts = family.inspect(load)
    assert facts == {
        "sample_rate": RATE,
        "languages": ["en"],
        "dictionary": "cmudict-en-us.dict",
    }
    assert 50 << 20 < family.estimate(load) < 500 << 20
    assert family.isolation == "process"


@pytest.mark.parametrize("options", [{}, {"fast": True}], ids=["precise", "fast"])
def test_library_hears_nothing_in_silence_and_survives_a_reset(options: dict[str, Json]) -> None:
    model = opened(session_options=options)
    assert 1 <= model.capacity() <= 16
    assert model.voices() == ()
    session = model.session()
    for samples in (silence(2), silence(0), np.full(RATE, 1.0, np.float32)):
        assert session.run(session.prepare(job(samples)), Stop()).text == ""
    session.reset()
    session.close()
    model.close()


class LateStop(Stop):
    """A stop that comes when the work has looked for it a number of times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def check(self) -> None:
        self._looks -= 1
        if self._looks == 0:
            self.set()
        super().check()


def test_stop_in_the_middle_of_real_work_leaves_a_usable_session() -> None:
    session = opened().session()
    sound = session.prepare(job(syllables(0.3, 2), options={"vad": False}))
    before = session.run(sound, Stop())
    for looks in (1, 2, 10, 22):
        with pytest.raises(Stopped):
            session.run(sound, LateStop(looks))
        session.reset()
        assert session.run(sound, Stop()) == before


def copied(folder: Path, *left_out: str) -> Path:
    """The packaged model in a folder of its own, without some of it."""
    for file in packaged().iterdir():
        if file.name not in left_out:
            (folder / file.name).symlink_to(file)
    return folder


def test_model_may_lie_in_a_folder(tmp_path: Path) -> None:
    facts = PocketsphinxAsrFamily().inspect(
        load_of(copied(tmp_path), task="asr", options={"language": "de"})
    )
    assert facts["languages"] == ["de"]


def test_acoustic_model_may_lie_beside_the_rest(tmp_path: Path) -> None:
    copied(tmp_path, "en-us", "en-us-phone.lm.bin")
    shutil.copytree(packaged() / "en-us", tmp_path, dirs_exist_ok=True)
    assert PocketsphinxAsrFamily().inspect(load_of(tmp_path, task="asr"))["sample_rate"] == RATE


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("en-us", "one acoustic model"),
        ("cmudict-en-us.dict", "one dictionary"),
        ("en-us.lm.bin", "one language model"),
    ],
)
def test_incomplete_model_is_refused_with_what_is_missing(
    tmp_path: Path, missing: str, words: str
) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        opened(str(copied(tmp_path, missing)))
    assert caught.value.param == "path"


def test_wrong_places_are_refused_by_field(tmp_path: Path) -> None:
    for changes, param in (
        ({"path": str(tmp_path / "none")}, "path"),
        ({"config": "a.json"}, "config"),
        ({"weight": "a.bin"}, "weight"),
        ({"session_options": {"fast": "yes"}}, "session_options.fast"),
        ({"options": {"language": 1}}, "load_options.language"),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            opened(**{"path": "", **changes})  # type: ignore[arg-type] # fields by name
        assert caught.value.param == param
