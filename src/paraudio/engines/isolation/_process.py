"""The process isolation: each session in a worker process of its own.

A worker makes a load of its own, so it can crash or be killed and takes nothing with it but the
call that it ran; of files that never change the family may map the weights, and then all workers
share them. The first worker of a model makes the load that tells capacity and voices, and then
serves the model's first session.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from paraudio.engines._protocols import Family
from paraudio.engines._values import Load
from paraudio.engines.isolation._handle import Handle
from paraudio.engines.isolation._inspect import inspect_in_thread
from paraudio.engines.isolation._pending import Call, Care
from paraudio.engines.isolation._process_port import ProcessPort
from paraudio.engines.isolation._protocols import Inspection, ModelHandle, SessionHandle
from paraudio.engines.isolation._workers import Workers
from paraudio.engines.worker._messages import Loaded


@asynccontextmanager
async def open_process_isolation(
    *, hang_timeout_s: float = 10.0, start_timeout_s: float = 30.0
) -> AsyncIterator["ProcessIsolation"]:
    """Open an isolation that runs families in worker processes.

    Args:
        hang_timeout_s: How long a call may ignore its stop before it counts as hanging.
        start_timeout_s: How long a worker may take to start, without its load.

    Leaving it kills and reaps every worker that is left, within about two seconds.
    """
    async with trio.open_nursery() as nursery:
        try:
            yield ProcessIsolation(
                nursery, hang_timeout_s=hang_timeout_s, start_timeout_s=start_timeout_s
            )
        finally:
            nursery.cancel_scope.cancel()


class ProcessIsolation:
    """Runs families in worker processes; see `paraudio.engines.isolation.Isolation`."""

    def __init__(
        self, nursery: trio.Nursery, *, hang_timeout_s: float, start_timeout_s: float
    ) -> None:
        self._nursery = nursery
        self._care = Care(hang_timeout_s)
        self._start_timeout_s = start_timeout_s

    async def inspect(self, family: Family, load: Load) -> Inspection:
        """Ask the family about a model, in a thread of this process, without loading it."""
        return await inspect_in_thread(family, load, self._care)

    async def load(self, family: Family, load: Load) -> ModelHandle:
        """Load weights in a new worker."""
        await trio.lowlevel.checkpoint_if_cancelled()
        workers = Workers(self._nursery, family, load, self._care, self._start_timeout_s)
        return ProcessModel(workers, await workers.load(), self._care)

    def abandoned_of(self, model_id: str) -> Sequence[Call]:
        """The calls of one model that ignored their stop and still run."""
        return self._care.abandoned.of(model_id)

    def abandoned(self) -> list[str]:
        """One line for each call that ignored its stop and still runs."""
        return self._care.abandoned.lines()


class ProcessModel:
    """Weights in worker processes; see `paraudio.engines.isolation.ModelHandle`."""

    def __init__(self, workers: Workers, loaded: Loaded, care: Care) -> None:
        self._workers = workers
        self._loaded = loaded
        self._care = care
        self._built = 0

    @property
    def capacity(self) -> int:
        """How many sessions may exist at once."""
        return self._loaded.capacity

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the model itself."""
        return self._loaded.voices

    async def session(self) -> SessionHandle:
        """Build a session, with a load of its own unless it is the first."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._built += 1
        name = f"{self._workers.name}, session {self._built}"
        seat = await self._workers.seat()
        return Handle(ProcessPort(self._workers, seat, name), self._care, name)

    async def close(self) -> None:
        """End the worker of the load."""
        await self._workers.close()
