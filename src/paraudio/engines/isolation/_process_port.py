"""A session in a worker process."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import trio

from paraudio.engines._stop import Stop
from paraudio.engines._values import Job, Piece, Result, StreamEvent
from paraudio.engines.isolation._pending import Call, Pending
from paraudio.engines.isolation._replica import portable_job
from paraudio.engines.isolation._workers import Seat, Workers
from paraudio.engines.worker import Done
from paraudio.engines.worker._messages import Verb
from paraudio.errors import BackendCrashedError

_ATTEMPTS: Final = 3
_FIRST_DELAY_S: Final = 0.1
_LONGEST_DELAY_S: Final = 5.0


class ProcessPort:
    """Calls one session in its worker; see `paraudio.engines.isolation._handle.Port`."""

    def __init__(self, workers: Workers, seat: Seat, name: str) -> None:
        self._workers = workers
        self._seat = seat
        self._name = name
        self._deaths = 0

    @property
    def can_stream(self) -> bool:
        """Whether the session streams."""
        return self._seat.abilities.can_stream

    @property
    def can_batch(self) -> bool:
        """Whether the session has a native batch."""
        return self._seat.abilities.can_batch

    @property
    def can_live(self) -> bool:
        """Whether the session takes input that is still being made."""
        return self._seat.abilities.can_live

    @property
    def lost(self) -> bool:
        """Whether the worker is dead, also if nobody has noticed yet."""
        return self._seat.child.dead or self._seat.child.ended

    @property
    def pid(self) -> int | None:
        """The worker."""
        return self._seat.child.pid

    def run(self, job: Job, stop: Stop) -> Pending[Result]:
        """Prepare and run."""
        running = self._call("run", "run", portable_job(job), stop=stop)
        running.then(partial(self._note_health, running))
        return running

    def open_stream(self, job: Job, stop: Stop) -> Pending[None]:
        """Prepare a job and begin to stream it."""
        return self._call("stream", "open_stream", portable_job(job), stop=stop)

    def open_batch(self, jobs: Sequence[Job], stop: Stop) -> Pending[None]:
        """Prepare jobs and begin to run them."""
        return self._call("batch", "open_batch", tuple(map(portable_job, jobs)), stop=stop)

    def next_event(self, stop: Stop) -> Pending[StreamEvent | None]:
        """Pull one event."""
        pulling = self._call("stream", "next_event", stop=stop)
        pulling.then(partial(self._note_end, pulling))
        return pulling

    def next_result(self, stop: Stop) -> Pending[tuple[int, Result] | None]:
        """Pull one result."""
        pulling = self._call("batch", "next_result", stop=stop)
        pulling.then(partial(self._note_end, pulling))
        return pulling

    def begin(self, job: Job, stop: Stop) -> Pending[None]:
        """Begin a live job."""
        return self._call("live", "begin", portable_job(job), stop=stop)

    def feed(self, piece: Piece, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """Give one piece to the live job."""
        return self._call("live", "feed", piece, stop=stop)

    def finish(self, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """End the input of the live job."""
        finishing = self._call("end of live input", "finish", stop=stop)
        finishing.then(partial(self._note_health, finishing))
        return finishing

    def leave(self) -> Pending[None]:
        """Close the open stream, batch or live job."""
        return self._call("end of a stream", "leave")

    def restore(self) -> Pending[None]:
        """Reset the session, else build a new one in its place."""
        return self._call("restore", "restore")

    def close(self) -> Pending[None]:
        """Free the session, and its worker unless that holds the load."""
        child = self._seat.child
        closed: Pending[None] = Pending(f"{self._name}: close")
        closing = self._call("close", "close")

        def end() -> None:
            if self._workers.is_first(child) and not child.dead:
                self._workers.vacate(child)
                closed.resolve(closing.reply or Done(None))
            else:
                child.kill()
                child.gone.then(lambda: closed.resolve(Done(None)))

        closing.then(end)
        return closed

    def abandon(self, call: Call) -> None:  # noqa: ARG002 - whatever it is, it dies
        """Kill the worker, and with it the call."""
        self._seat.child.kill()

    async def kill(self) -> bool:
        """Kill the worker, and with it the call."""
        await self._seat.child.end()
        return True

    async def revive(self) -> None:
        """Start a new worker in place of a dead one; the more often it died, the later.

        Raises:
            LoadError: The load or the session failed, or workers keep dying.
        """
        if not self.lost:
            await trio.lowlevel.checkpoint()
            return
        await self._seat.child.end()
        for attempt in range(1, _ATTEMPTS + 1):
            await trio.sleep(self._delay_s())
            self._deaths += 1
            try:
                self._seat = await self._workers.seat(self._seat.child)
            except BackendCrashedError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _delay_s(self) -> float:
        """Nothing after the first death since all was well, then more and more."""
        if not self._deaths:
            return 0.0
        return min(_FIRST_DELAY_S * 2.0 ** (self._deaths - 1), _LONGEST_DELAY_S)

    def _note_end(self, call: Pending[Any]) -> None:
        """A stream or a batch that came to its end is as good as a run."""
        if isinstance(call.reply, Done) and call.reply.value is None:
            self._deaths = 0

    def _note_health(self, call: Pending[Any]) -> None:
        if isinstance(call.reply, Done):
            self._deaths = 0

    def _call(
        self, what: str, verb: Verb, *arguments: object, stop: Stop | None = None
    ) -> Pending[Any]:
        return self._seat.child.call(f"{self._name}: {what}", verb, *arguments, stop=stop)
