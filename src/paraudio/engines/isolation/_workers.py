"""The worker processes of one load: the first, which made it, and one for each further session."""

import errno
from dataclasses import dataclass
from typing import Final

import trio

from paraudio.engines._protocols import Family
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.isolation._child import Child
from paraudio.engines.isolation._pending import Care
from paraudio.engines.isolation._replica import pickled_family, portable_load
from paraudio.engines.worker import attempt
from paraudio.engines.worker._messages import Abilities, Loaded
from paraudio.errors import InsufficientMemoryError, LoadError, ParaudioError, ServerBusyError

_USED_UP: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN})
"""What the system says when it has no descriptor or process left to give."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A session in its worker.

    Attributes:
        child: The worker.
        abilities: What the session can do.
    """

    child: Child
    abilities: Abilities


class Workers:
    """Starts workers and knows the first of them.

    Attributes:
        name: The model, for messages.
    """

    def __init__(
        self, nursery: trio.Nursery, family: Family, load: Load, care: Care, start_timeout_s: float
    ) -> None:
        self.name = f"model {load.model_id!r}"
        self._nursery = nursery
        self._family = family
        self._load = load
        self._care = care
        self._start_timeout_s = start_timeout_s
        self._sessions = 0
        self._first: Child | None = None
        self._first_is_free = False

    async def load(self) -> Loaded:
        """Start the first worker, and load the weights there.

        Cancelled, or failed: the worker is gone.
        """
        self._first, loaded = await self._hatch(1)
        self._first_is_free = True
        return loaded

    async def seat(self, previous: Child | None = None) -> Seat:
        """Build a session: in the first worker if it has none, else in a new one.

        Args:
            previous: The dead worker in whose place the new one comes.

        Cancelled, or failed: a worker that was started for it is gone.
        """
        self._sessions += 1
        child = await self._vacant(self._sessions, previous)
        building = child.call(f"{self.name}: session", "session")
        try:
            await building.wait_ended()
            return Seat(child, building.taken().unwrap())
        except LoadError:
            if child is self._first:
                self._first_is_free = True
            else:
                await child.end()
            raise
        except BaseException:
            await child.end()
            raise

    def is_first(self, child: Child) -> bool:
        """Whether a worker stays when its session is closed, because the weights are asked for."""
        return child is self._first

    def vacate(self, child: Child) -> None:
        """The first worker has no session any more."""
        self._first_is_free = child is self._first

    async def close(self) -> None:
        """Unload the first worker and end it; never raises, and does so also when cancelled."""
        child = self._first
        if child is None:
            return
        if not child.dead:
            await child.call(f"{self.name}: unload", "unload").outlast(self._care)
        await child.end()

    async def _vacant(self, number: int, previous: Child | None) -> Child:
        """A worker that has loaded and has no session."""
        first = self._first
        if first is not None and self._first_is_free and not first.dead:
            self._first_is_free = False
            return first
        child, _ = await self._hatch(number)
        if first is not None and previous is first:
            self._first = child
        return child

    async def _hatch(self, number: int) -> tuple[Child, Loaded]:
        what = f"{self.name}: load"
        family = attempt(
            lambda: pickled_family(self._family, self._load, number), what, kind=LoadError
        ).unwrap()
        child = Child(self.name, start_timeout_s=self._start_timeout_s)
        try:
            await self._nursery.start(child.run)
        except OSError as error:
            raise _not_started(self.name, error) from error
        loading = child.call(what, "load", family, portable_load(self._load), stop=Stop())
        try:
            # Whoever is cancelled need not wait for the load to heed a stop: it can be killed.
            await loading.wait_ended()
            return child, loading.taken().unwrap()
        except BaseException:
            await child.end()
            raise


def _not_started(name: str, error: OSError) -> ParaudioError:
    """Why there is no worker: the model's fault only where the system has all that it takes."""
    text = f"{name}: no worker process could be started: {error.strerror or error}"
    if error.errno in _USED_UP:
        return ServerBusyError(f"{text}; that may pass, or needs a higher limit (LimitNOFILE)")
    if error.errno == errno.ENOMEM:
        return InsufficientMemoryError(text)
    return LoadError(text)
