"""What a line writes into the journal, in the words of `paraudio.journal.Kind`."""

from math import inf
from typing import Literal

from paraudio.admission._rules import Claim
from paraudio.admission._ticket import Lease, Ticket
from paraudio.journal import Kind, Recorder, no_record

WhyLeft = Literal["timeout", "cancelled", "shutting_down", "slot_stuck"]
WhyRefused = Literal["server_busy", "queue_full", "shutting_down", "slot_stuck"]


class Notes:
    """Notes of one model's line; each method records one transition."""

    def __init__(self, model: str, record: Recorder) -> None:
        self._model = model
        self._record = record

    def queued(self, ticket: Ticket) -> None:
        """A ticket took its place."""
        bound_ms = None if ticket.bound_s == inf else round(ticket.bound_s * 1000)
        self._record(
            Kind.QUEUED,
            self._model,
            ticket=ticket.number,
            manager=ticket.claim is Claim.MANAGER,
            bound_ms=bound_ms,
            request=ticket.request,
        )

    def left(self, ticket: Ticket, why: WhyLeft) -> None:
        """A ticket left without a lease."""
        self._record(Kind.LEFT, self._model, ticket=ticket.number, why=why)

    def refused(self, why: WhyRefused) -> None:
        """A newcomer was turned away."""
        self._record(Kind.REFUSED, self._model, why=why)

    def resized(self, lease: Lease, slots: int) -> None:
        """A manager changed the number of slots."""
        self._record(Kind.RESIZED, self._model, ticket=lease.ticket, slots=slots)

    def granted(self, lease: Lease) -> None:
        """A ticket became a lease."""
        self._lease(Kind.GRANTED, lease)

    def released(self, lease: Lease) -> None:
        """A lease gave its slots back."""
        self._lease(Kind.RELEASED, lease)

    def stuck(self, lease: Lease) -> None:
        """The backend call under a lease ignores its stop."""
        self._lease(Kind.STUCK, lease)

    def freed(self, lease: Lease) -> None:
        """A stuck call ended."""
        self._lease(Kind.FREED, lease)

    def _lease(self, kind: Kind, lease: Lease) -> None:
        """Record what happened to a lease."""
        self._record(kind, self._model, ticket=lease.ticket, slots=list(lease.slots))


class _NoNotes(Notes):
    """Notes of a line that nobody records: the frequent ones do not even gather their facts."""

    def queued(self, ticket: Ticket) -> None:
        """Forget it."""

    def granted(self, lease: Lease) -> None:
        """Forget it."""

    def released(self, lease: Lease) -> None:
        """Forget it."""


def notes_for(model: str, record: Recorder) -> Notes:
    """The notes of a model's line; next to free if ``record`` forgets everything."""
    return _NoNotes(model, record) if record is no_record else Notes(model, record)
