"""PocketSphinx on sound that is still being captured.

Each stretch of speech is an utterance, as in a recording, and is decoded while it goes on, so that
there is a guess at any time. Two things cannot be as in a recording: the loudness that all of it is
brought to is taken from the speech so far, and is the same within an utterance; and speech without
a pause of 0.4 s is cut at its first pause of a tenth of a second after ten seconds, or after twenty
seconds.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from paraudio.engines._stop import Stop
from paraudio.engines._values import Boundary, Piece, Samples, StreamEvent, Word
from paraudio.engines.families._intake import Intake
from paraudio.engines.families._spans import RATE, Span
from paraudio.engines.families._speech_gate import FRAME, level_gain, loudness_gain
from paraudio.engines.families._speech_watch import SpeechWatch
from paraudio.engines.families._sphinx_decoding import LONGEST, Decoding, text_of, words_of

_KEPT: Final = RATE
"""Samples that are kept before the present: where an utterance may turn out to have begun."""

_MEASURED: Final = RATE // 2
"""Samples of an utterance whose loudness is measured before it is decoded."""

_ENOUGH: Final = 10 * RATE
_PAUSE: Final = RATE // 10
_SHORTEST: Final = RATE * 15 // 100


class LiveHearing:
    """One live job.

    Args:
        decoding: The decoder, outside of an utterance.
        is_speech: Judges one frame of 16 bit samples; None takes everything for speech.

    Attributes:
        heard: The words of each utterance that has any.
    """

    def __init__(self, decoding: Decoding, is_speech: Callable[[bytes], bool] | None) -> None:
        self.heard: list[tuple[Word, ...]] = []
        self._decoding = decoding
        self._watch = None if is_speech is None else SpeechWatch(is_speech)
        self._intake = Intake(RATE)
        self._sound: Samples = np.empty(0, dtype=np.float32)
        self._from = 0
        self._judged = 0
        self._start: int | None = None
        self._fed = 0
        self._gain = np.float32(1)
        self._power = 0.0
        self._count = 0
        self._measured = 0
        self._loudest = 0.0
        self._guess = ""
        self._guessed = 0

    def take(self, piece: Piece, stop: Stop) -> list[StreamEvent]:
        """Hear a piece: the text that is settled, and a guess at what goes on.

        Raises:
            InvalidRequestError: It is no sound, or at another rate than the one before.
            Stopped: ``stop`` was set.
        """
        events: list[StreamEvent] = []
        for block in self._intake.blocks(piece):
            events += self._hear(block, stop)
        return events + self._guesses()

    def end(self, stop: Stop) -> list[StreamEvent]:
        """Hear what is left.

        Raises:
            Stopped: ``stop`` was set.
        """
        events = self._hear(self._intake.rest(), stop)
        length = self._from + len(self._sound)
        if self._watch is not None:
            for place in self._watch.end(self._watch.last_frames()):
                events += self._reached(place, stop)
        else:
            events += self._close(length, stop)
        return events

    def _guesses(self) -> list[StreamEvent]:
        """What the utterance that goes on is taken for, if that is news."""
        if not self._decoding.inside or self._guessed == self._fed:
            return []
        self._guessed = self._fed
        guess = self._decoding.guess()
        if guess in {"", self._guess}:
            return []
        self._guess = guess
        return [StreamEvent(partial=guess)]

    def _hear(self, samples: Samples, stop: Stop) -> list[StreamEvent]:
        stop.check()
        self._sound = np.concatenate((self._sound, samples))
        events = self._judge(samples, stop) if self._watch is not None else self._all(stop)
        kept = self._fed if self._start is not None else self._judged - _KEPT
        drop = max(0, kept - self._from)
        self._sound, self._from = self._sound[drop:].copy(), self._from + drop
        return events

    def _judge(self, samples: Samples, stop: Stop) -> list[StreamEvent]:
        """Follow the watch, frame by frame."""
        events: list[StreamEvent] = []
        watch = self._watch
        for frame in () if watch is None else watch.frames(samples):
            stop.check()
            self._judged += FRAME
            for place in watch.judge(frame) if watch is not None else ():
                events += self._reached(place, stop)
            if self._start is not None and watch is not None:
                events += self._go_on(min(watch.reach, self._judged), watch.pause, stop)
        return events

    def _all(self, stop: Stop) -> list[StreamEvent]:
        """Take everything for speech."""
        events: list[StreamEvent] = []
        end = self._from + len(self._sound)
        while (until := min(self._judged + FRAME, (self._start or 0) + LONGEST)) <= end:
            if self._start is None:
                self._open(0)
            self._judged = until
            events += self._go_on(until, 0, stop)
        return events

    def _reached(self, place: Boundary, stop: Stop) -> list[StreamEvent]:
        if place.kind == "end":
            return self._close(place.at, stop)
        self._open(place.at)
        return []

    def _go_on(self, until: int, pause: int, stop: Stop) -> list[StreamEvent]:
        """Decode up to a place, and end the utterance there if it is long."""
        start = self._start or 0
        if until - start >= LONGEST or (until - start >= _ENOUGH and pause >= _PAUSE):
            events = self._close(until, stop)
            self._open(until)
            return events
        self._decode(until, stop)
        return []

    def _open(self, at: int) -> None:
        self._start = self._fed = self._measured = at

    def _close(self, end: int, stop: Stop) -> list[StreamEvent]:
        """End the utterance, and give its words."""
        start, self._start, self._guess = self._start or 0, None, ""
        if not self._decoding.inside and end - start < _SHORTEST:
            return []  # what is left behind a cut is the end of a pause
        self._start_decoding(end)
        self._push(end, stop)
        words = tuple(words_of(self._decoding.end(stop), Span(start, end)))
        if not words:
            return []
        space = " " if self.heard else ""
        self.heard.append(words)
        return [StreamEvent(text=space + text_of(words))]

    def _decode(self, until: int, stop: Stop) -> None:
        start = self._start or 0
        if not self._decoding.inside and until - start < _MEASURED:
            return
        self._start_decoding(until)
        self._push(until, stop)

    def _start_decoding(self, until: int) -> None:
        """Begin, as loud as the speech so far asks for."""
        if not self._decoding.inside:
            self._measure(until)
            self._gain = np.float32(loudness_gain(self._power, self._count))
            self._decoding.start()

    def _push(self, until: int, stop: Stop) -> None:
        if until <= self._fed:
            return
        self._measure(until)
        sound = self._between(self._fed, until)
        if self._watch is None:  # what is not speech says nothing of how loud speech is
            level = float(np.sqrt(np.square(sound).mean()))
            self._loudest = max(self._loudest, level)
            self._gain = np.float32(level_gain(self._loudest))
        self._decoding.push(sound * self._gain, stop)
        self._fed = until

    def _measure(self, until: int) -> None:
        """Add to the loudness of the speech so far."""
        sound = self._between(self._measured, until)
        self._power += float(np.square(sound).sum())
        self._count += len(sound)
        self._measured = max(self._measured, until)

    def _between(self, start: int, end: int) -> Samples:
        return self._sound[max(0, start - self._from) : max(0, end - self._from)]
