"""Silero's detector on sound that is still being captured."""

import numpy as np

from paraudio.engines._stop import Stop
from paraudio.engines._values import Boundary, Piece, Samples
from paraudio.engines.families._intake import Intake
from paraudio.engines.families._silero_detector import CONTEXT, FRAME, Detector, blocks
from paraudio.engines.families._spans import RATE, LiveFinder, Rules, Span


class Listener:
    """One live job: carries over what one piece leaves for the next.

    That is the resampler's memory, the samples of the frame that is not full yet behind those of
    the one before, and the detector's state. So where the sound is cut changes nothing, not even
    the last bit of a probability.

    Attributes:
        spans: The stretches of speech, once it has ended.
    """

    def __init__(self, detector: Detector, rules: Rules) -> None:
        self.spans: list[Span] = []
        self._detector = detector
        self._finder = LiveFinder(rules, FRAME)
        self._state = detector.start()
        self._found: list[Samples] = []
        self._tail: Samples = np.zeros(CONTEXT, dtype=np.float32)
        self._intake = Intake(RATE)
        self._length = 0

    @property
    def probabilities(self) -> Samples:
        """Of each frame so far, shape [frames]."""
        return np.concatenate((np.empty(0, dtype=np.float32), *self._found))

    def take(self, piece: Piece, stop: Stop) -> list[Boundary]:
        """Listen to a piece.

        Raises:
            InvalidRequestError: It is no sound, or at another rate than the one before.
            Stopped: ``stop`` was set.
        """
        boundaries: list[Boundary] = []
        for block in self._intake.blocks(piece):
            boundaries += self._listen(block, stop)
        return boundaries

    def end(self, stop: Stop) -> list[Boundary]:
        """Listen to what is left, the last frame filled with silence.

        Raises:
            Stopped: ``stop`` was set.
        """
        boundaries = self._listen(self._intake.rest(), stop)
        rest = len(self._tail) - CONTEXT
        last = []
        if rest:
            filled = np.concatenate((self._tail, np.zeros(FRAME - rest, dtype=np.float32)))
            last = self._step(filled, stop)
        places, self.spans = self._finder.finish(last, self._length)
        return boundaries + self._at_rate(places)

    def _listen(self, samples: Samples, stop: Stop) -> list[Boundary]:
        stop.check()
        self._length += len(samples)
        sound = np.concatenate((self._tail, samples))
        whole = (len(sound) - CONTEXT) // FRAME * FRAME
        self._tail = sound[whole:].copy()
        if not whole:
            return []
        return self._at_rate(self._finder.take(self._step(sound[: CONTEXT + whole], stop)))

    def _step(self, sound: Samples, stop: Stop) -> list[float]:
        found: list[float] = []
        for block in blocks(sound):
            probabilities, self._state = self._detector.step(block, self._state, stop)
            self._found.append(probabilities)
            found += probabilities.tolist()
        return found

    def _at_rate(self, boundaries: list[Boundary]) -> list[Boundary]:
        """The same places in the sound as it was fed."""
        rate = self._intake.rate or RATE
        return [Boundary(each.kind, each.at * rate // RATE) for each in boundaries]
