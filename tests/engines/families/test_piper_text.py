import itertools
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paraudio.engines._text import (
    MAX_UTTERANCE,
    MAX_WORD,
    Clause,
    GrowingText,
    Utterance,
    utterances,
)


def cut(text: str) -> list[list[tuple[str, str]]]:
    return [[(clause.text, clause.mark) for clause in each] for each in utterances(text)]


def test_sentences_are_utterances_of_clauses_with_their_marks() -> None:
    assert cut("Hello, world. How are you? Fine! Really: yes; ok") == [
        [("Hello", ","), ("world", ".")],
        [("How are you", "?")],
        [("Fine", "!")],
        [("Really", ":"), ("yes", ";"), ("ok", "")],
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("i like it. it is good. ok.", ["i like it", "it is good", "ok"]),
        ("Call me at 5 p.m. on Monday.", ["Call me at 5 p.m. on Monday"]),
        ("Apples, pears etc. are fruit.", ["Apples pears etc. are fruit"]),
        ("Dr. Smith met Mr. T. J. Hooker. He left.", ["Dr. Smith met Mr. T. J. Hooker", "He left"]),
        ("Better than I. So choose b. Then go.", ["Better than I", "So choose b", "Then go"]),
        ("See fig. 3 vs. the rest. No. Yes.", ["See fig. 3 vs. the rest", "No", "Yes"]),
        ("It costs 3.14 at example.com today.", ["It costs 3.14 at example.com today"]),
        ("Ein Satz. Äpfel.", ["Ein Satz", "Äpfel"]),
        ('He said "Go." Then left.', ['He said "Go"', "Then left"]),
        ("Wait... what?! Yes…", ["Wait", "what", "Yes"]),
        ("日本語です。はい、そう。", ["日本語です", "はい そう"]),
        ("One\ntwo\n\nthree\r\n\r\nfour", ["One two", "three", "four"]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, sentences: list[str]) -> None:
    assert [" ".join(clause.text for clause in each) for each in utterances(text)] == sentences


@pytest.mark.parametrize(
    ("run", "mark"),
    [("?!", "?"), ("!?", "!"), ("...", "."), (",...", "."), (",,", ","), ("؟", "?")],
)
def test_run_of_marks_is_one_mark(run: str, mark: str) -> None:
    assert cut(f"Word{run} Next")[0][0] == ("Word", mark)


def test_dash_of_print_is_a_pause() -> None:
    assert cut("He came—late—home.") == [[("He came", ";"), ("late", ";"), ("home", ".")]]


@pytest.mark.parametrize("text", ["", "   ", "\n\n\n", "\0\7\x1b", "!!! ... ???", '"—"', "\ud800"])
def test_what_has_no_words_is_nothing(text: str) -> None:
    assert cut(text) == []


def test_symbols_with_names_are_words() -> None:
    assert cut("😀") == [[("😀", "")]]
    assert cut("+") == [[("+", "")]]


def test_control_characters_are_spaces() -> None:
    assert cut("a\0b\x01c\td\x85e") == [[("a b c d e", "")]]


def test_tags_of_ssml_are_dropped_and_its_words_stay() -> None:
    ssml = '<?xml version="1.0"?><speak version="1.1">Hi <break time="1s"/>A &amp; B.</speak>'
    assert cut(ssml) == [[("Hi A & B", ".")]]
    assert cut("a < b and c > d") == [[("a < b and c > d", "")]]


def test_long_text_without_marks_is_cut_between_words() -> None:
    found = cut("word " * 4000)
    assert "".join(text for each in found for text, _ in each).count("word") == 4000
    assert all(len(text) <= MAX_UTTERANCE for each in found for text, _ in each)


def test_long_sentence_is_cut_between_clauses() -> None:
    found = list(utterances(", ".join(["some words of a clause"] * 40) + "."))
    assert len(found) > 1
    assert found[0][-1] == Clause("some words of a clause", ",")
    assert found[-1][-1] == Clause("some words of a clause", ".")


@pytest.mark.parametrize(
    "word",
    ["Donaudampfschifffahrtsgesellschaft", "достопримечательностями", "well-to-do-people's-"],
)
def test_long_real_word_is_left_whole(word: str) -> None:
    assert cut(word) == [[(word, "")]]


@pytest.mark.parametrize(
    "word", ["x" * 30, "1" * 31, "a" * (MAX_WORD + 1), "https://a.example/b?c=d&e=f"]
)
def test_what_is_no_word_is_cut_short_enough_to_be_spelled(word: str) -> None:
    pieces = cut(word)[0][0][0].split()
    assert len(pieces) > 1
    assert "".join(pieces) == word


@given(st.text(st.characters(codec="utf-8"), max_size=400))
def test_no_letter_or_digit_is_lost_and_none_is_added(text: str) -> None:
    if text.lstrip().startswith(("<speak", "<?xml")):
        return
    found = "".join(clause.text for each in utterances(text) for clause in each)
    assert [char for char in found if char.isalnum()] == [char for char in text if char.isalnum()]


@given(st.text(st.sampled_from("ab .,?!\n\"'—日。x1"), max_size=1000))
def test_every_utterance_is_small_and_says_something(text: str) -> None:
    for each in utterances(text):
        assert each
        assert sum(len(clause.text) for clause in each) <= MAX_UTTERANCE
        assert all(any(char.isalnum() for char in clause.text) for clause in each)


@pytest.mark.parametrize(
    "text",
    [
        "." * 200_000 + "a",
        "a. " * 60_000,
        "Mr. " * 50_000,
        '."' * 100_000,
        "." + '"' * 199_999 + "a",
        "\n" + " " * 200_000 + "a",
        ("\n" + " " * 450) * 450 + "a",
        "<speak>" + "<" * 200_000,
        "a" * 200_000,
    ],
    ids=lambda text: text[:8],
)
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    start = time.process_time()
    for _ in utterances(text):
        pass
    assert time.process_time() - start < 3


def test_first_utterance_does_not_wait_for_the_rest() -> None:
    start = time.process_time()
    next(utterances("Hello there. " + "And so on. " * 90_000))
    assert time.process_time() - start < 0.1


def grown(text: str, cuts: list[int]) -> list[Utterance]:
    """The utterances of a text that comes cut at some places."""
    growing = GrowingText()
    found: list[Utterance] = []
    edges = [0, *sorted(min(each, len(text)) for each in cuts), len(text)]
    for start, end in itertools.pairwise(edges):
        found += growing.push(text[start:end])
    return found + growing.end()


LETTERS = "ab 3.,!?:;…—。\uff0c\n\t\0\"')("
WORDS = ["Mr", "Dr. ", "p.m. ", "etc. ", "I", "Next", "\n\n", ". ", "? ", "<speak>", "<p>"]
WRITTEN = st.lists(
    st.sampled_from([*LETTERS, *WORDS, "word " * 30]),
    max_size=40,
).map("".join)


@example("Dr. \n\na", [])
@given(WRITTEN, st.lists(st.integers(0, 200), max_size=12))
def test_text_that_is_being_written_is_cut_as_the_whole_is(text: str, cuts: list[int]) -> None:
    assert grown(text, cuts) == list(utterances(text))


@given(WRITTEN)
def test_text_that_comes_letter_by_letter_is_cut_as_the_whole_is(text: str) -> None:
    assert grown(text, list(range(len(text)))) == list(utterances(text))


def test_sentence_is_whole_as_soon_as_nothing_can_change_it() -> None:
    growing = GrowingText()
    assert growing.push("It costs 3.") == []
    assert growing.push("14, says Mr.") == []
    assert growing.push(" Hill.") == []
    assert growing.push(" ") == [(Clause("It costs 3.14", ","), Clause("says Mr. Hill", "."))]
    assert growing.push("Is it?  Then") == [(Clause("Is it", "?"),)]
    assert growing.end() == [(Clause("Then", ""),)]
    assert growing.end() == []


def test_markup_is_read_when_it_has_ended() -> None:
    growing = GrowingText()
    assert growing.push("<sp") == []
    assert growing.push("eak>One. Two. ") == []
    assert growing.end() == list(utterances("<speak>One. Two. "))


def test_text_without_an_end_is_cut_in_time_however_it_comes() -> None:
    started = time.process_time()
    text = "word, " * 8_000
    assert grown(text, list(range(len(text)))) == list(utterances(text))
    assert time.process_time() - started < 5
