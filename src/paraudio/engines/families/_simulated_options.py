"""The options of the simulated family."""

from typing import Final

from paraudio.engines._options import Option

_MOST: Final = 2**31 - 1
"""The most milliseconds, 24 days, and the most MiB: no thread waits for much longer."""

LOAD_OPTIONS: tuple[Option, ...] = (
    Option(
        name="load_ms",
        kind=int,
        default=0,
        minimum=0,
        maximum=_MOST,
        doc="Milliseconds that a load takes.",
    ),
    Option(
        name="unload_ms",
        kind=int,
        default=0,
        minimum=0,
        maximum=_MOST,
        doc="Milliseconds to free the weights.",
    ),
    Option(
        name="capacity",
        kind=int,
        default=16,
        minimum=1,
        maximum=16,
        doc="How many sessions the model says that it can have.",
    ),
    Option(
        name="memory_mb",
        kind=int,
        default=0,
        minimum=0,
        maximum=_MOST,
        doc="MiB that a load is estimated to need, and holds where it really runs.",
    ),
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
    Option(
        name="run_ms",
        kind=int,
        default=0,
        minimum=0,
        maximum=_MOST,
        doc="Milliseconds that a run takes.",
    ),
    Option(
        name="chunks",
        kind=int,
        default=4,
        minimum=1,
        maximum=10_000,
        doc="In how many pieces a stream delivers its result.",
    ),
    Option(
        name="chunk_ms",
        kind=int,
        default=None,
        minimum=0,
        maximum=_MOST,
        doc="Milliseconds before each piece; without it the pieces share run_ms.",
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
    Option(
        name="run_ms",
        kind=int,
        default=None,
        minimum=0,
        maximum=_MOST,
        doc="Milliseconds of this run, in place of the session's.",
    ),
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
