"""The routes that speak and that listen."""

from collections.abc import Mapping
from typing import Final

from paraudio.audio import FORMATS, content_type
from paraudio.config import Settings
from paraudio.http._transcripts import CONTENT_TYPES
from paraudio.http.openapi import _asks as asks
from paraudio.http.openapi._operation import (
    BODY_ERRORS,
    EVENTS,
    JSON,
    UPLOAD_ERRORS,
    WORK_ERRORS,
    Answer,
    Media,
    Operation,
    events,
    json,
    query,
)
from paraudio.http.openapi._schema import (
    Schema,
    either,
    exactly,
    listed,
    number,
    ref,
    switch,
    text,
    thing,
    whole,
)

TIMED: Final = ("X-Paraudio-Wall-Ms", "X-Paraudio-Audio-Duration-Ms", "X-Paraudio-RTF")
_BYTES: Final = {"type": "string", "format": "binary"}
_NAMED: Final = thing({"id": text(), "name": text()})


def kind(name: str, /, **fields: Schema) -> Schema:
    """An event of a type."""
    return thing({"type": exactly(name), **fields})


def last_kind(name: str, /, **fields: Schema) -> Schema:
    """An event with a whole result, such as ends a stream, with what there is to warn of."""
    told = listed(text(), "Sentences of the model on what it did in another way than asked for.")
    return thing({"type": exactly(name), **fields, "warnings": told}, optional=("warnings",))


def error_event() -> Schema:
    """The last event of a stream that failed."""
    return {
        "allOf": [ref("Error"), {"type": "object", "properties": {"type": exactly("error")}}],
        "required": ["type"],
    }


def spoken_events() -> Media:
    """The events of streamed speech."""
    return events(
        {
            "speech.audio.delta": kind(
                "speech.audio.delta", audio=text("pcm as base64."), sample_rate=whole(1)
            ),
            "speech.audio.done": last_kind("speech.audio.done", timing=ref("Timing")),
            "error": error_event(),
        }
    )


def heard_events() -> Media:
    """The events of what is heard, whatever the model listens for."""
    place = {"at": number(0, doc="Seconds."), "at_sample": whole(0)}
    turns = {"speaker_turns": listed(ref("SpeakerTurn")), "sample_rate": whole(0)}
    rate, timing = whole(0), ref("Timing")
    found = {
        "transcript.text.delta": {"delta": text("Text that stays.")},
        "transcript.text.partial": {
            "text": text("What is heard so far; the next one replaces it.")
        },
        "transcript.text.done": {"text": text(), "timing": timing},
        "speech.started": place,
        "speech.stopped": place,
        "speech.done": {"segments": listed(ref("Segment")), "sample_rate": rate, "timing": timing},
        "diarization.delta": turns,
        "diarization.done": {**turns, "timing": timing},
    }
    told = {
        name: (last_kind if name.endswith(".done") else kind)(name, **fields)
        for name, fields in found.items()
    }
    return events({**told, "error": error_event()})


def bare(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0]


SOUNDS: Final = tuple(dict.fromkeys(bare(content_type(name)) for name in FORMATS))
"""The content types of sound."""


def _spoken() -> Mapping[int, Answer]:
    content = {
        **{name: Media(schema=_BYTES) for name in SOUNDS},
        JSON: Media(schema=ref("SpeechInJson")),
        EVENTS: spoken_events(),
    }
    doc = "The sound, in the format that was asked for."
    return {200: Answer(doc=doc, content=content, headers=(*TIMED, "X-Paraudio-Sample-Rate"))}


def _heard() -> Mapping[int, Answer]:
    content = {
        JSON: Media(schema=either(ref("Transcript"), ref("VerboseTranscript"))),
        **{bare(name): Media(schema={"type": "string"}) for name in CONTENT_TYPES.values()},
        EVENTS: heard_events(),
    }
    doc = "The transcript, in the format that was asked for."
    return {200: Answer(doc=doc, content=content, headers=TIMED)}


def _batch() -> Mapping[int, Answer]:
    results = {
        "batch.transcription.result": last_kind(
            "batch.transcription.result",
            index=whole(0),
            filename=text(),
            text=text(),
            timing=ref("Timing"),
        ),
        "batch.transcription.done": kind(
            "batch.transcription.done", result_count=whole(0), timing=ref("Timing")
        ),
        "error": error_event(),
    }
    return {200: Answer(doc="Each result as it comes.", content={EVENTS: events(results)})}


def operations(settings: Settings) -> dict[str, Operation]:
    """By method and path."""
    aligned = thing(
        {
            "text": {"type": ["string", "null"]},
            "words": listed(ref("Word")),
            "timing": ref("Timing"),
        }
    )
    return {
        "POST /v1/audio/speech": Operation(
            notes="Sound in one of several formats, whole or streamed. A voice is looked for among "
            "the model's presets, the recordings in `voice_dir` and the voices of the family. "
            "A model of `piper_tts` takes texts of up to 50,000 characters, unless its "
            "`max_characters` says otherwise. Fields that it does not know are ignored. What was "
            "not done quite as asked for stands in `X-Paraudio-Warning`, or in `done`.",
            body={JSON: asks.speech(settings.default_response_format)},
            answers=_spoken(),
            errors=WORK_ERRORS,
        ),
        "POST /v1/audio/transcriptions": Operation(
            notes="A recording of any format that the server decodes, as a form or, within "
            "`allowed_paths`, by its path. Fields that it does not know are ignored.",
            body=asks.transcription(),
            answers=_heard(),
            errors=UPLOAD_ERRORS,
        ),
        "POST /v1/audio/transcriptions/details": Operation(
            notes="With segments, words and speakers.",
            body=asks.details(),
            answers=json(ref("Details"), "What was heard.", headers=TIMED),
            errors=UPLOAD_ERRORS,
        ),
        "POST /v1/audio/translations": Operation(
            body=asks.translation(), answers={}, errors=(*BODY_ERRORS, 404, 500, 507)
        ),
        "POST /v1/audio/alignments": Operation(
            body=asks.alignment(),
            answers=json(aligned, "The words with their places.", headers=TIMED),
            errors=UPLOAD_ERRORS,
        ),
        "POST /v1/batches/transcriptions": Operation(
            notes="400 where the model has no batches of its own.",
            body=asks.transcription_batch(),
            answers=_batch(),
            errors=UPLOAD_ERRORS,
        ),
        "GET /v1/audio/voices": Operation(
            notes="For Open WebUI, which is known by its `User-Agent`, the voices are objects.",
            parameters=(
                query("model", text("The ID of a model; of all, where it is missing.")),
                query("objects", switch("Whether to give objects in the place of names.")),
            ),
            answers=json(thing({"voices": listed(either(text(), _NAMED))}), "Sorted by name."),
            errors=(404,),
        ),
        "GET /v1/audio/models": Operation(
            answers=json(thing({"models": listed(_NAMED)}), "The models whose task is `tts`."),
        ),
    }
