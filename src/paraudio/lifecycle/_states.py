"""The states of a model as a table: (state, trigger) -> state, and nothing else is possible."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """What a registered model is doing with its weights."""

    UNLOADED = "unloaded"
    """Metadata only; the next request or registration loads it."""
    LOADING = "loading"
    """Weights and sessions are being built, privately."""
    READY = "ready"
    """A complete pool is published."""
    RECONFIGURING = "reconfiguring"
    """A manager replaces a loaded configuration: it probes, retires, commits and loads."""
    UNLOADING = "unloading"
    """Logically gone already; sessions and weights are being destroyed."""


class Trigger(StrEnum):
    """What moves a model from one state to the next."""

    LOAD = "load"
    PUBLISH = "publish"
    FAIL = "fail"
    """A load or a replacement ended without a pool."""
    RECONFIGURE = "reconfigure"
    KEEP = "keep"
    """A replacement was refused before its commit, and the old pool stays."""
    RETIRE = "retire"
    DESTROY = "destroy"
    """Sessions and weights are gone."""


class IllegalTransitionError(Exception):
    """The trigger does not exist in this state; nothing has changed."""


TRANSITIONS: Final[Mapping[tuple[State, Trigger], State]] = {
    (State.UNLOADED, Trigger.LOAD): State.LOADING,
    (State.LOADING, Trigger.PUBLISH): State.READY,
    (State.LOADING, Trigger.FAIL): State.UNLOADED,
    (State.READY, Trigger.RETIRE): State.UNLOADING,
    (State.UNLOADING, Trigger.DESTROY): State.UNLOADED,
    (State.READY, Trigger.RECONFIGURE): State.RECONFIGURING,
    (State.RECONFIGURING, Trigger.KEEP): State.READY,
    (State.RECONFIGURING, Trigger.FAIL): State.UNLOADED,
    (State.RECONFIGURING, Trigger.PUBLISH): State.READY,
}
"""Every transition there is. The diagram in the documentation is made from this table."""


def next_state(state: State, trigger: Trigger) -> State:
    """Where a trigger leads.

    Raises:
        IllegalTransitionError: The table has no such transition.
    """
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransitionError(
            f"{trigger.value!r} cannot happen while {state.value!r}"
        ) from None
