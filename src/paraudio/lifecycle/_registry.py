"""The registered models: entries are added and never taken away."""

from collections.abc import Iterator

import trio

from paraudio.engines.isolation import Inspection
from paraudio.errors import ModelNotFoundError
from paraudio.lifecycle._candidate import Candidate
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._guard import FreeMemory, Guard
from paraudio.lifecycle._initialize import Initializer
from paraudio.lifecycle._load import Loader
from paraudio.lifecycle._model import Model
from paraudio.lifecycle._reaper import Reaper
from paraudio.lifecycle._recover import Recovery


class Registry:
    """Every model, each with a task of its own once `serve` runs.

    Args:
        context: The runtime's.
        free_memory: Tells the free bytes of the memory that models load into; must not block.

    Attributes:
        loader: Loads models, through the one guard.
    """

    def __init__(self, context: Context, free_memory: FreeMemory) -> None:
        self._context = context
        self._models: dict[str, Model] = {}
        self._guard = Guard(context, self.entries, free_memory)
        self._nursery: trio.Nursery | None = None
        self.loader = Loader(context, self._guard)

    def __contains__(self, model_id: object) -> bool:
        return model_id in self._models

    def entries(self) -> Iterator[Entry]:
        """Every entry, in the order of registration."""
        for model in self._models.values():
            yield model.entry

    def get(self, model_id: str) -> Model:
        """Look a model up.

        Raises:
            ModelNotFoundError: Nothing is registered under that ID.
        """
        model = self._models.get(model_id)
        if model is None:
            raise ModelNotFoundError.among(model_id, self._models, param="model")
        return model

    def prepare(self, candidate: Candidate, inspection: Inspection | None = None) -> Model:
        """Make a model that nobody can see yet."""
        entry = Entry(self._context, candidate, len(self._models))
        entry.inspection = inspection
        initializer = Initializer(self._context, self.loader, entry)
        return Model(entry, initializer, Recovery(self._context, entry, initializer))

    def publish(self, model: Model) -> None:
        """Make a model visible, in the step that prepared it, and start its task."""
        self._models[model.entry.id] = model
        model.entry.register()
        if self._nursery is not None:
            self._nursery.start_soon(model.serve, self._context)

    def close(self) -> None:
        """Fail everybody who waits in a queue, and who will; leases go on."""
        for entry in self.entries():
            entry.queue.close(self._context.phases.refusal)
        self._guard.close()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the models' tasks, and the reaper, until stopping and until their last work is done.

        Cancelled: nothing, the tasks end by stopping alone.
        """
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for model in self._models.values():
                    nursery.start_soon(model.serve, self._context)
                if self._context.settings.idle_unload_ms:
                    nursery.start_soon(Reaper(self._context, self.entries).run)
                task_status.started()
                await self._context.phases.wait_stopping()
