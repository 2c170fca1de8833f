"""Finding speech in what a client sends, with a model that others may want too.

A microphone is open for hours, so its session must not hold a slot of the detector for that long:
admission would take that slot for one that never comes back, and refuse whoever has less patience.
So a session takes turns. A turn begins when there is sound to hear, holds one slot, and ends when
the sound stops coming, when somebody else waits for the model, or after a few seconds; the next one
enters the queue like any newcomer. What speech needs of the past is heard again from the track.
"""

import logging
from collections.abc import Sequence
from typing import Final

import trio

from paraudio.audio import from_int16
from paraudio.engines import Audio, Boundary, Job, StreamEvent, check_options
from paraudio.engines.isolation import LiveHandle
from paraudio.errors import InvalidRequestError
from paraudio.http import _realtime_events as events
from paraudio.http._errors import answer_to
from paraudio.http._exchange import Exchange
from paraudio.http._realtime_config import Detection
from paraudio.http._realtime_machine import Machine, on_track
from paraudio.http._realtime_sound import Frames
from paraudio.http._realtime_utterance import Bell
from paraudio.lifecycle import Use
from paraudio.spec import Json, ModelSpec

log = logging.getLogger(__name__)

TURN_S: Final = 5.0
"""The longest turn."""

PAUSE_S: Final = 0.5
"""A turn ends when no sound came for so long."""

PIECE_S: Final = 0.5
"""The longest piece that the detector is given at once."""

RETRY_S: Final = 1.0
"""How long a session is deaf after a turn that failed, so that it says so once a second at most."""


class Ears:
    """Listens for speech in one session.

    Args:
        exchange: The session among the requests.
        bound_ms: The client's own bound of its waits, or None.
        machine: What decides what the boundaries mean.
        bell: Rung when sound has come, when it was heard, and when the configuration changed.
    """

    def __init__(
        self, exchange: Exchange, bound_ms: int | None, machine: Machine, bell: Bell
    ) -> None:
        self._core = exchange.core
        self._request = exchange.id
        self._bound_ms = bound_ms
        self._machine = machine
        self._bell = bell

    async def run(self) -> None:
        """Take turns for ever.

        Cancelled: the slot is given back when the detector has stopped.
        """
        while True:
            while not self._machine.unheard:
                await self._bell.wait()
            try:
                await self._turn()
            except Exception as error:  # whatever failed, the session goes on
                answer = answer_to(error, self._request)
                self._machine.emit(events.error_event(answer.error, None))
                self._machine.end()
                self._bell.ring()
                await self._be_deaf()

    async def wait_caught_up(self) -> None:
        """Wait until everything that was sent has been heard."""
        while self._machine.unheard:
            await self._bell.wait()

    async def _be_deaf(self) -> None:
        """Forget what comes, for a moment."""
        with trio.move_on_after(RETRY_S):
            while True:
                await self._bell.wait()
                if self._machine.unheard:
                    self._machine.end()
                    self._bell.ring()

    async def _turn(self) -> None:
        detection = self._machine.config.detection
        if detection is None:
            return
        runtime = self._core.runtime
        async with runtime.use(
            detection.model, request=self._request, bound_ms=self._bound_ms
        ) as use:
            job = self._job(use.spec, detection)
            await use.ready()
            if not use.can_live:
                raise InvalidRequestError(
                    f"the model {detection.model!r} cannot listen while sound comes in; commit by "
                    "yourself, with turn_detection null",
                    param="session.audio.input.turn_detection.model",
                )
            async with use.live(job) as live:
                await self._listen(use, live, detection)

    async def _listen(self, use: Use, live: LiveHandle, detection: Detection) -> None:
        machine, epoch = self._machine, self._machine.epoch
        until = trio.current_time() + TURN_S
        context = machine.context()
        base = machine.heard - len(context)
        found = await self._hear(live, context, base)
        if machine.epoch != epoch:
            return
        machine.settle(found)
        while machine.config.detection == detection and machine.epoch == epoch:
            frames = machine.next(round(PIECE_S * machine.rate))
            if len(frames):
                found = await self._hear(live, frames, base)
                if machine.epoch == epoch:
                    machine.advance(len(frames), found)
                    self._bell.ring()
            elif not await self._more_comes():
                return
            if trio.current_time() > until or self._is_wanted(use):
                return

    async def _hear(self, live: LiveHandle, frames: Frames, base: int) -> list[Boundary]:
        if not len(frames):
            return []
        heard = await live.feed(Audio(from_int16(frames), self._machine.rate))
        return [on_track(boundary, base) for boundary in _boundaries(heard)]

    async def _more_comes(self) -> bool:
        with trio.move_on_after(PAUSE_S):
            while not self._machine.unheard:
                await self._bell.wait()
            return True
        return False

    def _is_wanted(self, use: Use) -> bool:
        """Whether somebody else waits for the model."""
        model = self._core.runtime.model(use.spec.id)
        return bool(model.queued_requests or model.queued_managers)

    def _job(self, spec: ModelSpec, detection: Detection) -> Job:
        """What the detector is asked; its family takes what it knows of it."""
        schema = self._core.families[spec.family].request_options
        known = {option.name for option in schema}
        wanted: dict[str, Json] = {
            "threshold": detection.threshold,
            "min_silence_ms": detection.silence_ms,
            "speech_pad_ms": 0,
        }
        hints = {name: value for name, value in wanted.items() if name in known}
        options = check_options(
            {**spec.default_request_options, **hints}, schema, param="turn_detection"
        )
        return Job(task=spec.task, options=options)


def _boundaries(heard: Sequence[StreamEvent]) -> list[Boundary]:
    return [event.boundary for event in heard if event.boundary is not None]
