"""The fields of requests: the bounds and words are those that their readers use."""

from typing import Final, get_args

from paraudio.config import LiveIngest
from paraudio.http._ask import AUTOMATIC, LANGUAGE_TAG, MAX_SPEED, MAX_TEMPERATURE, MIN_SPEED
from paraudio.http._fields import MAX_SEED, MAX_WHOLE
from paraudio.http._multipart import MAX_PARTS
from paraudio.http._speech import SPEECH_FORMATS, STREAM_FORMATS
from paraudio.http._transcripts import FORMATS, GRANULARITIES
from paraudio.http.openapi._schema import (
    ANYTHING,
    Schema,
    choice,
    either,
    exactly,
    flag,
    listed,
    mapping,
    maybe,
    number,
    text,
    thing,
    told,
    whole,
)
from paraudio.spec import MAX_SLOTS, IsolationName, Mode, Task

_MODEL: Final = text("The ID of a registered model.", filled=True)
_BOUND: Final = whole(
    0, MAX_WHOLE, "The longest wait for a slot, in milliseconds; 0 is no bound of the request's."
)
_LANGUAGE: Final = text(
    f"A language tag; empty and `{AUTOMATIC}` leave it to the model.",
    # Blanks around it are cut off.
    pattern=rf"^\s*({LANGUAGE_TAG}|[aA][uU][tT][oO])?\s*$",
)
_SEED: Final = either(
    whole(0, MAX_SEED),
    text(pattern="^-?[0-9]{1,30}$"),
    doc=f"0 to {MAX_SEED}, exact; as decimal digits where a client's numbers are not.",
)
_OPTIONS: Final = mapping(
    ANYTHING, "Options of the model's family; one that it does not have is refused."
)
_BARE: Final = r"^[^/\\:]*$"
_VOICE: Final = either(
    text(pattern=_BARE),
    thing({"id": maybe(text(pattern=_BARE))}, optional=("id",)),
    doc="The bare name of a voice (200 characters at most), or an object with it as `id`; an empty "
    "one is the model's default.",
)


def _source(doc: str) -> Schema:
    return either(
        text("The absolute path of a file of the server, or a base64 data URI.", filled=True),
        thing({"type": exactly("path"), "path": text(filled=True)}),
        thing({"type": exactly("base64"), "data": text(filled=True)}),
        doc=doc,
    )


_VOICE_REF: Final = _source("A recording of the voice to speak with.")
_HINTS: Final = {
    "temperature": maybe(number(0, MAX_TEMPERATURE, "For families that have such an option.")),
    "instructions": maybe(text("How to speak; for families that have such an option.")),
}
_SPOKEN: Final = {
    "language": maybe(_LANGUAGE),
    "voice": maybe(_VOICE),
    "voice_ref": maybe(_VOICE_REF),
    "reference_text": maybe(text("What is said in the recording of the voice.")),
    "speed": maybe(number(MIN_SPEED, MAX_SPEED, "Rate of speech; 1 is the model's own.")),
    "seed": maybe(_SEED),
    "options": maybe(_OPTIONS),
    **_HINTS,
}
_HEARD: Final = {
    "language": maybe(_LANGUAGE),
    "prompt": maybe(text("A hint for what is said.")),
    "seed": maybe(_SEED),
    "options": maybe(_OPTIONS),
    **_HINTS,
}


def _asked(properties: dict[str, Schema], *required: str, doc: str = "") -> Schema:
    optional = [name for name in properties if name not in required]
    return thing(properties, optional=optional, doc=doc)


def speech(default_format: str) -> Schema:
    """``/v1/audio/speech``."""
    return _asked(
        {
            "model": _MODEL,
            "input": text("The text to speak.", filled=True),
            "response_format": maybe(
                choice(SPEECH_FORMATS, "The format of the sound.", default=default_format)
            ),
            "stream_format": maybe(
                choice(STREAM_FORMATS, "How to stream: events, or the bytes of one sound.")
            ),
            "stream": maybe(flag("The same as `stream_format: sse`.", default=False)),
            "busy_timeout_ms": maybe(_BOUND),
            **_SPOKEN,
        },
        "model",
        "input",
    )


def _granular(listing: Schema) -> dict[str, Schema]:
    return {"timestamp_granularities[]": listing, "timestamp_granularities": listing}


_GRANULARITIES: Final = listed(
    choice(GRANULARITIES), "Which times `verbose_json` gives; all where nothing is said."
)
_TRANSCRIPTION: Final = {
    "response_format": maybe(choice(FORMATS, "The format of the answer.", default="json")),
    "stream": maybe(flag("Whether to send the text as events as it is heard.", default=False)),
}
_SOUNDS: Final = {
    "audio": maybe(_source("The recording, of the server's or in the request.")),
    "audio_base64": maybe(text("The recording as base64 or as a data URI.", filled=True)),
}
_FILE: Final = told(
    {"type": "string", "format": "binary"}, "The recording; what it is, its content says."
)


def recording(
    own: dict[str, Schema], *required: str, only_json: dict[str, Schema] | None = None
) -> dict[str, Schema]:
    """The bodies of a route that takes one recording, by content type.

    Args:
        own: The fields that only this route has.
        required: Those of them that must be there.
        only_json: Fields that JSON writes in another way.
    """
    shared = {"model": _MODEL, "busy_timeout_ms": maybe(_BOUND), **_HEARD, **own}
    as_json = _asked({**shared, **(only_json or {}), **_SOUNDS}, "model", *required)
    # null is none: one of the two has to be something.
    sounds = [{"required": [name], "properties": {name: _some(name)}} for name in _SOUNDS]
    return {
        "multipart/form-data": form({"file": _FILE, **shared}, "file", "model", *required),
        "application/json": {**as_json, "anyOf": sounds},
    }


def _some(name: str) -> Schema:
    kinds = ["string", "object"] if name == "audio" else ["string"]
    return {"type": kinds}


def form(properties: dict[str, Schema], *required: str) -> Schema:
    """The fields of a form: text, so there is no ``null``; options are JSON."""
    plain = {name: _in_form(schema) for name, schema in properties.items()}
    return _asked(plain, *required)


def _in_form(schema: Schema) -> Schema:
    made = dict(schema)
    if isinstance(made.get("type"), list):
        made["type"] = made["type"][0]
    if "enum" in made:
        made["enum"] = [word for word in made["enum"] if word is not None]
    if "anyOf" in made:
        made["anyOf"] = [one for one in made["anyOf"] if one["type"] not in {"null", "object"}]
    return made


def transcription() -> dict[str, Schema]:
    """``/v1/audio/transcriptions`` and ``/v1/audio/translations``."""
    one_or_more = either(choice(GRANULARITIES), _GRANULARITIES)
    as_json = {name: maybe(one_or_more) for name in _granular(_GRANULARITIES)}
    return recording({**_TRANSCRIPTION, **_granular(_GRANULARITIES)}, only_json=as_json)


def translation() -> dict[str, Schema]:
    """``/v1/audio/translations``, which no model serves: only what is looked at."""
    return recording({})


def details() -> dict[str, Schema]:
    """``/v1/audio/transcriptions/details``."""
    return recording({"stream": maybe({**flag("Only `false`."), "enum": [False]})})


def alignment() -> dict[str, Schema]:
    """``/v1/audio/alignments``."""
    return recording({"text": text("The words that the recording says.", filled=True)}, "text")


def transcription_batch() -> dict[str, Schema]:
    """``/v1/batches/transcriptions``."""
    files = listed(_FILE, "The recordings.", least=1, most=MAX_PARTS)
    shared = {"model": _MODEL, "busy_timeout_ms": maybe(_BOUND), **_HEARD}
    return {"multipart/form-data": form({"file": files, **shared}, "file", "model")}


_JOB: Final = {
    "text": maybe(text("What to speak, to align or to work on.")),
    "prompt": maybe(text("A hint for what is said.")),
    "voice_id": maybe(_VOICE),
    **_SPOKEN,
    **_SOUNDS,
}


def task() -> Schema:
    """``/v1/tasks/run`` and ``/v1/tasks/stream``: a job beside its model, or within ``request``."""
    bound = {"busy_timeout_ms": maybe(_BOUND)}
    job = _asked({**_JOB, **bound})
    return either(
        _asked({"model": _MODEL, **bound, "request": job}, "model", "request"),
        _asked({"model": _MODEL, **bound, "request": {"type": "null"}, **_JOB}, "model"),
    )


def task_batch() -> Schema:
    """``/v1/tasks/batch``."""
    jobs = listed(_asked(dict(_JOB)), "The jobs.", least=1, most=MAX_PARTS)
    return _asked(
        {"model": _MODEL, "busy_timeout_ms": maybe(_BOUND), "requests": jobs}, "model", "requests"
    )


_FENCE: Final = maybe(
    flag("Whether later requests to a model wait until it was unloaded.", default=False)
)


def unload_some() -> Schema:
    """``/v1/tasks/unload_models``."""
    ids = listed(text(), "The IDs of models; unknown ones are named in the answer.")
    return thing({"model_ids": ids, "fence": _FENCE}, optional=("fence",), closed=True)


def unload_all() -> Schema:
    """``/v1/tasks/unload_all_models``."""
    return thing({"fence": _FENCE}, optional=("fence",), closed=True)


def unload() -> Schema:
    """``/v1/models/unload``."""
    return thing(
        {"id": text("The ID of a model.", filled=True), "busy_timeout_ms": maybe(_BOUND)},
        optional=("busy_timeout_ms",),
        closed=True,
    )


_NAME: Final = text(most=256)
_PRESET: Final = thing(
    {
        "voice_id": maybe(text("A voice of the family.", filled=True)),
        "voice_ref": maybe(text("The path of a recording.", filled=True)),
        "reference_text": maybe(text("What is said in it.")),
    },
    optional=("voice_id", "voice_ref", "reference_text"),
    doc="Either a voice or a recording.",
    closed=True,
)


def model_object(*, parallel: bool) -> Schema:
    """``/v1/models/load``: a model as the configuration file has it.

    Args:
        parallel: Whether models may have slots here.
    """
    bounds = {
        name: whole(1 if name == "max_chunk_bytes" else 0, doc=field.description or "")
        for name, field in LiveIngest.model_fields.items()
    }
    properties = {
        "id": text(
            "The name that requests use. Alone: a registered model, or one of the store's.",
            filled=True,
            most=256,
        ),
        "family": text("An engine family.", filled=True, most=256),
        "path": text("The model's file or folder, absolute, or `store:NAME`."),
        "task": choice(get_args(Task), "What it does; may be missing where its family does one."),
        "mode": choice(get_args(Mode), "What sessions are built for.", default="offline"),
        "slots": {**whole(1, MAX_SLOTS, "How many sessions."), "default": 1},
        "lazy": flag("Whether the first request loads it.", default=True),
        "busy_timeout_ms": maybe(whole(0, doc="The longest wait for a slot, in milliseconds.")),
        "max_queued_requests": maybe(whole(0, doc="The longest queue.")),
        "load_timeout_ms": maybe(whole(0, doc="The longest load, in milliseconds.")),
        "isolation": maybe(choice(get_args(IsolationName), "Where sessions run.")),
        "live_ingest": thing(bounds, optional=bounds, doc="Bounds of live uploads.", closed=True),
        "config": maybe(text("A file beside the weights.", filled=True)),
        "weight": maybe(text("A weight file in `path`.", filled=True)),
        "load_options": mapping(ANYTHING, "Options of the load."),
        "session_options": mapping(ANYTHING, "Options of each session."),
        "default_request_options": mapping(ANYTHING, "Options of a request, under its own."),
        "voice_presets": {**mapping(_PRESET, "Voices by name."), "propertyNames": _NAME},
        "default_voice_preset": maybe(either(_NAME, _PRESET, doc="The voice without a name.")),
    }
    if not parallel:
        del properties["slots"]
    optional = [name for name in properties if name != "id"]
    needs = {name: [key for key in ("family", "path") if key != name] for name in optional}
    return {**thing(properties, optional=optional, closed=True), "dependentRequired": needs}


def listening() -> dict[str, Schema]:
    """What the query of a live transcription has beside the shape of its sound."""
    return {"model": _MODEL, "busy_timeout_ms": _BOUND, **_HEARD}


def speaking() -> dict[str, Schema]:
    """What the query of live speech has beside the format of its sound."""
    return {"model": _MODEL, "busy_timeout_ms": _BOUND, **_SPOKEN}


def store_name() -> Schema:
    """The routes of the store that name a model."""
    return thing({"id": text("A model of the catalogue.", filled=True)}, closed=True)


def store_root() -> Schema:
    """``/v1/ui/models-root``."""
    return thing({"path": text("The absolute path of a folder.", filled=True)}, closed=True)
