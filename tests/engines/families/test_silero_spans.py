import json
import math
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraudio.engines import Boundary
from paraudio.engines.families._spans import RATE, LiveFinder, Rules, find_speech

FRAME: Final = 512

# Recorded from the function that Silero publishes with its model.
RECORDED: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("speech_spans.json").read_text(encoding="utf-8")
)


def found(
    probabilities: list[float], rules: Rules, length: int | None = None
) -> list[tuple[int, int]]:
    size = len(probabilities) * FRAME if length is None else length
    return [(span.start, span.end) for span in find_speech(probabilities, size, rules, frame=FRAME)]


def plain(**changes: float) -> Rules:
    """Rules that drop, join and pad nothing but what ``changes`` says."""
    return Rules(**{"min_speech_ms": 0, "min_silence_ms": 0, "speech_pad_ms": 0, **changes})


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_speech_is_found_where_silero_finds_it(case: dict[str, Any]) -> None:
    speech = found(case["probabilities"], Rules(**case["rules"]), case["length"])
    assert speech == [tuple(each) for each in case["speech"]]


def test_nothing_is_found_in_nothing() -> None:
    assert found([], Rules()) == []
    assert found([0.0] * 100, Rules()) == []


def test_speech_begins_at_the_threshold_and_ends_below_it_by_more_than_a_little() -> None:
    assert found([0.0, 0.5, 0.4, 0.36, 0.34, 0.0], plain()) == [(FRAME, 4 * FRAME)]
    assert found([0.0, 0.49, 0.49], plain()) == []


def test_short_speech_is_dropped() -> None:
    loud = [0.0, 0.0, 0.9, 0.9, 0.9, 0.0, 0.0]
    assert found(loud, plain(min_speech_ms=95)) == [(2 * FRAME, 5 * FRAME)]
    assert found(loud, plain(min_speech_ms=96)) == []


def test_short_pause_is_part_of_speech() -> None:
    talk = [0.9] * 5 + [0.0] * 3 + [0.9] * 5 + [0.0] * 10
    assert found(talk, plain(min_silence_ms=96)) == [(0, 13 * FRAME)]
    assert found(talk, plain(min_silence_ms=64)) == [(0, 5 * FRAME), (8 * FRAME, 13 * FRAME)]


def test_speech_is_padded_within_the_sound() -> None:
    assert found([0.9] * 3, plain(speech_pad_ms=100)) == [(0, 3 * FRAME)]
    talk = [0.0] * 10 + [0.9] * 3 + [0.0] * 10
    assert found(talk, plain(speech_pad_ms=32)) == [(9 * FRAME, 14 * FRAME)]


def test_close_stretches_share_the_silence_between_them() -> None:
    talk = [0.9] * 5 + [0.0] * 4 + [0.9] * 5 + [0.0] * 9
    (_, end), (start, _) = found(talk, plain(speech_pad_ms=100))
    assert end == start == 7 * FRAME


def test_long_speech_is_cut_at_its_longest_pause() -> None:
    talk = [0.9] * 20 + [0.0] * 5 + [0.9] * 5 + [0.0] * 9 + [0.9] * 30
    cut = found(talk, plain(min_silence_ms=1000, max_speech_s=2))
    assert cut[:2] == [(0, 30 * FRAME), (39 * FRAME, 69 * FRAME)]


def test_long_speech_without_a_pause_is_cut_all_the_same() -> None:
    cut = found([0.9] * 200, plain(max_speech_s=1))
    assert len(cut) > 5
    assert all(end - start <= RATE for start, end in cut)


@given(
    st.lists(st.floats(0, 1), max_size=200),
    st.integers(0, FRAME - 1),
    st.builds(
        Rules,
        threshold=st.floats(0.05, 0.95),
        min_speech_ms=st.integers(0, 500),
        min_silence_ms=st.integers(0, 500),
        speech_pad_ms=st.integers(0, 500),
        max_speech_s=st.one_of(st.just(math.inf), st.floats(1.5, 10)),
    ),
)
def test_stretches_are_in_order_and_inside_the_sound(
    probabilities: list[float], short: int, rules: Rules
) -> None:
    length = max(0, len(probabilities) * FRAME - short)
    last = 0
    for start, end in found(probabilities, rules, length):
        assert last <= start <= end <= length
        last = end


def told(
    probabilities: list[float], rules: Rules, length: int, pieces: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The stretches that boundaries tell live, and those of the end; the order is checked."""
    finder = LiveFinder(rules, FRAME)
    whole = length // FRAME
    boundaries = []
    for first in range(0, whole, pieces):
        now = finder.take(probabilities[first : min(first + pieces, whole)])
        assert all(each.at <= min(first + pieces, whole) * FRAME for each in now)
        boundaries += now
    last, spans = finder.finish(probabilities[whole:], length)
    boundaries += last
    assert [each.kind for each in boundaries] == ["start", "end"] * len(spans)
    places = [each.at for each in boundaries]
    assert places == sorted(places)
    stretches = list(zip(places[::2], places[1::2], strict=True))
    return stretches, [(span.start, span.end) for span in spans]


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_boundaries_told_live_are_those_of_the_whole(case: dict[str, Any]) -> None:
    rules, length = Rules(**case["rules"]), case["length"]
    live, whole = told(case["probabilities"], rules, length, 7)
    assert live == whole == [tuple(each) for each in case["speech"]]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.4, 0.9]), st.integers(1, 12)), max_size=25).map(
        lambda runs: [level for level, count in runs for _ in range(count)]
    ),
    st.builds(
        Rules,
        min_speech_ms=st.sampled_from([0, 32, 100, 250, 2000]),
        min_silence_ms=st.sampled_from([0, 32, 100, 500]),
        speech_pad_ms=st.sampled_from([0, 30, 50, 200, 1000]),
        max_speech_s=st.sampled_from([math.inf, 1.0, 2.5]),
    ),
    st.integers(0, FRAME - 1),
    st.sampled_from([1, 3, 1000]),
)
def test_no_place_that_was_told_is_moved_by_what_follows(
    probabilities: list[float], rules: Rules, short: int, pieces: int
) -> None:
    length = max(0, len(probabilities) * FRAME - short)
    live, whole = told(probabilities, rules, length, pieces)
    assert live == whole == found(probabilities, rules, length)


def test_beginning_is_told_as_soon_as_it_is_sure_to_stay() -> None:
    finder = LiveFinder(Rules(min_speech_ms=100, speech_pad_ms=0, min_silence_ms=64), FRAME)
    assert finder.take([0.0, 0.9, 0.9, 0.9]) == []
    assert finder.take([0.9]) == [Boundary("start", FRAME)]
    assert finder.take([0.9, 0.0, 0.0]) == []
    assert finder.take([0.0]) == [Boundary("end", 6 * FRAME)]
