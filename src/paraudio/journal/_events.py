"""The transitions that the journal records: their kinds, and the facts that each carries.

This table is the contract between the rooms that record and the checker that replays. A kind's
facts are all present in each event of the kind; times are seconds of the server's monotonic clock.
"""

from enum import StrEnum
from typing import NamedTuple, Protocol

from paraudio.spec import Json


class Kind(StrEnum):
    """What happened."""

    __hash__ = str.__hash__  # an enumeration's own takes ten times as long, for each event again

    # Admission. ``ticket`` counts within a model, from 1.
    QUEUED = "queued"  # ticket, manager (bool), bound_ms (null: none), request (or null)
    GRANTED = "granted"  # ticket, slots (list); a manager is granted every slot
    LEFT = "left"  # ticket, why: timeout | cancelled | shutting_down | slot_stuck
    REFUSED = "refused"  # why: server_busy | queue_full | shutting_down | slot_stuck; never queued
    RELEASED = "released"  # ticket, slots
    STUCK = "stuck"  # ticket, slots: the backend ignores its stop; the lease is kept
    FREED = "freed"  # ticket, slots: the stuck call ended; ``released`` follows
    RESIZED = "resized"  # ticket (of the manager), slots (the new count)

    # Lifecycle.
    REGISTERED = "registered"  # slots, path, config (the number of the configuration, from 1)
    INSPECTED = "inspected"  # config: its files were looked at; ``facts`` are known from now on
    STATE = "state"  # from, to, event
    LOAD_STARTED = "load_started"  # ticket, generation, config
    LOAD_FAILED = "load_failed"  # ticket, generation, error
    PUBLISHED = "published"  # ticket, generation, sessions (count), config
    # ticket (null where the server stops), generation, why: unload | reconfigure | evict | idle |
    # broken (a session could be neither reset nor replaced) | shutdown
    RETIRED = "retired"
    DESTROYED = "destroyed"  # generation: sessions, then weights, are gone
    COMMITTED = "committed"  # ticket, slots, path, config
    ABANDONED = "abandoned"  # call (counts within the model), what: given up, and still runs
    RETURNED = "returned"  # call: an abandoned call ended after all

    # Requests.
    BOUND = "bound"  # request, ticket, config: the configuration that the request runs under
    RUN_STARTED = "run_started"  # request, ticket, slot, generation
    RUN_ENDED = "run_ended"  # request, ticket, outcome: ok | error | stopped | stuck
    DISCONNECTED = "disconnected"  # request: the server saw that its client is gone

    # The server.
    PHASE = "phase"  # phase: running | draining | stopping | stopped
    PAUSED = "paused"  # ms: the system did not run this process for so long, until now
    CUT = "cut"  # what: one thing that shutdown did not wait for


class Event(NamedTuple):
    """One recorded transition.

    Attributes:
        seq: Counts the events of this process, from 1; also the ``revision`` of the snapshots.
        at: Seconds on the monotonic clock of the server.
        kind: What happened.
        model: The model that it happened to, or None.
        facts: The facts that the kind carries.
    """

    seq: int
    at: float
    kind: Kind
    model: str | None
    facts: dict[str, Json]


class Recorder(Protocol):
    """Takes a transition, synchronously and without failing."""

    def __call__(self, kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        """Record one transition; ``from`` is passed as ``**{"from": …}``."""


def no_record(kind: Kind, model: str | None = None, /, **facts: Json) -> None:
    """A recorder that forgets."""
