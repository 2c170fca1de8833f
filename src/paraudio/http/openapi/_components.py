"""The shapes of answers that the document names."""

from collections.abc import Iterator
from typing import Final, get_args

from paraudio.errors import ParaudioError
from paraudio.http.openapi._schema import (
    ANYTHING,
    Schema,
    choice,
    exactly,
    flag,
    listed,
    mapping,
    maybe,
    number,
    ref,
    text,
    thing,
    whole,
)
from paraudio.journal import Kind
from paraudio.lifecycle import Phase, State
from paraudio.spec import Mode, Task


def kinds_of_errors(root: type[ParaudioError] = ParaudioError) -> Iterator[type[ParaudioError]]:
    """Every error that a request can be answered with; other rooms have more, for the program."""
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == ParaudioError.__module__:
            yield from kinds_of_errors(kind)


_SECONDS: Final = number(0, doc="Seconds of the recording.")
_SAMPLE: Final = whole(0, doc="A sample of the recording.")
_SPAN: Final = {
    "start": _SECONDS,
    "end": _SECONDS,
    "start_sample": _SAMPLE,
    "end_sample": _SAMPLE,
}
_CONFIDENCE: Final = maybe(number(doc="0 to 1, where the family knows it."))
_BASE64: Final = text("Base64.")

PHASES_OF_REQUESTS: Final = (
    "reading",
    "preparing",
    "queued",
    "loading",
    "running",
    "streaming",
    "answering",
    "managing",
    "reconfiguring",
    "unloading",
    "cancelling",
)


def _error() -> Schema:
    kinds = list(kinds_of_errors())
    told = thing(
        {
            "message": text("One sentence: what is wrong, and what would do."),
            "type": choice(sorted({kind.type for kind in kinds})),
            "code": choice(sorted({kind.code for kind in kinds})),
            "param": maybe(text("The field that is at fault, as a dotted path.")),
        }
    )
    return thing({"error": told}, doc="What every error looks like.")


def _details() -> dict[str, Schema]:
    return {
        "text": maybe(text()),
        "language": maybe(text()),
        "segments": listed(ref("Segment")),
        "speaker_turns": listed(ref("SpeakerTurn")),
        "words": listed(ref("Word")),
        "sample_rate": whole(0, doc="Samples a second; 0 where there is no place in sound."),
    }


def _result() -> Schema:
    own = {
        "audio": maybe(text("A wav as base64.")),
        "channels": whole(0),
        "named_audio_outputs": mapping(ANYTHING),
        "artifacts": mapping(ANYTHING, "What only this family makes."),
        "timing": ref("Timing"),
    }
    return thing({**_details(), **own})


def _model() -> Schema:
    fields = {
        "id": text(),
        "object": exactly("model"),
        "created": whole(0, doc="Seconds of the Unix epoch."),
        "owned_by": text(),
        "family": text(),
        "path": text(),
        "task": choice(get_args(Task)),
        "mode": choice(get_args(Mode)),
        "state": choice([state.value for state in State]),
        "loaded": flag(),
        "slots": whole(1),
        "active_slots": whole(0),
        "queued_requests": whole(0),
        "queued_managers": whole(0),
        "managed": flag("A manager holds it: it is loaded, unloaded, replaced or probed."),
        "stuck_slots": whole(0),
        "abandoned_calls": whole(0, doc="Calls of former loads and pools that still run."),
        "max_parallel_slots": maybe(whole(1, doc="`null` while it is not loaded.")),
        "generation": whole(0, doc="How many loads were started."),
        "config": whole(1, doc="The number of its configuration."),
        "session_options": mapping(ANYTHING, "With `include_session_options`."),
        "params": thing(
            {"options": listed(ref("Option")), "voice_presets": listed(text())},
            doc="With `include_params`: what a request can set.",
        ),
    }
    extra = ("session_options", "params")
    doc = "A model; beside these fields stands what its family says of it."
    return {**thing(fields, optional=extra, doc=doc), "additionalProperties": True}


def _option() -> Schema:
    return thing(
        {
            "name": text(),
            "type": choice(("bool", "int", "float", "str")),
            "default": ANYTHING,
            "description": text(),
            "minimum": maybe(number()),
            "maximum": maybe(number()),
            "choices": listed(ANYTHING),
        }
    )


def _request() -> Schema:
    place = thing(
        {
            "model": text(),
            "manager": flag("Whether it wants, or has, all slots."),
            "position": maybe(whole(0)),
            "slots": listed(whole(0)),
        }
    )
    return thing(
        {
            "id": text(),
            "route": text(),
            "model": maybe(text()),
            "phase": choice(PHASES_OF_REQUESTS),
            "position": maybe(whole(0, doc="How many stand before it.")),
            "slot": maybe(whole(0)),
            "age_ms": number(0),
            "client": maybe(text()),
            "places": listed(place),
        }
    )


def _change() -> Schema:
    return thing(
        {
            "type": exactly("change"),
            "revision": whole(0),
            "at": number(doc="Seconds of the server's clock."),
            "kind": choice([kind.value for kind in Kind]),
            "model": maybe(text()),
            "facts": mapping(ANYTHING),
        }
    )


def picture(kind: str) -> Schema:
    """An event with everything at one moment."""
    phases = choice([phase.value for phase in Phase])
    models = listed(ref("Model"))
    return thing({"type": exactly(kind), "revision": whole(0), "phase": phases, "models": models})


def _install() -> Schema:
    return thing(
        {
            "id": text(),
            "state": text(),
            "done_bytes": whole(0),
            "total_bytes": maybe(whole(0)),
            "error": maybe(text()),
        }
    )


def _segment_of_openai() -> Schema:
    numbers = ("start", "end", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob")
    return thing(
        {
            "id": whole(0),
            "seek": whole(0),
            "text": text(),
            "tokens": listed(whole(0)),
            **{name: number() for name in numbers},
        }
    )


def schemas() -> dict[str, Schema]:
    """Every named shape."""
    return {
        "Error": _error(),
        "Timing": thing(
            {
                "wall_ms": number(
                    0, doc="What the work took, without a load or the wait for a slot."
                ),
                "audio_duration_ms": number(0),
                "rtf": number(0, doc="Seconds of work for a second of sound."),
                "ttft_ms": number(0, doc="Of a stream: from the request to its first delta."),
            },
            optional=("ttft_ms",),
        ),
        "Word": thing({"word": text(), **_SPAN, "confidence": _CONFIDENCE}),
        "Segment": thing({**_SPAN, "text": text(), "confidence": _CONFIDENCE}),
        "SpeakerTurn": thing({"speaker": text(), **_SPAN, "confidence": _CONFIDENCE}),
        "Details": thing({**_details(), "text": text(), "timing": ref("Timing")}),
        "Result": _result(),
        "Transcript": thing({"text": text(), "timing": ref("Timing")}),
        "VerboseSegment": _segment_of_openai(),
        "VerboseTranscript": thing(
            {
                "task": exactly("transcribe"),
                "language": text(),
                "duration": number(0),
                "text": text(),
                "segments": listed(ref("VerboseSegment")),
                "words": listed(thing({"word": text(), "start": _SECONDS, "end": _SECONDS})),
                "timing": ref("Timing"),
            },
            optional=("segments", "words"),
        ),
        "SpeechInJson": thing(
            {
                "audio": _BASE64,
                "format": exactly("wav"),
                "sample_rate": whole(1),
                "timing": ref("Timing"),
            }
        ),
        "Model": _model(),
        "Option": _option(),
        "Request": _request(),
        "Change": _change(),
        "Install": _install(),
    }
