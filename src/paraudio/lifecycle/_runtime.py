"""The runtime: every model, the operations on them, and how it all ends."""

from collections.abc import Callable, Mapping, Sequence

import trio

from paraudio.engines import Family
from paraudio.engines.isolation import Inspection, Isolation
from paraudio.journal import Kind, Recorder, no_record
from paraudio.lifecycle._bulk import Unloaded
from paraudio.lifecycle._candidate import Checker
from paraudio.lifecycle._changes import Changes
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._manage import Management, Present, always
from paraudio.lifecycle._memory import find_free_memory, free_host_memory
from paraudio.lifecycle._phases import Phase, Phases
from paraudio.lifecycle._registry import Registry
from paraudio.lifecycle._settings import RuntimeSettings
from paraudio.lifecycle._snapshot import (
    ModelSnapshot,
    Place,
    Snapshot,
    look,
    look_at,
    places_at,
)
from paraudio.lifecycle._use import Use
from paraudio.spec import IsolationName, ModelSpec


class Runtime:
    """Owns every model, and outlives everybody who uses one.

    Args:
        settings: The runtime's part of the configuration.
        families: Every family by name.
        isolations: Every isolation by name.
        record: Takes each transition.
        revision: What `Snapshot.revision` says; None counts the transitions of this runtime.
        free_memory: Tells the free bytes of the memory that models load into; must not block. None
            takes what this process may still take of the host's, see `find_free_memory`.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        families: Mapping[str, Family],
        isolations: Mapping[IsolationName, Isolation],
        record: Recorder = no_record,
        revision: Callable[[], int] | None = None,
        free_memory: Callable[[], int] | None = None,
    ) -> None:
        self._changes = changes = Changes(record, revision)
        self._phases = phases = Phases(changes, settings.hang_timeout_ms / 1000)
        if free_memory is None:
            guarded = settings.min_free_memory_mb > 0
            free_memory = find_free_memory() if guarded else free_host_memory
        checker = Checker(settings, families, isolations)
        self._context = Context(settings, changes, phases, checker)
        self._registry = Registry(self._context, free_memory)
        self._management = Management(self._context, self._registry)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do the work of every model; started when models can be used.

        Returns after `stop`, once every pool is destroyed, or abandoned and in `cuts`. Whatever a
        backend does, ending the calls takes no longer than the hang timeout, waiting for their
        users no longer than that again, and tearing down no longer than twice that.

        Cancelled: the same as `stop`.
        """
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._registry.serve)
                self._changes(Kind.PHASE, phase=Phase.RUNNING.value)
                task_status.started()
                try:
                    await self._phases.wait_stopping()
                finally:
                    self.stop()
        finally:
            self._phases.advance(Phase.STOPPED)

    def add(self, spec: ModelSpec) -> None:
        """Register a model at startup, without loading it.

        Raises:
            ConfigError: The ID is taken, or something in the spec is wrong; ``param`` says what.
        """
        self._management.add(spec)

    async def load_eager(self) -> None:
        """Load the models that are not lazy, as many as ``max_loaded_models`` allows.

        What fails is logged and stays registered; its next request tries again. Cancelled: loads
        that have begun go on.
        """
        await self._management.load_eager()

    async def survey(self, present: Present = always) -> None:
        """Look at the files of the models that nobody has looked at, so that their facts are known.

        Nothing is loaded, and nothing depends on it: what cannot be read, or not in the hang
        timeout, is looked at again by the load. Ends by itself when the process drains.

        Args:
            present: Tells whether a model's files are there.
        """
        await self._management.survey(present)

    async def inspect(self, spec: ModelSpec) -> Inspection:
        """Check a spec whole, its files included, without registering it.

        Raises:
            InvalidRequestError: ``param`` names the field.
        """
        return await self._management.inspect(spec)

    async def register(
        self, spec: ModelSpec, *, bound_ms: int | None = None, request: str | None = None
    ) -> bool:
        """Register and load a model, or replace the configuration of one and load that.

        The whole spec is checked before anything changes. A failed load leaves the new
        configuration registered and unloaded. Cancelled while it waits for the model: nothing has
        changed. Cancelled later: the work goes on to its end.

        Args:
            spec: The complete metadata.
            bound_ms: The longest admission wait in milliseconds; None takes the server's, 0 none.
            request: The ID of the request that asks.

        Returns:
            Whether the configuration of a registered model was replaced.

        Raises:
            InvalidRequestError: The spec is wrong, or the weights allow fewer sessions.
            ServerBusyError: The model was not free, or no room could be made, within the bound.
            SlotStuckError: The same, because of a stuck slot.
            LoadError: The load failed.
            InsufficientMemoryError: Too little memory is free.
            ShuttingDownError: The process takes no new work.
        """
        return await self._management.register(spec, bound_ms, request)

    async def unload(
        self, model_id: str, *, bound_ms: int | None = None, request: str | None = None
    ) -> None:
        """Unload a model; it stays registered. Does nothing to one that is not loaded.

        Cancelled while it waits for the model: nothing has changed. Cancelled later: the teardown
        goes on to its end.

        Raises:
            ModelNotFoundError: Nothing is registered under that ID.
            ServerBusyError: The model was not free within the bound.
            SlotStuckError: The same, because of a stuck slot.
            ShuttingDownError: The process takes no new work.
        """
        await self._management.unload(model_id, bound_ms, request)

    async def unload_many(
        self, ids: Sequence[str] | None, *, fence: bool, request: str | None = None
    ) -> Unloaded:
        """Unload several models, each as soon as its older work is done.

        Every barrier stands in its queue before this waits for the first time. There is no bound,
        but a model that nothing but stuck slots keep from it is given up, and is told in ``stuck``.
        Cancelled: barriers that still wait leave; what was granted runs to its end.

        Args:
            ids: The models, in any order; None for all that are registered now.
            fence: Also unload what is registered, anew or again, while this drains: of the IDs in
                ``ids``, or of all where that is None.
            request: The ID of the request that asks.

        Raises:
            ShuttingDownError: The process takes no new work, or began to drain meanwhile.
        """
        return await self._management.unload_many(ids, fence, request)

    def use(self, model_id: str, *, request: str, bound_ms: int | None = None) -> Use:
        """Use a model: ``async with runtime.use(...) as use``. See `Use`.

        Args:
            model_id: The model.
            request: The request's ID.
            bound_ms: The longest admission wait in milliseconds; None takes the server's, 0 none.

        Raises:
            ModelNotFoundError: Nothing is registered under that ID.
        """
        return Use(self._context, self._registry.get(model_id), request, bound_ms)

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        return look(self._changes.revision, self._phases.phase, self._registry.entries())

    def model(self, model_id: str) -> ModelSnapshot:
        """One model at this moment.

        Raises:
            ModelNotFoundError: Nothing is registered under that ID.
        """
        return look_at(self._registry.get(model_id).entry)

    def places(self) -> list[Place]:
        """Where every request stands with each model that it waits for or holds, at this moment.

        Operations that no request asked for, such as idle retirement, are not listed.
        """
        return [place for entry in self._registry.entries() for place in places_at(entry)]

    async def wait_change(self, revision: int) -> None:
        """Wait until the revision is greater than this one; always a checkpoint."""
        await self._changes.beyond(revision)

    def drain(self) -> None:
        """Take no new work: who waits in a queue gets `ShuttingDownError`; what runs goes on."""
        self._phases.advance(Phase.DRAINING)
        self._registry.close()

    def stop(self) -> None:
        """End everything: runs, loads and recoveries are told to stop, then pools are retired."""
        self.drain()
        self._phases.advance(Phase.STOPPING)

    async def wait_draining(self) -> None:
        """Wait until no new work is taken; always a checkpoint."""
        await self._phases.wait_draining()

    async def wait_drained(self) -> None:
        """Wait until nobody holds a model; always a checkpoint.

        Stuck slots are not waited for: whoever used them is gone.
        """
        await trio.lowlevel.checkpoint()
        while any(entry.held_slots for entry in self._registry.entries()):
            await self._changes.next()

    def cuts(self) -> list[str]:
        """One line for each thing that `stop` cut or abandoned, or still waits for."""
        lines = list(self._context.cuts)
        if self._phases.phase is Phase.STOPPING:
            lines += [
                f"model {entry.id!r}: still being stopped"
                for entry in self._registry.entries()
                if entry.pool is not None or entry.teardowns or entry.queue.snapshot().active_slots
            ]
        return lines
