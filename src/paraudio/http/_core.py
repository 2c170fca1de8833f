"""What every handler shares: the runtime, the settings, and what this application adds to them."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from quart.wrappers import Response

from paraudio.config import Settings
from paraudio.engines import Family
from paraudio.http._meters import Meters
from paraudio.http._tracing import Tracing
from paraudio.http._workers import Workers
from paraudio.journal import Journal, Recorder
from paraudio.lifecycle import Runtime
from paraudio.store import Shelf

if TYPE_CHECKING:
    from paraudio.http._exchange import Exchange


class Gate(Enum):
    """Who may use a route."""

    OPEN = "open"  # anyone: probes
    KEYED = "keyed"  # whoever has a key, where keys are set
    MANAGEMENT = "management"  # as KEYED, and only with ``ui_management``


Handler: TypeAlias = Callable[..., Awaitable[Response]]
"""Takes the exchange, and the variables of the path by name."""


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table of routes.

    Attributes:
        method: ``GET``, ``POST`` or ``DELETE``.
        path: A path as werkzeug writes it.
        handler: What answers.
        gate: Who may use it.
    """

    method: str
    path: str
    handler: Handler
    gate: Gate = Gate.KEYED


@dataclass(frozen=True, slots=True)
class Core:
    """The shared part of every request.

    Attributes:
        runtime: Registered models and the way to use them.
        settings: The whole configuration.
        families: The families by name, for their schemas of options.
        record: Takes journal events.
        journal: The journal itself, for those who follow it; None where there is none.
        meters: What is counted and measured.
        shelf: Holds the store of models; None where there is none.
        tracing: Takes the spans of requests; None where nobody wants them.
        workers: Threads for bodies, files and sound.
        in_flight: The exchanges that have not ended, by their ID.
        started_at: When the application was made, in seconds of the Unix epoch.
    """

    runtime: Runtime
    settings: Settings
    families: Mapping[str, Family]
    record: Recorder
    journal: Journal | None
    meters: Meters
    shelf: Shelf | None = None
    tracing: Tracing | None = None
    workers: Workers = field(default_factory=Workers)
    in_flight: "dict[str, Exchange]" = field(default_factory=dict)
    started_at: int = field(default_factory=lambda: int(time.time()))
