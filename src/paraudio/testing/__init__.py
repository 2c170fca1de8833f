"""Public helpers for tests: virtual time, the conformance kit, a stepper for state machines."""

from paraudio.testing._conformance import (
    check_abandoned_stream,
    check_batch,
    check_cancelled_load,
    check_closing,
    check_crash,
    check_failure,
    check_hang,
    check_interleaving,
    check_invalid_job,
    check_results,
    check_session,
    check_stop,
    check_stream,
)
from paraudio.testing._conformance_case import Case, LiveCase, same_result
from paraudio.testing._conformance_live import (
    check_abandoned_live,
    check_crashed_live,
    check_interleaved_live,
    check_live,
    check_stopped_live,
    check_wrong_live,
)
from paraudio.testing._gates import Arrival, Gate, Gates, Point
from paraudio.testing._guard import LoopGuard, Stall, guarded_runs
from paraudio.testing._stepper import (
    NotSettledError,
    StepBlockedError,
    Stepper,
    seed_schedule,
)
from paraudio.testing._virtual import VirtualIsolation, open_virtual_isolation

__all__ = [
    "Arrival",
    "Case",
    "Gate",
    "Gates",
    "LiveCase",
    "LoopGuard",
    "NotSettledError",
    "Point",
    "Stall",
    "StepBlockedError",
    "Stepper",
    "VirtualIsolation",
    "check_abandoned_live",
    "check_abandoned_stream",
    "check_batch",
    "check_cancelled_load",
    "check_closing",
    "check_crash",
    "check_crashed_live",
    "check_failure",
    "check_hang",
    "check_interleaved_live",
    "check_interleaving",
    "check_invalid_job",
    "check_live",
    "check_results",
    "check_session",
    "check_stop",
    "check_stopped_live",
    "check_stream",
    "check_wrong_live",
    "guarded_runs",
    "open_virtual_isolation",
    "same_result",
    "seed_schedule",
]
