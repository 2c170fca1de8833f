"""What a realtime session is asked to do: two spellings in, two spellings out.

``session.update`` nests what concerns the sound under ``audio.input``; the older
``transcription_session.update`` has it flat. Either event takes either spelling. What an update
does not name stays as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paraudio.errors import InvalidRequestError
from paraudio.http._ask import language_field
from paraudio.http._fields import Fields, refusal
from paraudio.http._prepare import check_language
from paraudio.http._realtime_sound import DEFAULT_RATE, MAX_RATE, MIN_RATE, TELEPHONE_RATE, Format
from paraudio.spec import Json, ModelSpec, Task

PARTIALS: Final = "item.input_audio_transcription.partial"
"""What ``include`` names to get what is heard so far, before it is settled."""

MOST_PROMPT: Final = 10_000
"""Characters of a prompt, which is sent back whole whenever the session is shown."""

_FLAT_FORMATS: Final = {
    "pcm16": Format(),
    "g711_ulaw": Format("audio/pcmu", TELEPHONE_RATE),
    "g711_alaw": Format("audio/pcma", TELEPHONE_RATE),
}
_NESTED_FORMATS: Final = ("audio/pcm", "audio/pcmu", "audio/pcma")
_DETECTIONS: Final = ("server_vad", "semantic_vad", "none")
_EAGERNESS_MS: Final = {"low": 2000, "medium": 1000, "high": 500, "auto": 1000}
"""Nothing here judges whether a sentence is complete, so ``semantic_vad`` is only a silence."""


@dataclass(frozen=True, slots=True)
class Detection:
    """How the server finds out who speaks when.

    Attributes:
        model: The model that listens for speech.
        threshold: From which probability on a sound is speech.
        prefix_ms: How much before the speech belongs to it.
        silence_ms: Which silence ends it.
    """

    model: str
    threshold: float = 0.5
    prefix_ms: int = 300
    silence_ms: int = 500


@dataclass(frozen=True, slots=True)
class Hearing:
    """How speech is written down.

    Attributes:
        model: The model that transcribes, or None while none is named.
        language: A tag, or None for automatic.
        prompt: A hint, or None.
    """

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that a client can set.

    Attributes:
        format: What it sends.
        hearing: How speech is written down.
        detection: How the server finds speech; None where the client commits by itself.
        partials: Whether it wants to know what is heard so far.
    """

    format: Format = field(default_factory=Format)
    hearing: Hearing = Hearing()
    detection: Detection | None = None
    partials: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """The models that a configuration may name.

    Attributes:
        find: Gives the metadata of a model by its ID, or raises `ModelNotFoundError`.
        languages: Gives the languages that a model is known to have, by its ID; none where nobody
            knows, as before its files were looked at.
        detector: The model that listens for speech where none is named, or None.
    """

    find: Callable[[str], ModelSpec]
    languages: Callable[[str], Sequence[str]]
    detector: str | None = None

    def checked(self, model: str, task: Task, param: str) -> str:
        """The ID of a model, if it does what it is wanted for.

        Raises:
            ModelNotFoundError: There is no such model.
            InvalidRequestError: It does something else.
        """
        spec = self.find(model)
        if spec.task != task:
            raise InvalidRequestError(
                f"{param} must be a model for {task}; {model!r} is one for {spec.task}", param=param
            )
        return model

    def default_detection(self) -> Detection | None:
        """Speech is found by the server wherever it has a model that can."""
        return None if self.detector is None else Detection(self.detector)


def updated(config: Config, session: Fields, models: Registered) -> Config:
    """The configuration after an update; wrong in one field, it changes nothing.

    Args:
        config: What holds so far.
        session: The ``session`` of the update, in either spelling.
        models: What may be named.

    Raises:
        InvalidRequestError: A field is wrong; ``param`` names it.
        ModelNotFoundError: A model is not registered.
    """
    if session.get("type") not in (None, "transcription"):
        raise refusal(session.param("type"), "transcription", session.get("type"))
    config = _with_flat(config, session, models)
    audio = session.inner("audio")
    sound = None if audio is None else audio.inner("input")
    if sound is not None:
        config = _with_nested(config, sound, models)
    if "include" in session.all():
        wanted = session.get("include")
        if not isinstance(wanted, list | None):
            raise refusal(session.param("include"), "a list", wanted)
        config = replace(config, partials=PARTIALS in (wanted or ()))
    return config


def _with_flat(config: Config, session: Fields, models: Registered) -> Config:
    named = session.text("input_audio_format")
    if named is not None:
        kind = session.choice("input_audio_format", _FLAT_FORMATS, default="")
        config = replace(config, format=_FLAT_FORMATS[kind])
    return _with_models(config, session, "input_audio_transcription", models)


def _with_nested(config: Config, sound: Fields, models: Registered) -> Config:
    form = sound.inner("format")
    if form is not None:
        kind = form.choice("type", _NESTED_FORMATS, default="audio/pcm")
        if kind == "audio/pcm":
            rate = form.whole("rate", minimum=MIN_RATE, maximum=MAX_RATE) or DEFAULT_RATE
        else:
            rate = form.whole("rate", minimum=TELEPHONE_RATE, maximum=TELEPHONE_RATE) or (
                TELEPHONE_RATE
            )
        config = replace(config, format=Format(kind, rate))
    return _with_models(config, sound, "transcription", models)


def _with_models(config: Config, fields: Fields, name: str, models: Registered) -> Config:
    if name in fields.all():
        inner = fields.inner(name)
        hearing = Hearing() if inner is None else _hearing(config.hearing, inner, models)
        config = replace(config, hearing=hearing)
    if "turn_detection" in fields.all():
        inner = fields.inner("turn_detection")
        found = None if inner is None else _detection(config.detection, inner, models)
        config = replace(config, detection=found)
    return config


def _hearing(known: Hearing, fields: Fields, models: Registered) -> Hearing:
    given = fields.all()
    model = fields.text("model")
    if model is not None:
        known = replace(known, model=models.checked(model, "asr", fields.param("model")))
    if "language" in given:
        known = replace(known, language=language_field(fields))
    if model is not None or "language" in given:
        _check_language(known, fields.param("language"), models)
    if "prompt" in given:
        known = replace(known, prompt=_prompt(fields))
    return known


def _check_language(hearing: Hearing, param: str, models: Registered) -> None:
    """Refuse now what the commit would: a model and a language that do not go together."""
    if hearing.model is not None and hearing.language is not None:
        check_language(hearing.language, models.languages(hearing.model), param)


def _prompt(fields: Fields) -> str | None:
    prompt = fields.text("prompt") or None
    if prompt is not None and len(prompt) > MOST_PROMPT:
        raise InvalidRequestError(
            f"{fields.param('prompt')} must be at most {MOST_PROMPT} characters, not {len(prompt)}",
            param=fields.param("prompt"),
        )
    return prompt


def _detection(known: Detection | None, fields: Fields, models: Registered) -> Detection | None:
    kind = fields.choice("type", _DETECTIONS, default="server_vad")
    if kind == "none":
        return None
    model = fields.text("model") or (known.model if known is not None else models.detector)
    if model is None:
        raise InvalidRequestError(
            "turn_detection must be null here: no model that finds speech is registered; "
            "commit by yourself, or register one of family silero_vad",
            param=fields.param("type"),
        )
    base = known or Detection(model)
    threshold = fields.number("threshold", minimum=0, maximum=1)
    prefix = fields.whole("prefix_padding_ms", maximum=10_000)
    silence = fields.whole("silence_duration_ms", maximum=60_000)
    if kind == "semantic_vad" and silence is None:
        silence = _EAGERNESS_MS[fields.choice("eagerness", _EAGERNESS_MS, default="auto")]
    return Detection(
        models.checked(model, "vad", fields.param("model")),
        base.threshold if threshold is None else threshold,
        base.prefix_ms if prefix is None else prefix,
        base.silence_ms if silence is None else silence,
    )


def nested_json(config: Config, session_id: str, expires_at: int = 0) -> dict[str, Json]:
    """The session as ``session.created`` and ``session.updated`` show it."""
    form: dict[str, Json] = {"type": config.format.kind}
    if config.format.kind == "audio/pcm":
        form["rate"] = config.format.rate
    return {
        "id": session_id,
        "object": "realtime.transcription_session",
        "type": "transcription",
        "expires_at": expires_at,
        "audio": {
            "input": {
                "format": form,
                "noise_reduction": None,
                "transcription": _hearing_json(config.hearing),
                "turn_detection": _detection_json(config.detection),
            }
        },
        "include": _include(config),
    }


def flat_json(config: Config, session_id: str, expires_at: int = 0) -> dict[str, Json]:
    """The session as ``transcription_session.created`` and ``….updated`` show it."""
    name = next((n for n, known in _FLAT_FORMATS.items() if known == config.format), "pcm16")
    return {
        "id": session_id,
        "object": "realtime.transcription_session",
        "expires_at": expires_at,
        "modalities": ["text"],
        "client_secret": None,
        "input_audio_format": name,
        "input_audio_noise_reduction": None,
        "input_audio_transcription": _hearing_json(config.hearing),
        "turn_detection": _detection_json(config.detection),
        "include": _include(config),
    }


def _include(config: Config) -> list[Json]:
    return [PARTIALS] if config.partials else []


def _hearing_json(hearing: Hearing) -> Json:
    if hearing == Hearing():
        return None
    shown: Mapping[str, Json] = {
        "model": hearing.model,
        "language": hearing.language,
        "prompt": hearing.prompt,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _detection_json(detection: Detection | None) -> Json:
    if detection is None:
        return None
    return {
        "type": "server_vad",
        "threshold": detection.threshold,
        "prefix_padding_ms": detection.prefix_ms,
        "silence_duration_ms": detection.silence_ms,
        "model": detection.model,
    }
