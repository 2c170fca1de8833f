"""Replacing the configuration of a registered model, under its exclusive lease."""

from dataclasses import dataclass

from paraudio.admission import Lease
from paraudio.engines.isolation import Inspection
from paraudio.lifecycle._abandoned import check_abandoned
from paraudio.lifecycle._candidate import Candidate
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._load import Loader, in_time
from paraudio.lifecycle._pool import check_capacity, probe
from paraudio.lifecycle._retire import retire
from paraudio.lifecycle._states import State, Trigger


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """One replacement: decided before the lease, done under it, by the model's own task.

    Attributes:
        context: The runtime's.
        loader: The runtime's.
        entry: The model.
        candidate: The new configuration, checked whole.
        inspection: What its files say.
        bound_s: How long its load may wait for room, in seconds.
    """

    context: Context
    loader: Loader
    entry: Entry
    candidate: Candidate
    inspection: Inspection
    bound_s: float

    async def run(self, lease: Lease) -> bool:
        """Replace the configuration and load it; or only load, when nothing changed.

        Until the commit a refusal leaves count, metadata and residency exactly as they were, and
        the pool too unless it is broken. After it the new configuration stays, loaded or not.

        Returns:
            Whether anything changed.

        Raises:
            InvalidRequestError: The weights allow fewer sessions than ``slots``.
            LoadError: The probe or the load failed.
            ParaudioError: There was no room to load it; the new configuration stays.
        """
        if self.candidate.spec == self.entry.spec:
            await self.loader.ensure(self.entry, lease.ticket, self.bound_s)
            return False
        if self.entry.state is State.READY:
            self.entry.move(Trigger.RECONFIGURE)
        await self._check_capacity(lease.ticket)
        await retire(self.context, self.entry, lease.ticket, "reconfigure")
        self.entry.commit(lease, self.candidate, self.inspection)
        await self._load(lease)
        return True

    async def _check_capacity(self, ticket: int) -> None:
        """Refuse too many slots while everything is as it was, and put the state back."""
        try:
            if self.candidate.spec.slots > 1:
                check_capacity(self.entry.id, await self._capacity(), self.candidate.spec.slots)
        except BaseException:
            self._undo(Trigger.KEEP)
            if self.entry.usable_pool is None:
                # The last user of a broken pool has left it to this change to retire.
                await retire(self.context, self.entry, ticket, "broken")
            raise

    async def _capacity(self) -> int:
        """What the new configuration allows; known where nothing of a session changes."""
        known = self.entry.capacity
        if known is not None and self.candidate.spec.same_sessions(self.entry.spec):
            return known
        load = self.candidate.generation(self.entry.generation)
        isolation = self.candidate.isolation
        check_abandoned(isolation, self.entry.id)
        try:
            with (
                self.context.phases.interruptible(),
                in_time(self.context, self.candidate.spec),
            ):
                return await probe(self.candidate, load, self.context.phases)
        finally:
            left = isolation.abandoned_of(self.entry.id)
            self.entry.abandoned.note(left, reserve=self.inspection.memory)

    async def _load(self, lease: Lease) -> None:
        """Load what was committed; `Loader.load` moves the state once it has begun."""
        try:
            guard = await self.loader.enter(self.entry, self.bound_s)
        except BaseException:
            self._undo(Trigger.FAIL)
            raise
        with guard:
            await self.loader.load(self.entry, lease.ticket, self.bound_s)

    def _undo(self, trigger: Trigger) -> None:
        """Leave the state that a loaded model was put into; one that was unloaded is so still."""
        if self.entry.state is State.RECONFIGURING:
            self.entry.move(trigger)
