"""What a request asks for, read from its body before any model is looked at."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paraudio.errors import InvalidRequestError
from paraudio.http._fields import Fields, refusal
from paraudio.http._sources import Source, base64_field, source_field
from paraudio.http._voices import VoiceAsk, voice_fields
from paraudio.spec import Json, Task

MIN_SPEED: Final = 0.25
MAX_SPEED: Final = 4.0
MAX_TEMPERATURE: Final = 2.0

LANGUAGE_TAG: Final = "[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*"
AUTOMATIC: Final = "auto"

_JOB: Final = (
    *("text", "language", "voice_ref", "speed", "prompt", "seed", "options"),
    *("temperature", "instructions"),
)
"""Fields that a job of the task routes has under the very name that the engines have for them."""

_TAG: Final = re.compile(LANGUAGE_TAG + r"\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One piece of work, as the client put it.

    Attributes:
        model: The ID of the model.
        tasks: The tasks that the route is for; empty for any.
        bound_ms: The client's own bound of its wait, or None.
        text: Text to speak, to align or to work on, or None.
        sound: Sound to work on, or None.
        language: A tag, or None for automatic.
        voice: The voice to speak with.
        speed: Rate of speech, or None.
        prompt: A hint for transcription, or None.
        seed: 0..2^64-1, or None.
        options: Options of the family; a name that it does not have is refused.
        hints: Further fields of OpenAI clients, used where the family has an option of that name.
        names: What this route calls the fields of a job, where it has its own word, or where they
            lie deeper in the request.
    """

    model: str
    tasks: tuple[Task, ...] = ()
    bound_ms: int | None = None
    text: str | None = None
    sound: Source | None = None
    language: str | None = None
    voice: VoiceAsk = field(default_factory=VoiceAsk)
    speed: float | None = None
    prompt: str | None = None
    seed: int | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    hints: Mapping[str, Json] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def called(self, param: str) -> str:
        """The request's own word for a field of a job, or for one within it (``options.seed``)."""
        name, dot, rest = param.partition(".")
        return self.names.get(name, name) + dot + rest


def model_field(fields: Fields) -> str:
    """The ID of the model that a request names."""
    return fields.filled("model", "the ID of a model")


def bound_field(fields: Fields) -> int | None:
    """The client's own bound of its wait in milliseconds; 0 is no bound."""
    return fields.whole("busy_timeout_ms")


def language_field(fields: Fields) -> str | None:
    """A language tag; empty and ``auto`` are none.

    Raises:
        InvalidRequestError: It has not the form of a tag.
    """
    value = fields.text("language")
    given = "" if value is None else value.strip()
    if not given or given.lower() == AUTOMATIC:
        return None
    if not _TAG.match(given):
        raise refusal(fields.param("language"), "a language tag such as en or en-US", value)
    return given.replace("_", "-")


def hint_fields(fields: Fields) -> dict[str, Json]:
    """The fields of OpenAI clients that only some families have a use for."""
    hints: dict[str, Json] = {
        "temperature": fields.number("temperature", minimum=0, maximum=MAX_TEMPERATURE),
        "instructions": fields.text("instructions"),
    }
    return {name: value for name, value in hints.items() if value not in (None, "")}


def speech_ask(fields: Fields) -> Ask:
    """Read what ``/v1/audio/speech`` takes, apart from its formats."""
    text = fields.filled("input", "a text with something to speak")
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise InvalidRequestError(
            "input must be a text with something to speak, not only control characters",
            param=fields.param("input"),
        )
    return spoken_ask(fields, text)


def spoken_ask(fields: Fields, text: str | None) -> Ask:
    """Read how a text is to be spoken; None for one that is still being written."""
    return Ask(
        model=model_field(fields),
        tasks=("tts",),
        bound_ms=bound_field(fields),
        text=text,
        language=language_field(fields),
        voice=voice_fields(fields),
        speed=fields.number("speed", minimum=MIN_SPEED, maximum=MAX_SPEED),
        seed=fields.seed(),
        options=fields.options("options"),
        hints=hint_fields(fields),
        names={"text": "input", "name": "voice"},
    )


def transcription_ask(fields: Fields, sound: Source, *tasks: Task) -> Ask:
    """Read what the routes that take a recording have in common.

    Args:
        fields: The request.
        sound: The recording.
        tasks: The tasks that the route is for.
    """
    return Ask(
        model=model_field(fields),
        tasks=tasks,
        bound_ms=bound_field(fields),
        sound=sound,
        language=language_field(fields),
        prompt=fields.text("prompt") or None,
        seed=fields.seed(),
        options=fields.options("options"),
        hints=hint_fields(fields),
        names={"audio": sound.param},
    )


def task_ask(fields: Fields, *, model: str, bound_ms: int | None) -> Ask:
    """Read one job of the task routes, whatever its task.

    Args:
        fields: The job's fields.
        model: The ID of the model, which stands beside them.
        bound_ms: The client's own bound of its wait, or None.
    """
    voice = voice_fields(fields, "voice" if fields.get("voice_id") is None else "voice_id")
    sound = source_field(fields, "audio") or base64_field(fields, "audio_base64")
    return Ask(
        model=model,
        bound_ms=bound_ms,
        text=fields.text("text"),
        sound=sound,
        language=language_field(fields),
        voice=voice,
        speed=fields.number("speed", minimum=MIN_SPEED, maximum=MAX_SPEED),
        prompt=fields.text("prompt") or None,
        seed=fields.seed(),
        options=fields.options("options"),
        hints=hint_fields(fields),
        names={
            **{name: fields.param(name) for name in _JOB},
            "audio": fields.param("audio") if sound is None else sound.param,
            "input": fields.param("text"),  # families that speak say it in OpenAI's word
            "voice": voice.param,
        },
    )
