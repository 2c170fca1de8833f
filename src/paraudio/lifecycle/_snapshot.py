"""What an observer sees: everything at one moment, immutable."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from paraudio.admission import Claim, Lease, Ticket
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._phases import Phase
from paraudio.lifecycle._states import State
from paraudio.spec import Json, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSnapshot:
    """One model at one moment.

    Attributes:
        spec: Its committed metadata.
        state: What it is doing.
        loaded: Whether a complete pool is published.
        slots: Sessions of its pool, or that its pool would have.
        active_slots: Slots that requests hold, from their grant on.
        queued_requests: Requests that wait for a slot.
        queued_managers: Managers that wait for all slots.
        managed: Whether a manager holds all slots: it loads, unloads or replaces the model, or
            finds out what a new configuration allows; an unloaded model's state does not tell that.
        stuck_slots: Slots whose backend call ignores its stop.
        abandoned_calls: Calls of former loads and pools that ignored their stop and still run.
        max_parallel_slots: Sessions that the weights allow; None while not loaded.
        facts: What the family says of the model; empty until its files were looked at.
        generation: How many loads were started.
        config: The number of the configuration, from 1.
    """

    spec: ModelSpec
    state: State
    loaded: bool
    slots: int
    active_slots: int
    queued_requests: int
    queued_managers: int
    managed: bool
    stuck_slots: int
    abandoned_calls: int
    max_parallel_slots: int | None
    facts: Mapping[str, Json]
    generation: int
    config: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The runtime at one moment.

    Attributes:
        revision: Grows with each change.
        phase: How far shutdown has gone.
        models: Every registered model, in the order of registration.
    """

    revision: int
    phase: Phase
    models: tuple[ModelSnapshot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a request stands with a model: in its line, or in possession of slots.

    Attributes:
        request: The request's ID.
        model: The model's ID.
        manager: Whether it wants, or has, all slots.
        position: How many stand before it in the line; None once it was granted.
        slots: What it holds; empty while it waits.
        state: What the model is doing.
    """

    request: str
    model: str
    manager: bool
    position: int | None
    slots: tuple[int, ...]
    state: State


def places_at(entry: Entry) -> Iterator[Place]:
    """The places of every request with one model, now: holders first, then the line."""

    def place(of: Lease | Ticket, position: int | None, slots: tuple[int, ...]) -> Place:
        return Place(
            request=of.request or "",
            model=entry.id,
            manager=of.claim is Claim.MANAGER,
            position=position,
            slots=slots,
            state=entry.state,
        )

    for lease in entry.queue.held():
        if lease.request is not None:
            yield place(lease, None, lease.slots)
    for position, ticket in enumerate(entry.queue.waiting()):
        if ticket.request is not None:
            yield place(ticket, position, ())


def look_at(entry: Entry) -> ModelSnapshot:
    """One model, now."""
    queue = entry.queue.snapshot()
    facts = {} if entry.inspection is None else entry.inspection.facts
    return ModelSnapshot(
        spec=entry.spec,
        state=entry.state,
        loaded=entry.pool is not None,
        slots=entry.spec.slots,
        active_slots=0 if queue.managed else queue.active_slots,
        queued_requests=queue.queued_requests,
        queued_managers=queue.queued_managers,
        managed=queue.managed,
        stuck_slots=queue.stuck_slots,
        abandoned_calls=len(entry.abandoned),
        max_parallel_slots=None if entry.pool is None else entry.pool.capacity,
        facts=MappingProxyType(dict(facts)),
        generation=entry.generation,
        config=entry.config,
    )


def look(revision: int, phase: Phase, entries: Iterable[Entry]) -> Snapshot:
    """Everything, now."""
    return Snapshot(revision, phase, tuple([look_at(entry) for entry in entries]))
