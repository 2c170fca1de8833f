"""What a registered model is: complete, immutable metadata that every room can hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from typing_extensions import TypeAliasType

Json = TypeAliasType("Json", "bool | int | float | str | list[Json] | dict[str, Json] | None")
"""A JSON value."""

Task = Literal["tts", "asr", "vad", "diar", "align", "midi"]
Mode = Literal["offline", "streaming"]
IsolationName = Literal["thread", "process"]

MAX_SLOTS: Final = 16
"""The largest number of slots that a model may be given, whatever its capacity."""


@dataclass(frozen=True, slots=True)
class VoicePreset:
    """A named voice: either a voice of the family or a reference recording.

    Attributes:
        voice_id: A name that the family knows, or None.
        voice_ref: A recording of the voice (a path inside the allowed roots), or None.
        reference_text: What is said in ``voice_ref``, or None.
    """

    voice_id: str | None = None
    voice_ref: str | None = None
    reference_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The complete metadata of a registered model; replaced whole, never changed in part.

    Attributes:
        id: The name that requests use.
        family: The name of the engine family.
        path: The model's file or folder, absolute; families that need none take "".
        task: What the model does.
        mode: Whether sessions are built for whole inputs or for streams.
        slots: Sessions in the pool, 1..16; 1 under the serial policy.
        lazy: Load at the first request rather than at startup.
        busy_timeout_ms: Ceiling of the admission wait; None takes the server's, 0 is no bound.
        max_queued_requests: Bound of the queue; None takes the server's, 0 is no bound.
        load_timeout_ms: How long a load may take; None takes the server's, 0 is no bound.
        isolation: Where sessions run; None takes the server's, or the family's own need.
        live_ingest: The bounds of live uploads that differ from the server's, by name.
        config: A file beside the weights, or None for the family's own rule.
        weight: A weight file inside ``path``, or None.
        load_options: Options of the load, by the family's schema.
        session_options: Options of each session, by the family's schema.
        default_request_options: Options of a request, under the request's own.
        voice_presets: Named voices.
        default_voice_preset: A name in ``voice_presets``, a preset of its own, or None.
    """

    id: str
    family: str
    path: str
    task: Task
    mode: Mode = "offline"
    slots: int = 1
    lazy: bool = True
    busy_timeout_ms: int | None = None
    max_queued_requests: int | None = None
    load_timeout_ms: int | None = None
    isolation: IsolationName | None = None
    live_ingest: Mapping[str, int] = field(default_factory=dict)
    config: str | None = None
    weight: str | None = None
    load_options: Mapping[str, Json] = field(default_factory=dict)
    session_options: Mapping[str, Json] = field(default_factory=dict)
    default_request_options: Mapping[str, Json] = field(default_factory=dict)
    voice_presets: Mapping[str, VoicePreset] = field(default_factory=dict)
    default_voice_preset: str | VoicePreset | None = None

    def same_weights(self, other: "ModelSpec") -> bool:
        """Whether weights loaded for the one serve the other."""
        return _weights(self) == _weights(other)

    def same_sessions(self, other: "ModelSpec") -> bool:
        """Whether nothing that a session is built from differs, so that capacity stays valid."""
        return self.same_weights(other) and (self.task, self.mode, self.session_options) == (
            other.task,
            other.mode,
            other.session_options,
        )


def _weights(spec: ModelSpec) -> tuple[object, ...]:
    """What the weights of a model depend on."""
    return (
        spec.family,
        spec.path,
        spec.config,
        spec.weight,
        spec.isolation,
        spec.load_options,
    )
