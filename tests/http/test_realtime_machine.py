"""What a session decides, told step by step: no loop, no clock, no models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from paraudio.engines import Boundary
from paraudio.errors import EmptyBufferError, InvalidRequestError
from paraudio.http._realtime_config import Config, Detection, Hearing
from paraudio.http._realtime_events import Dialect, Event
from paraudio.http._realtime_machine import (
    CONTEXT_S,
    MOST_BUFFERED_S,
    MOST_SPOKEN_S,
    Machine,
    on_track,
)
from paraudio.http._realtime_sound import Format, Frames
from paraudio.http._realtime_utterance import Utterance

RATE = 8_000
MANUAL = Config(format=Format("audio/pcm", RATE), hearing=Hearing("ears"))
DETECTED = Config(
    format=Format("audio/pcm", RATE),
    hearing=Hearing("ears"),
    detection=Detection("vad", prefix_ms=100, silence_ms=200),
)


class Bench:
    """A machine, what it said, and the items that it began."""

    def __init__(self, config: Config, dialect: Dialect = Dialect.CURRENT) -> None:
        self.events: list[Event] = []
        self.items: list[Utterance] = []
        self.machine = Machine(config, dialect, emit=self.events.append, begin=self.items.append)
        self._sent = 0

    def send(self, seconds: float) -> None:
        """Append sound whose frames are numbered, so that it can be found again."""
        count = round(seconds * RATE)
        frames = np.arange(self._sent, self._sent + count) % 30_000
        self.machine.append(frames.astype(np.int16))
        self._sent += count

    def hear(self, seconds: float, *found: tuple[str, float]) -> None:
        """Append sound, and let the detector find boundaries at seconds of the session."""
        self.send(seconds)
        frames = self.machine.next(10**9)
        self.machine.advance(len(frames), boundaries(*found))

    def told(self) -> list[tuple[str, Any]]:
        """The events by kind, with what they say of time or order, and their items by number."""
        numbers = {item.item_id: number for number, item in enumerate(self.items)}
        told: list[tuple[str, Any]] = []
        for event in self.events:
            kind = str(event["type"]).removeprefix("input_audio_buffer.")
            if kind.startswith("conversation"):
                continue
            at = event.get("audio_start_ms", event.get("audio_end_ms"))
            told.append(
                (kind, at) if at is not None else (kind, numbers.get(str(event.get("item_id"))))
            )
        return told

    def spans(self) -> list[tuple[float, float]]:
        """Where each item lies, seconds."""
        return [span(item) for item in self.items]


def boundaries(*found: tuple[str, float]) -> list[Boundary]:
    return [Boundary(kind, round(at * RATE)) for kind, at in found]  # type: ignore[arg-type]


def frames_of(item: Utterance) -> Frames:
    pieces = list(item._pieces)
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int16)


def span(item: Utterance) -> tuple[float, float]:
    """Where an item's frames were taken from; they must be without a gap."""
    frames = frames_of(item).astype(int)
    assert len(frames) == item.frames
    assert np.all(np.diff(frames) % 30_000 == 1)
    start = int(frames[0]) / RATE
    return start, start + len(frames) / RATE


def kinds(events: Sequence[Event]) -> list[str]:
    return [str(event["type"]) for event in events]


# The client commits.


def test_a_commit_makes_an_item_of_everything_since_the_last_one() -> None:
    bench = Bench(MANUAL)
    bench.send(1)
    bench.send(0.5)
    bench.machine.commit()
    bench.send(0.25)
    bench.machine.commit()
    assert bench.spans() == [(0, 1.5), (1.5, 1.75)]
    assert all(item.complete and not item.live for item in bench.items)
    assert kinds(bench.events) == 2 * [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    first, second = (event for event in bench.events if "committed" in str(event["type"]))
    assert first["previous_item_id"] is None
    assert second["previous_item_id"] == first["item_id"] == bench.items[0].item_id


async def test_what_is_committed_is_not_copied() -> None:
    bench = Bench(MANUAL)
    sent = [np.full(600_000, at, dtype=np.int16) for at in range(3)]
    for frames in sent:
        bench.machine.append(frames)
    bench.machine.commit()
    (item,) = bench.items
    pieces = await item.whole()
    assert item.frames == 1_800_000
    assert all(np.shares_memory(*pair) for pair in zip(pieces, sent, strict=True))


def test_an_older_client_is_told_of_items_by_their_older_name() -> None:
    bench = Bench(MANUAL, Dialect.BETA)
    bench.send(1)
    bench.machine.commit()
    assert kinds(bench.events) == ["input_audio_buffer.committed", "conversation.item.created"]


def test_every_event_has_an_id_of_its_own() -> None:
    bench = Bench(MANUAL)
    for _ in range(3):
        bench.send(1)
        bench.machine.commit()
    ids = {event["event_id"] for event in bench.events}
    assert len(ids) == len(bench.events) == 9


def test_nothing_cannot_be_committed() -> None:
    bench = Bench(MANUAL)
    with pytest.raises(EmptyBufferError):
        bench.machine.commit()
    bench.send(1)
    bench.machine.clear()
    with pytest.raises(EmptyBufferError):
        bench.machine.commit()
    assert bench.told() == [("cleared", None)]


def test_what_waits_for_a_commit_is_bounded_and_what_came_before_stays() -> None:
    bench = Bench(MANUAL)
    bench.send(MOST_BUFFERED_S - 1)
    with pytest.raises(InvalidRequestError) as refused:
        bench.send(2)
    assert refused.value.param == "audio"
    bench.machine.commit()
    [item] = bench.items
    assert item.seconds == MOST_BUFFERED_S - 1
    bench.send(2)  # there is room again


# The server finds speech.


def test_speech_becomes_an_item_with_what_comes_before_it_and_the_silence_that_ends_it() -> None:
    bench = Bench(DETECTED)
    bench.hear(1)
    bench.hear(1, ("start", 1.5))
    bench.hear(1)
    bench.hear(1, ("end", 3.1))
    bench.hear(1)
    assert bench.told() == [
        ("speech_started", 1400),
        ("speech_stopped", 3300),
        ("committed", 0),
    ]
    assert bench.spans() == [(1.4, 3.3)]
    [item] = bench.items
    assert item.live
    assert item.complete


def test_an_item_fills_while_it_is_spoken() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.5))
    [item] = bench.items
    assert (item.seconds, item.complete) == (0.6, False)
    bench.hear(0.5)
    assert (item.seconds, item.complete) == (1.1, False)
    assert bench.machine.speaking


def test_two_sentences_in_one_piece_are_two_items_that_share_nothing() -> None:
    bench = Bench(DETECTED)
    bench.hear(4, ("start", 0.0), ("end", 1.0), ("start", 1.25), ("end", 3.0))
    assert bench.spans() == [(0, 1.2), (1.2, 3.2)]
    assert [kind for kind, _ in bench.told()] == 2 * [
        "speech_started",
        "speech_stopped",
        "committed",
    ]


def test_speech_without_a_pause_is_cut() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.0))
    for _ in range(2 * MOST_SPOKEN_S):
        bench.hear(1)
    lengths = [item.seconds for item in bench.items]
    assert lengths == [MOST_SPOKEN_S, MOST_SPOKEN_S, 1]
    assert [item.complete for item in bench.items] == [True, True, False]
    starts = [at for kind, at in bench.told() if kind == "speech_started"]
    assert starts == [0, 60_000, 120_000]


def test_silence_is_forgotten_but_for_what_speech_may_need_of_it() -> None:
    bench = Bench(DETECTED)
    for _ in range(100):
        bench.hear(1)
    assert bench.machine._track.start > 95 * RATE
    context = bench.machine.context()
    assert len(context) == round((CONTEXT_S + 0.2) * RATE)
    bench.hear(1, ("start", 99.5))
    assert bench.told() == [("speech_started", 99_400)]
    assert bench.items[0].seconds == 1.6


def test_a_commit_cuts_what_is_being_spoken_and_the_detector_begins_anew() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.2))
    epoch = bench.machine.epoch
    bench.machine.commit()
    assert bench.machine.epoch != epoch
    assert len(bench.machine.context()) == 0
    bench.hear(1, ("start", 1.0), ("end", 1.5))
    assert bench.spans() == [(0.1, 1.0), (1.0, 1.7)]
    assert bench.told()[:2] == [("speech_started", 100), ("committed", 0)]


def test_silence_is_committed_where_the_client_wants_it_so() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.2), ("end", 0.5))
    bench.hear(1)
    bench.machine.commit()
    [spoken, silent] = bench.items
    assert not silent.live
    assert silent.complete
    assert span(silent) == (spoken_end := span(spoken)[1], 2.0)
    assert spoken_end < 1
    assert bench.told()[-1] == ("committed", 1)
    with pytest.raises(EmptyBufferError):
        bench.machine.commit()


def test_of_a_long_silence_the_end_is_committed() -> None:
    bench = Bench(DETECTED)
    for _ in range(60):
        bench.hear(1)
    bench.machine.commit()
    [item] = bench.items
    assert CONTEXT_S < item.seconds < CONTEXT_S + 4
    # The frames are numbered modulo 30,000.
    assert frames_of(item)[-1] == (60 * RATE - 1) % 30_000


def test_a_cut_ends_an_item_and_loses_nothing_of_the_next() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.5))
    before = bench.machine.epoch
    bench.machine.cut()
    assert bench.machine.epoch > before, "the detector begins anew"
    bench.send(1)
    bench.machine.settle(boundaries(("start", 0.5)))
    bench.machine.advance(RATE, [])
    bench.machine.end()
    assert bench.spans() == [(0.4, 1.0), (1.0, 2.0)]
    bench.machine.cut()
    assert len(bench.items) == 2, "where nobody speaks there is nothing to cut"


def test_a_clear_drops_what_is_being_spoken() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.2))
    bench.send(1)
    bench.machine.clear()
    [item] = bench.items
    assert item.dropped
    assert item.scope.cancel_called
    assert bench.machine.unheard == 0
    bench.hear(1, ("start", 2.0))
    assert span(bench.items[1]) == (2.0, 3.0)
    assert bench.told() == [("speech_started", 100), ("cleared", None), ("speech_started", 2000)]


def test_an_end_commits_what_was_heard_of_what_is_being_spoken() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.5))
    bench.send(1)
    bench.machine.end()
    assert bench.spans() == [(0.4, 1.0)]
    assert bench.items[0].complete
    assert bench.machine.unheard == bench.machine.buffered == 0


@pytest.mark.parametrize(
    ("speaking", "found", "after"),
    [
        (False, [], False),
        (False, [("start", 0.5)], True),
        (False, [("start", 0.5), ("end", 0.8)], False),
        (True, [], False),
        (True, [("start", 0.5)], True),
        (True, [("start", 0.5), ("end", 0.8)], False),
        (True, [("start", 0.1), ("end", 0.4), ("start", 0.7)], True),
    ],
)
def test_a_detector_that_begins_anew_is_believed_about_now(
    speaking: bool, found: list[tuple[str, float]], after: bool
) -> None:
    bench = Bench(DETECTED)
    bench.hear(1, *([("start", 0.3)] if speaking else []))
    items = len(bench.items)
    bench.machine.settle(boundaries(*found))
    assert bench.machine.speaking == after
    assert len(bench.items) == items + (after and not speaking)


def test_boundaries_are_counted_from_where_their_detector_began() -> None:
    assert on_track(Boundary("start", 5), 100) == Boundary("start", 105)


# Another configuration.


def test_turning_detection_off_commits_what_is_spoken_and_leaves_the_rest_to_the_client() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.5))
    bench.machine.update(MANUAL)
    assert bench.items[0].complete
    bench.send(1)
    bench.machine.commit()
    assert bench.spans() == [(0.4, 1.0), (1.0, 2.0)]


def test_turning_detection_on_lets_it_hear_what_was_not_committed() -> None:
    bench = Bench(MANUAL)
    bench.send(1)
    bench.machine.update(DETECTED)
    assert bench.machine.unheard == RATE
    bench.hear(0.5, ("start", 0.2), ("end", 0.8))
    assert bench.spans() == [(0.1, 1.0)]


def test_the_format_changes_only_while_nothing_waits() -> None:
    other = Config(format=Format("audio/pcm", 2 * RATE), hearing=Hearing("ears"))
    bench = Bench(MANUAL)
    bench.send(1)
    with pytest.raises(InvalidRequestError, match="format"):
        bench.machine.update(other)
    assert bench.machine.config is MANUAL
    bench.machine.commit()
    bench.machine.update(other)
    bench.send(1)
    bench.machine.commit()
    assert [item.rate for item in bench.items] == [RATE, 2 * RATE]
    assert [item.seconds for item in bench.items] == [1, 0.5]


def test_times_go_on_when_the_format_changes() -> None:
    bench = Bench(DETECTED)
    bench.hear(2)
    rate = 2 * RATE
    bench.machine.update(Config(Format("audio/pcm", rate), detection=DETECTED.detection))
    bench.machine.append(np.zeros(rate, dtype=np.int16))
    bench.machine.advance(rate, [Boundary("start", round(2.5 * rate))])
    assert bench.told() == [("speech_started", 2400)]
    assert bench.items[0].rate == rate


def test_what_an_item_is_written_down_with_is_settled_when_it_begins() -> None:
    bench = Bench(DETECTED)
    bench.hear(1, ("start", 0.5))
    later = Hearing("ears", "fr")
    bench.machine.update(Config(DETECTED.format, later, DETECTED.detection))
    bench.hear(1, ("end", 1.2), ("start", 1.6))
    assert [item.hearing for item in bench.items] == [DETECTED.hearing, later]
