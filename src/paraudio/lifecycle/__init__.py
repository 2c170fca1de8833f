"""Lifecycle: registered models, their loads and retirements, residency, and shutdown phases."""

from paraudio.lifecycle._abandoned import MOST_ABANDONED
from paraudio.lifecycle._bulk import Unloaded
from paraudio.lifecycle._memory import find_free_memory
from paraudio.lifecycle._phases import Phase
from paraudio.lifecycle._runtime import Runtime
from paraudio.lifecycle._settings import RuntimeSettings
from paraudio.lifecycle._snapshot import ModelSnapshot, Place, Snapshot
from paraudio.lifecycle._states import (
    TRANSITIONS,
    IllegalTransitionError,
    State,
    Trigger,
    next_state,
)
from paraudio.lifecycle._use import Use

__all__ = [
    "MOST_ABANDONED",
    "TRANSITIONS",
    "IllegalTransitionError",
    "ModelSnapshot",
    "Phase",
    "Place",
    "Runtime",
    "RuntimeSettings",
    "Snapshot",
    "State",
    "Trigger",
    "Unloaded",
    "Use",
    "find_free_memory",
    "next_state",
]
