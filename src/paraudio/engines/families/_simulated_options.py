"""The options of the simulated family."""

from typing import Final

from paraudio.engines._options import Option

_MOST: Final = 2**31 - 1
"""The most milliseconds, 24 days, and the most MiB: no thread waits for much longer."""


def _amount(name: str, doc: str, *, default: int | None = 0) -> Option:
    """An option of milliseconds or MiB."""
    return Option(name=name, kind=int, default=default, minimum=0, maximum=_MOST, doc=doc)


LOAD_OPTIONS: tuple[Option, ...] = (
    _amount("load_ms", "Milliseconds that a load takes."),
    _amount("unload_ms", "Milliseconds to free the weights."),
    Option(
        name="capacity",
        kind=int,
        default=16,
        minimum=1,
        maximum=16,
        doc="How many sessions the model says that it can have.",
    ),
    _amount("memory_mb", "MiB that a load is estimated to need, and holds where it really runs."),
    Option(
        name="load_ignores_cancel",
        kind=bool,
        default=False,
        doc="Whether a load that is told to stop goes on to its end.",
    ),
    Option(name="fail_loads", kind=int, default=0, minimum=0, doc="How many first loads fail."),
    Option(
        name="null_sessions",
        kind=int,
        default=0,
        minimum=0,
        doc="How many first sessions come out as nothing.",
    ),
    Option(
        name="fail_clone",
        kind=int,
        default=0,
        minimum=0,
        doc="Which session, counted from 1, fails to be built; 0 is none.",
    ),
)
SESSION_OPTIONS: tuple[Option, ...] = (
    _amount("run_ms", "Milliseconds that a run takes."),
    Option(
        name="chunks",
        kind=int,
        default=4,
        minimum=1,
        maximum=10_000,
        doc="In how many pieces a stream delivers its result.",
    ),
    _amount(
        "chunk_ms",
        "Milliseconds before each piece; without it the pieces share run_ms.",
        default=None,
    ),
    Option(name="fail_runs", kind=int, default=0, minimum=0, doc="How many first runs fail."),
    Option(
        name="fail_prepares",
        kind=int,
        default=0,
        minimum=0,
        doc="How many first preparations fail.",
    ),
    Option(
        name="ignore_cancel",
        kind=bool,
        default=False,
        doc="Whether a run that is told to stop goes on to its end.",
    ),
)
REQUEST_OPTIONS: tuple[Option, ...] = (
    _amount("run_ms", "Milliseconds of this run, in place of the session's.", default=None),
    Option(
        name="chunks",
        kind=int,
        default=None,
        minimum=1,
        maximum=10_000,
        doc="Pieces of this stream, in place of the session's.",
    ),
    Option(name="fail", kind=bool, default=False, doc="Whether this run fails at its end."),
)
