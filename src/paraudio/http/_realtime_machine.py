"""What a realtime session decides: which sound belongs to which item, and what is said of it.

Synchronous, and without a clock: it is told what came and what the detector found, and calls
``emit`` with events and ``begin`` with items. Places are frames since the session began.

Where the client commits by itself, all that it has sent since the last item is the next one. Where
the server finds speech, sound waits on the track until the detector has heard it; then it goes to
the item that is being spoken, or is forgotten, except for what the next item may begin with. A
client that commits there all the same gets an item: of what is being spoken, else of what is left.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from paraudio.engines import Boundary
from paraudio.errors import EmptyBufferError, InvalidRequestError
from paraudio.http import _realtime_events as events
from paraudio.http._realtime_config import Config, Detection
from paraudio.http._realtime_events import Dialect, Emit
from paraudio.http._realtime_items import Items
from paraudio.http._realtime_sound import Frames, Track
from paraudio.http._realtime_utterance import Utterance

MOST_BUFFERED_S: Final = 600
"""How much sound may wait for the client's commit."""

MOST_SPOKEN_S: Final = 60
"""Speech without a pause is cut into items of this length."""

CONTEXT_S: Final = 1.5
"""How much of what it has heard a detector hears again when it begins anew."""


class Machine:
    """The state of one session.

    Args:
        config: What is asked for to begin with.
        dialect: Which names the client knows.
        emit: Takes events.
        begin: Takes each item when its first sound is known.

    Attributes:
        emit: Takes events.
        config: What is asked for.
        items: What was said so far.
        heard: How far the detector has got.
        epoch: Counts what makes a detector that is at work useless.
    """

    def __init__(
        self, config: Config, dialect: Dialect, *, emit: Emit, begin: Callable[[Utterance], None]
    ) -> None:
        self.config = config
        self.dialect = dialect
        self.heard = 0
        self.epoch = 0
        self.emit = emit
        self.items = Items()
        self._begin = begin
        self._track = Track()
        self._floor = 0
        self._open: Utterance | None = None
        self._since = 0

    @property
    def rate(self) -> int:
        """Frames a second."""
        return self.config.format.rate

    @property
    def speaking(self) -> bool:
        """Whether an item is being spoken."""
        return self._open is not None

    @property
    def unheard(self) -> int:
        """How many frames wait for the detector."""
        return self._track.end - self.heard if self.config.detection is not None else 0

    @property
    def buffered(self) -> int:
        """How many frames wait for a commit."""
        return self._track.end - self._floor

    # What the client does.

    def append(self, frames: Frames) -> None:
        """Take sound.

        Raises:
            InvalidRequestError: Too much waits for a commit already; this is not taken.
        """
        most = MOST_BUFFERED_S * self.rate
        if self.config.detection is None and self.buffered + len(frames) > most:
            raise InvalidRequestError(
                f"the input audio buffer holds {self.buffered / self.rate:.0f} s and takes at "
                f"most {MOST_BUFFERED_S}; commit or clear it first",
                param="audio",
            )
        self._track.append(frames)

    def commit(self) -> None:
        """Make an item of what was sent; where somebody speaks, of what is being spoken.

        Everything that was sent must have been heard. Where the server finds speech and there is
        none, an item of what is left is one more to transcribe; its text will mostly be empty.

        Raises:
            EmptyBufferError: There is nothing to commit.
        """
        if self._open is not None:
            self._close(self.heard, stopped=False)
            self._forget_all()
        elif left := self._track.parts(max(self._floor, self._track.start), self._track.end):
            item = Utterance(events.new_id("item"), self.rate, self.config.hearing, live=False)
            for part in left:
                item.add(part)
            item.finish()
            self._forget_all()
            self._begin(item)
            self._commit(item)
        else:
            raise EmptyBufferError(
                "the input audio buffer is empty: append sound before the commit",
                param="type",
            )

    def clear(self) -> None:
        """Forget what was not committed."""
        if self._open is not None:
            self._open.drop()
            self._open = None
        self._forget_all()
        self.emit(events.cleared())

    def update(self, config: Config) -> None:
        """Work by another configuration; everything that was sent must have been heard.

        Raises:
            InvalidRequestError: The format would change under what was sent already.
        """
        before, rate = self.config, self.rate
        if config.format != before.format:
            if self.buffered and (before.detection is None or self.speaking):
                raise InvalidRequestError(
                    "the format cannot change while the input audio buffer holds sound; "
                    "commit or clear it first",
                    param="session.audio.input.format",
                )
            self._forget_all()
            self._track.rescale(rate, config.format.rate)
            self.heard = self._floor = self._track.end
        if config.detection != before.detection:
            self._detect(config.detection)
        self.config = config

    def end(self) -> None:
        """What is being spoken ends here, and what was not heard is forgotten.

        For a session that takes nothing more, for a client that has stopped in the midst of a
        sentence, and for want of a detector.
        """
        if self._open is not None:
            self._close(self.heard, stopped=True)
        self._forget_all()

    def cut(self) -> None:
        """What is being spoken ends here; if somebody goes on speaking, another item begins."""
        if self._open is not None:
            self._close(self.heard, stopped=True)
            self.epoch += 1

    # What the detector does.

    def context(self) -> Frames:
        """What a detector that begins anew hears first; `heard` is its end."""
        detection = self.config.detection
        silence_s = 0.0 if detection is None else detection.silence_ms / 1000
        start = self.heard - round((CONTEXT_S + silence_s) * self.rate)
        return self._track.between(max(start, self._track.start), self.heard)

    def next(self, most: int) -> Frames:
        """What the detector has not heard yet, up to ``most`` frames."""
        return self._track.between(self.heard, min(self._track.end, self.heard + most))

    def settle(self, boundaries: Iterable[Boundary]) -> None:
        """Take over what a detector that began anew found in its context.

        Only how it ends matters: whether somebody speaks now.
        """
        last = None
        for boundary in boundaries:
            last = boundary
        speaks = last is not None and last.kind == "start"
        if self.speaking and not speaks:
            self._close(self.heard, stopped=True)
        elif last is not None and speaks and not self.speaking:
            self._start(last.at)

    def advance(self, frames: int, boundaries: Iterable[Boundary]) -> None:
        """Take over what the detector found in the next ``frames`` frames."""
        reached = self.heard + frames
        for boundary in boundaries:
            if boundary.kind == "start" and not self.speaking:
                self._start(boundary.at)
            elif boundary.kind == "end" and self._open is not None:
                self._close(min(boundary.at + self._silence(), reached), stopped=True)
        self.heard = reached
        self._pass_on(reached)
        keep = round((CONTEXT_S + 1) * self.rate) + self._silence() + self._prefix()
        self._track.forget(reached - keep)

    def _detect(self, detection: Detection | None) -> None:
        """Begin or cease to find speech, or find it by other rules."""
        self.epoch += 1
        if detection is None:
            self.end()
        elif self.config.detection is None:
            self.heard = self._floor

    def _forget_all(self) -> None:
        self.epoch += 1
        self._track.forget(self._track.end)
        self.heard = self._floor = self._track.end

    def _start(self, at: int) -> None:
        self._open_item(max(at - self._prefix(), self._floor, self._track.start))
        self._pass_on(self.heard)

    def _pass_on(self, to: int) -> None:
        """Give what was heard to the item that is being spoken, and cut that if it is long."""
        while (item := self._open) is not None:
            limit = self._since + MOST_SPOKEN_S * self.rate
            given = self._since + item.frames
            item.add(self._track.between(given, min(to, limit)))
            if to < limit:
                return
            self._close(limit, stopped=True)
            self._open_item(limit)

    def _open_item(self, at: int) -> None:
        item = Utterance(events.new_id("item"), self.rate, self.config.hearing, live=True)
        self._open, self._since = item, at
        self._begin(item)
        self.emit(events.speech_started(item.item_id, self._ms(at)))

    def _close(self, end: int, *, stopped: bool) -> None:
        item = self._open
        assert item is not None  # noqa: S101 - for the type checker; every caller has looked
        given = self._since + item.frames
        if end > given:
            item.add(self._track.between(given, end))
        end = self._floor = max(end, given)
        item.finish()
        self._open = None
        if stopped:
            self.emit(events.speech_stopped(item.item_id, self._ms(end)))
        self._commit(item)

    def _commit(self, item: Utterance) -> None:
        for one in events.committed(item.item_id, self.items.last, self.dialect):
            self.emit(one)
        self.items.add(item.item_id)

    def _silence(self) -> int:
        return self._of_detection("silence_ms")

    def _prefix(self) -> int:
        return self._of_detection("prefix_ms")

    def _of_detection(self, name: str) -> int:
        detection = self.config.detection
        ms: int = 0 if detection is None else getattr(detection, name)
        return ms * self.rate // 1000

    def _ms(self, at: int) -> int:
        return at * 1000 // self.rate


def on_track(boundary: Boundary, base: int) -> Boundary:
    """A boundary by its place on the track, of a detector that began at ``base``."""
    return replace(boundary, at=boundary.at + base)
