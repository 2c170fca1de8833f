"""Admission: one first-in, first-out line a model; requests take a slot each, managers all."""

from paraudio.admission._line import QueueSnapshot
from paraudio.admission._queue import ModelQueue
from paraudio.admission._rules import Claim, effective_bound_s
from paraudio.admission._ticket import Lease, Ticket

__all__ = ["Claim", "Lease", "ModelQueue", "QueueSnapshot", "Ticket", "effective_bound_s"]
