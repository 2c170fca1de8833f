"""Words that a voice does not read: judged by what espeak really says of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.engines.families.tiny_voices import load_of, tiny_config, tiny_model, write_voice

from paraudio.engines import Job, LiveSession, Session, Stop
from paraudio.engines.families._piper_script import Unread, unread
from paraudio.engines.families._piper_voice import PiperVoice, read_voice
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

TEXTS: Final = json.loads(Path(__file__).with_name("scripts.json").read_text(encoding="utf-8"))
WORDS: Final = TEXTS["words"]
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ids: dict[str, Json] = {name: [index + 10] for index, name in enumerate(ALPHABET)}
    english = tiny_config(
        phoneme_type="espeak",
        espeak={"voice": "en-us"},
        language={"code": "en_US"},
        phoneme_id_map={"_": [0], "^": [1], "$": [2], **ids},
    )
    return write_voice(tmp_path, tiny_model(), english)


@pytest.fixture
def english(folder: Path) -> PiperVoice:
    return read_voice(folder.with_name(f"{folder.name}.json"))


@pytest.fixture
def session(folder: Path) -> Session:
    return PiperTtsFamily().load(load_of(folder), Stop()).session()


@pytest.mark.parametrize(("text", "scripts"), TEXTS["unread"])
def test_words_of_which_only_the_letters_are_named_are_not_read(
    english: PiperVoice, text: str, scripts: list[str]
) -> None:
    assert unread(english, text) == Unread(tuple(scripts), whole=True)
    for more in (f"{text} and so on", f"7 {text}"):
        assert unread(english, more) == Unread(tuple(scripts), whole=False)


@pytest.mark.parametrize("text", TEXTS["read"])
def test_words_that_are_read_by_rules_are_not_complained_of(english: PiperVoice, text: str) -> None:
    assert unread(english, text) is None


def test_a_word_that_is_read_saves_those_beside_it(english: PiperVoice) -> None:
    assert unread(english, WORDS["chinese_and_korean"]) == Unread(("Chinese",), whole=False)


def test_the_voice_decides(english: PiperVoice) -> None:
    german = replace(english, espeak_voice="de", language="de_DE")
    assert unread(german, WORDS["greek"]) is None
    assert unread(german, WORDS["cyrillic"]) == Unread(("Cyrillic",), whole=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"espeak_voice": "ru", "language": "ru_RU"},
        {"espeak_voice": "sr", "language": "sr_RS"},
        {"language": ""},
        {"phoneme_type": "text"},
    ],
)
def test_a_voice_of_which_nothing_is_known_is_not_judged(
    english: PiperVoice, changes: dict[str, str]
) -> None:
    assert unread(replace(english, **changes), WORDS["cyrillic"]) is None  # type: ignore[arg-type] # strings


def test_a_text_of_nothing_else_is_refused(session: Session) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        session.prepare(Job(task="tts", text=WORDS["cyrillic"]))
    assert caught.value.param == "input"
    assert caught.value.message == (
        "input is written in Cyrillic letters, which this voice for en-US does not read; "
        "use a voice for the language of the text"
    )


def test_a_text_of_which_a_part_is_not_read_is_spoken_with_a_warning(session: Session) -> None:
    told = ["input has Cyrillic letters, which this voice for en-US only names, one by one"]
    job = Job(task="tts", text=WORDS["part"], seed=1)
    result = session.run(session.prepare(job), Stop())
    assert result.audio is not None
    assert result.artifacts == {"warnings": told}
    *_, last = session.stream(session.prepare(job), Stop())  # type: ignore[attr-defined] # it can
    assert last.result.artifacts == {"warnings": told}
    plain = session.run(session.prepare(replace(job, text="Hello and friends.")), Stop())
    assert plain.artifacts == {}


def test_live_text_is_warned_of_at_its_end_and_only_then(session: Session) -> None:
    assert isinstance(session, LiveSession)
    for text, count in ((WORDS["live"], 1), ("Hello.", 0)):
        session.begin(Job(task="tts"), Stop())
        for piece in text:
            session.feed(piece, Stop())
        result = session.finish(Stop())[-1].result
        assert result is not None
        warnings = result.artifacts.get("warnings", [])
        assert isinstance(warnings, list)
        assert len(warnings) == count
        session.reset()
