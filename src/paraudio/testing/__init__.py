"""Public helpers for tests: virtual time, the conformance kit, a stepper for state machines."""

from paraudio.testing._gates import Arrival, Gate, Gates, Point
from paraudio.testing._guard import LoopGuard, Stall, guarded_runs
from paraudio.testing._virtual import VirtualIsolation, open_virtual_isolation

__all__ = [
    "Arrival",
    "Gate",
    "Gates",
    "LoopGuard",
    "Point",
    "Stall",
    "VirtualIsolation",
    "guarded_runs",
    "open_virtual_isolation",
]
