import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.engines.families.tiny_voices import tiny_config

from paraudio.engines._text import Clause, Utterance, utterances
from paraudio.engines.families._piper_phonemes import MAX_PHONEMES, pieces, silent_piece
from paraudio.engines.families._piper_voice import PiperVoice, read_voice

# Recorded from Piper's own phonemizer.
SENTENCES: Final[dict[str, dict[str, list[str]]]] = json.loads(
    Path(__file__).with_name("phonemes.json").read_text(encoding="utf-8")
)["sentences"]


@pytest.fixture
def letters(tmp_path: Path) -> PiperVoice:
    """A voice that reads small letters: ``_`` is 0, ``^`` 1, ``$`` 2, space 3, ``a`` 10."""
    file = tmp_path / "voice.json"
    file.write_text(json.dumps(tiny_config()), encoding="utf-8")
    return read_voice(file)


def said(text: str, mark: str = "") -> Utterance:
    return (Clause(text, mark),)


def spelled(voice: PiperVoice, utterance: Utterance, limit: int = MAX_PHONEMES) -> list[str]:
    """What the numbers stand for, without the pads, which must be where they belong."""
    back = {numbers[0]: name for name, numbers in voice.ids.items()}
    found = []
    for numbers in pieces(voice, utterance, limit):
        assert numbers[0] == 1
        assert numbers[-1] == 2
        assert set(numbers[1::2]) == {0}
        found.append("".join(back[number] for number in numbers[2:-1:2]))
    return found


def test_numbers_begin_with_bos_and_pad_and_end_with_eos(letters: PiperVoice) -> None:
    assert list(pieces(letters, said("ab", "."))) == [[1, 0, 10, 0, 11, 0, 4, 0, 2]]
    assert silent_piece(letters) == [1, 0, 2]


def test_marks_inside_a_sentence_are_followed_by_a_space(letters: PiperVoice) -> None:
    utterance = (Clause("a", ","), Clause("b", ":"), Clause("c", ""), Clause("d", "?"))
    assert spelled(letters, utterance) == ["a, b: c d?"]


def test_capitals_are_read_as_small_letters_where_a_voice_has_no_capitals(
    letters: PiperVoice,
) -> None:
    assert spelled(letters, said("AbC")) == ["abc"]
    capitals = replace(letters, ids={**letters.ids, "A": (99,)})
    assert spelled(capitals, said("AbC")) == ["Abc"]


def test_what_a_voice_does_not_know_is_left_out(letters: PiperVoice) -> None:
    assert spelled(letters, said("aßb 日 c")) == ["assb  c"]
    assert spelled(letters, said("日本")) == []


def test_signs_of_beginning_and_end_cannot_be_said(letters: PiperVoice) -> None:
    assert spelled(letters, said("a^b$c_d")) == ["abcd"]


def test_phonemes_are_replaced_as_the_voice_says(letters: PiperVoice) -> None:
    assert spelled(replace(letters, replaced={"c": ("k", "h")}), said("cab")) == ["khab"]


def test_phoneme_of_several_numbers_keeps_them_together(letters: PiperVoice) -> None:
    voice = replace(letters, ids={**letters.ids, "a": (50, 51)})
    assert list(pieces(voice, said("ab"))) == [[1, 0, 50, 51, 0, 11, 0, 2]]


def test_long_utterance_is_cut_at_spaces(letters: PiperVoice) -> None:
    found = spelled(letters, said("word " * 30), limit=22)
    assert all(len(each) <= 22 for each in found)
    assert [word for each in found for word in each.split()] == ["word"] * 30


def test_long_word_is_cut_where_it_must_be(letters: PiperVoice) -> None:
    found = spelled(letters, said("a" * 100), limit=30)
    assert [len(each) for each in found] == [30, 30, 30, 10]


def test_accents_are_letters_of_their_own(letters: PiperVoice) -> None:
    voice = replace(letters, ids={**letters.ids, "\N{COMBINING ACUTE ACCENT}": (60,)})
    assert list(pieces(voice, said("é"))) == [[1, 0, 14, 0, 60, 0, 2]]


@pytest.mark.parametrize("espeak_voice", sorted(SENTENCES))
def test_text_is_read_as_piper_reads_it(letters: PiperVoice, espeak_voice: str) -> None:
    known = {
        char for each in SENTENCES.values() for said in each.values() for char in "".join(said)
    }
    alphabet = sorted(known)
    ids = {"_": (0,), "^": (1,), "$": (2,)} | {
        char: (number,) for number, char in enumerate(alphabet, start=3)
    }
    voice = replace(letters, phoneme_type="espeak", espeak_voice=espeak_voice, ids=ids)
    for text, wanted in SENTENCES[espeak_voice].items():
        assert [line for each in utterances(text) for line in spelled(voice, each)] == wanted
