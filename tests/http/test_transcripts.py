"""Transcripts as subtitles: cues from segments, from words, or from the text alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraudio.engines import Result, Segment, Word
from paraudio.http._render import Timing
from paraudio.http._transcripts import cues, plain, srt, subtitles, text_of, verbose_json, vtt

RATE = 1000
TIMING = Timing(1.0, 3.0)


def said(*words: tuple[str, int, int]) -> Result:
    spoken = tuple(Word(text, start, end, 0.5) for text, start, end in words)
    return Result(sample_rate=RATE, words=spoken)


def test_words_are_grouped_at_pauses_and_at_the_end_of_sentences() -> None:
    result = said(
        ("One", 0, 100),
        ("two.", 150, 300),
        ("Three", 350, 500),
        ("four", 550, 700),
        ("five", 1600, 1700),
    )
    found = cues(result, TIMING)
    assert [(cue.start, cue.end, cue.text) for cue in found] == [
        (0.0, 0.3, "One two."),
        (0.35, 0.7, "Three four"),
        (1.6, 1.7, "five"),
    ]
    assert found[0].confidence == pytest.approx(0.5)


@given(st.lists(st.text("abcdefg", min_size=1, max_size=12), min_size=1, max_size=60))
def test_no_word_is_lost_and_no_line_is_too_long(texts: list[str]) -> None:
    result = said(*[(text, n * 100, n * 100 + 90) for n, text in enumerate(texts)])
    found = cues(result, TIMING)
    assert " ".join(cue.text for cue in found) == " ".join(texts)
    assert all(len(cue.text) <= 84 for cue in found)
    assert [cue.start for cue in found] == sorted(cue.start for cue in found)


def test_a_text_without_places_is_one_cue_over_the_whole_sound() -> None:
    [cue] = cues(Result(text=" all of it "), TIMING)
    assert (cue.start, cue.end, cue.text) == (0.0, 3.0, "all of it")
    assert cues(Result(text=""), TIMING) == []


def test_segments_without_text_are_no_cues() -> None:
    result = Result(sample_rate=RATE, segments=(Segment(0, 5), Segment(5, 9, "said")))
    assert [cue.text for cue in cues(result, TIMING)] == ["said"]
    assert text_of(result) == "said"


def test_a_transcript_without_text_is_made_of_its_parts() -> None:
    assert text_of(said(("a", 0, 1), ("b", 2, 3))) == "a b"
    assert plain(Result(), TIMING) == "\n"


def _long(words: int, *, lost: int = 0) -> Result:
    """A segment of sentences of ten words, a second for each word, which has no punctuation."""
    said = [f"word{n}" + ("." if n % 10 == 9 else "") for n in range(words)]
    heard = [Word(text.strip("."), n * RATE, n * RATE + 900) for n, text in enumerate(said)]
    segment = Segment(0, words * RATE, " ".join(said))
    after = Segment(words * RATE, (words + 1) * RATE, "Short.")
    return Result(sample_rate=RATE, segments=(segment, after), words=tuple(heard[lost:]))


def test_a_long_segment_is_read_in_parts_that_keep_its_text() -> None:
    found = subtitles(_long(30), TIMING)
    assert [(cue.start, cue.end) for cue in found] == [(0, 9.9), (10, 19.9), (20, 29.9), (30, 31)]
    assert [cue.text.count(" ") for cue in found] == [9, 9, 9, 0]
    assert " ".join(cue.text for cue in found) == " ".join(s.text for s in _long(30).segments)
    assert srt(_long(30), TIMING).count("-->") == vtt(_long(30), TIMING).count("-->") == 4
    verbose = verbose_json(_long(30), TIMING, granularities=("segment",), temperature=0.0)
    assert isinstance(verbose["segments"], list)
    assert len(verbose["segments"]) == 2


def test_a_long_segment_whose_words_are_not_all_there_stays_whole() -> None:
    assert [cue.start for cue in subtitles(_long(30, lost=1), TIMING)] == [0, 30]
    silent = Result(text="a " * 100)
    assert len(subtitles(silent, TIMING)) == 1


def test_blank_lines_do_not_end_a_cue() -> None:
    result = Result(sample_rate=RATE, segments=(Segment(0, 500, "a\n\n\nb\r\n"),))
    assert srt(result, TIMING) == "1\n00:00:00,000 --> 00:00:00,500\na\nb\n\n"
    assert vtt(result, TIMING) == "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\na\nb\n\n"


@given(st.integers(0, 100 * 3600 * RATE - 1))
def test_clocks_count_hours_minutes_seconds_and_milliseconds(sample: int) -> None:
    result = Result(sample_rate=RATE, segments=(Segment(sample, sample, "x"),))
    match = re.search(r"(\d\d):(\d\d):(\d\d)\.(\d\d\d) -->", vtt(result, TIMING))
    assert match is not None
    hours, minutes, seconds, milliseconds = map(int, match.groups())
    assert minutes < 60
    assert seconds < 60
    assert ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds == sample


def test_words_without_a_rate_have_no_place() -> None:
    result = Result(text="a", words=(Word("a", 5, 9),))
    verbose = verbose_json(result, TIMING, granularities=("word",), temperature=0.0)
    assert verbose["words"] == [{"word": "a", "start": 0.0, "end": 0.0}]
    assert "segments" not in verbose


def test_no_confidence_at_all_is_not_taken_for_certainty() -> None:
    segments = (Segment(0, 5, "a", 0.0), Segment(5, 9, "b", 1.0), Segment(9, 12, "c"))
    result = Result(sample_rate=RATE, segments=segments)
    verbose = verbose_json(result, TIMING, granularities=("segment",), temperature=0.0)
    told = verbose["segments"]
    assert isinstance(told, list)
    sure = [segment["avg_logprob"] for segment in told if isinstance(segment, dict)]
    assert sure == [-20.7233, 0.0, 0.0]


def test_the_real_time_factor_of_no_sound_is_zero() -> None:
    assert Timing(1.0, 0.0).rtf == 0.0
