"""The routes that hear and answer at the same time."""

from collections.abc import Mapping
from typing import Final

from paraudio.audio import MAX_RATE, MIN_RATE, RAW_FORMATS
from paraudio.http._live import DEFAULT_RATE, MAX_CHANNELS
from paraudio.http._speech import GROWING, STREAM_FORMATS
from paraudio.http.openapi import _asks as asks
from paraudio.http.openapi._audio import SOUNDS, heard_events, spoken_events
from paraudio.http.openapi._operation import (
    EVENTS,
    WORK_ERRORS,
    Answer,
    Media,
    Operation,
    query,
)
from paraudio.http.openapi._schema import Schema, choice, exactly, text, told, whole

_BYTES: Final = {"type": "string", "format": "binary"}
_BOUNDED: Final = (
    "The answer begins before the body ends, and the bounds of `live_ingest` hold: what passes one "
    "is the stream's last event. A body that breaks off is never `done`. A parameter that is not "
    "listed here is refused."
)


def _parameters(fields: Mapping[str, Schema]) -> tuple[Schema, ...]:
    """The fields of a form, as those of a query are written: there is no ``null``."""
    plain = asks.form(dict(fields), "model")["properties"]
    return tuple(query(name, schema, required=name == "model") for name, schema in plain.items())


def _listening() -> tuple[Schema, ...]:
    rate = {**whole(MIN_RATE, MAX_RATE, "Frames a second."), "default": DEFAULT_RATE}
    channels = whole(1, MAX_CHANNELS, "Samples of a frame; they are mixed to one.")
    sample_format = choice(
        list(RAW_FORMATS), "16 bit integers or 32 bit floats, little-endian.", default="s16le"
    )
    own = {
        "sample_rate": rate,
        "channels": {**channels, "default": 1},
        "sample_format": sample_format,
    }
    return _parameters({**asks.listening(), **own})


def _speaking() -> tuple[Schema, ...]:
    own = {
        "response_format": choice(GROWING, "The format of sound that does not come in events."),
        "stream_format": choice(
            STREAM_FORMATS,
            "Events, or the bytes of one sound: `audio` where a `response_format` is named, else "
            "`sse`.",
        ),
    }
    return _parameters({**asks.speaking(), **own})


def operations() -> dict[str, Operation]:
    """By method and path."""
    sounds = {name: Media(schema=_BYTES) for name in SOUNDS}
    return {
        "POST /v1/audio/transcriptions/live": Operation(
            notes="For models that transcribe, that tell speakers apart, and that find speech. "
            + _BOUNDED,
            parameters=_listening(),
            body={"application/octet-stream": told(dict(_BYTES), "Interleaved samples.")},
            body_required=False,
            answers={
                200: Answer(doc="What is heard, as it is known.", content={EVENTS: heard_events()})
            },
            errors=WORK_ERRORS,
        ),
        "POST /v1/audio/speech/live": Operation(
            notes=f"Each sentence is spoken when it is complete. {_BOUNDED} Sound that is not in "
            "events is cut off in its stead.",
            parameters=_speaking(),
            body={"text/plain": {"type": "string", "description": "UTF-8."}},
            body_required=False,
            answers={
                200: Answer(
                    doc="The sound of each sentence, as it is made.",
                    content={EVENTS: spoken_events(), **sounds},
                )
            },
            errors=WORK_ERRORS,
        ),
        "GET /v1/realtime": Operation(
            notes="The handshake of a websocket: the events of OpenAI's realtime transcription "
            "both ways. What refuses it is answered as any request is.",
            parameters=(
                query("model", text(doc="The model that transcribes.")),
                query("intent", exactly("transcription")),
                query("busy_timeout_ms", whole(0, doc="The longest wait for a slot; 0 is none.")),
            ),
            answers={101: Answer(doc="The websocket is open.")},
            errors=(404, 426, 503),
        ),
    }
