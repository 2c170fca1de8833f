"""The bounds of live input, as they are configured: the server's under those of the model."""

import math
from dataclasses import dataclass

from paraudio.config import Settings
from paraudio.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one live client may cost; without a bound it is infinite.

    Attributes:
        idle_s: The longest pause between two pieces.
        total_s: The longest time from the first to the end.
        body_bytes: The largest body, or None.
        chunk_bytes: The largest piece: a chunk of HTTP/1.1, or the sound of one event.
        send_s: The longest time that the client takes nothing of the answer.
    """

    idle_s: float
    total_s: float
    body_bytes: int | None
    chunk_bytes: int
    send_s: float


def bounds_of(settings: Settings, spec: ModelSpec | None) -> Bounds:
    """The server's bounds under those that the model, if there is one, has of its own."""
    own = {} if spec is None else spec.live_ingest
    merged = {**settings.live_ingest.model_dump(), **own}
    return Bounds(
        idle_s=_seconds(merged["idle_timeout_ms"]),
        total_s=_seconds(merged["total_timeout_ms"]),
        body_bytes=merged["max_body_bytes"] or None,
        chunk_bytes=merged["max_chunk_bytes"],
        send_s=_seconds(merged["send_timeout_ms"]),
    )


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000 or math.inf
