"""Unloading many models at once: every barrier in one step, then each as it drains."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import trio

from paraudio.admission import Claim, Ticket
from paraudio.errors import ParaudioError, SlotStuckError
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._retire import hand_over_retirement


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What a bulk unload did.

    Attributes:
        unloaded: Models that were unloaded, in the order asked for, each once.
        not_found: IDs that nothing is registered under, in the order asked for, each once.
        stuck: Models that could not be unloaded because of a stuck slot, with the error.
    """

    unloaded: tuple[str, ...]
    not_found: tuple[str, ...]
    stuck: Mapping[str, SlotStuckError] = field(default_factory=dict)


class Bulk:
    """One bulk unload: its barriers stand in their queues before anybody waits.

    Barriers are published in the order of registration, whatever order the caller names, and all
    in one step; so of two overlapping bulks one is first on every model that they share.

    Cancelled: barriers that still wait leave; what was granted runs to its end.

    Args:
        context: The runtime's.
        entries: The models to unload.
        covers: The IDs that a fence watches, None for all; without effect for no fence.
        request: The ID of the request that asks, or None.
    """

    def __init__(
        self,
        context: Context,
        entries: Collection[Entry],
        *,
        covers: Collection[str] | None,
        request: str | None,
    ) -> None:
        self._context = context
        self._covers = covers
        self._request = request
        self._tickets: list[tuple[Entry, Ticket]] = []
        self._nursery: trio.Nursery | None = None
        self._open = 0
        self._error: ParaudioError | None = None
        self.late: list[str] = []
        self.stuck: dict[str, SlotStuckError] = {}
        try:
            for entry in sorted(entries, key=lambda each: each.number):
                self._tickets.append((entry, self._enter(entry)))
        except ParaudioError:
            for entry, ticket in self._tickets:
                entry.queue.leave(ticket)
            raise

    def _enter(self, entry: Entry) -> Ticket:
        self._open += 1
        return entry.queue.enter(Claim.MANAGER, request=self._request)

    def watch(self, entry: Entry) -> None:
        """A fence: also retire this model, which is being registered while the bulk drains."""
        covered = self._covers is None or entry.id in self._covers
        if self._nursery is None or not self._open or not covered:
            return
        self.late.append(entry.id)
        self._nursery.start_soon(self._unload, entry, self._enter(entry))

    async def drain(self) -> None:
        """Retire each model as its barrier is granted; returns when the last one is gone.

        A model that only stuck slots keep from it is noted in ``stuck``; the others go on.

        Raises:
            ShuttingDownError: A barrier still waited when the process began to drain.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for entry, ticket in self._tickets:
                nursery.start_soon(self._unload, entry, ticket)
        if self._error is not None:
            raise self._error

    async def _unload(self, entry: Entry, ticket: Ticket) -> None:
        try:
            lease = await entry.queue.wait(ticket)
            await hand_over_retirement(self._context, entry, lease, "unload").wait()
        except SlotStuckError as error:
            self.stuck[entry.id] = error
        except ParaudioError as error:
            self._error = error
        finally:
            self._open -= 1
