"""The events that a realtime session sends, as plain data."""

import secrets
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeAlias

from paraudio.spec import Json

Event: TypeAlias = dict[str, Json]
Emit: TypeAlias = Callable[[Event], None]
"""Takes one event on its way to the client; never waits."""

_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"


class Dialect(Enum):
    """Which names a client knows some events by."""

    CURRENT = "current"
    BETA = "beta"  # ``OpenAI-Beta: realtime=v1``


def new_id(prefix: str) -> str:
    """An ID that nobody guesses."""
    return f"{prefix}_{secrets.token_hex(12)}"


def event(kind: str, **fields: Json) -> Event:
    """An event with an ID of its own."""
    return {"type": kind, "event_id": new_id("event"), **fields}


def error_event(error: Mapping[str, Json], cause: str | None) -> Event:
    """What went wrong; ``cause`` is the ID that the client gave to the event that is at fault."""
    return event("error", error={**error, "event_id": cause})


def speech_started(item_id: str, start_ms: int) -> Event:
    """Somebody begins to speak; what was sent before ``start_ms`` is no part of the item."""
    return event("input_audio_buffer.speech_started", item_id=item_id, audio_start_ms=start_ms)


def speech_stopped(item_id: str, end_ms: int) -> Event:
    """Somebody has spoken; the item ends at ``end_ms``."""
    return event("input_audio_buffer.speech_stopped", item_id=item_id, audio_end_ms=end_ms)


def committed(item_id: str, previous: str | None, dialect: Dialect) -> list[Event]:
    """A part of the sound has become an item."""
    item = _item(item_id, None)
    done = event("input_audio_buffer.committed", item_id=item_id, previous_item_id=previous)
    kinds = ("created",) if dialect is Dialect.BETA else ("added", "done")
    shown = [
        event(f"conversation.item.{kind}", previous_item_id=previous, item=item) for kind in kinds
    ]
    return [done, *shown]


def retrieved(item_id: str, transcript: str | None) -> Event:
    """An item as it is known; its sound is not kept."""
    return event("conversation.item.retrieved", item=_item(item_id, transcript))


def deleted(item_id: str) -> Event:
    """An item is forgotten."""
    return event("conversation.item.deleted", item_id=item_id)


def _item(item_id: str, transcript: str | None) -> dict[str, Json]:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_audio", "transcript": transcript}],
    }


def cleared() -> Event:
    """What was sent and not committed is forgotten."""
    return event("input_audio_buffer.cleared")


def delta(item_id: str, text: str) -> Event:
    """Text that follows what came before, and stays as it is."""
    return event(f"{_TRANSCRIPTION}.delta", item_id=item_id, content_index=0, delta=text)


def partial(item_id: str, text: str) -> Event:
    """What is heard so far behind the deltas; the next one replaces it."""
    return event(f"{_TRANSCRIPTION}.partial", item_id=item_id, content_index=0, partial=text)


def completed(item_id: str, text: str, seconds: float) -> Event:
    """The whole transcript of an item."""
    usage: Json = {"type": "duration", "seconds": round(seconds, 3)}
    return event(
        f"{_TRANSCRIPTION}.completed",
        item_id=item_id,
        content_index=0,
        transcript=text,
        usage=usage,
    )


def failed(item_id: str, error: Mapping[str, Json]) -> Event:
    """Why an item has no transcript."""
    return event(f"{_TRANSCRIPTION}.failed", item_id=item_id, content_index=0, error=dict(error))
