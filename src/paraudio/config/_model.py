"""A model object, as the configuration file and the registration route give it, made a spec."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, ValidationError

from paraudio.config._expanded import expanded
from paraudio.config._kinds import (
    Count,
    FilledText,
    Flag,
    JsonObject,
    Milliseconds,
    Name,
    Strict,
    Text,
    whole,
)
from paraudio.config._problems import (
    ModelObjectError,
    Problem,
    dotted,
    nearest,
    problems_of,
    refuse,
    shown,
)
from paraudio.config._schema import LiveIngest
from paraudio.spec import MAX_SLOTS, IsolationName, Mode, ModelSpec, Task, VoicePreset

STORE_PREFIX: Final = "store:"
"""What the path of a model from the model store begins with: ``store:piper-joe``."""


class Preset(Strict):
    """A voice preset as it is written."""

    voice_id: FilledText | None = None
    voice_ref: FilledText | None = None
    reference_text: Text | None = None


def _preset(value: object) -> object:
    """Check what no single field of a preset can say: exactly one voice is named."""
    if isinstance(value, Mapping):
        named = [key for key in ("voice_id", "voice_ref") if value.get(key) is not None]
        if len(named) != 1:
            given = "not both" if named else "and has neither"
            raise refuse(f"must have either voice_id or voice_ref, {given}")
    elif not isinstance(value, Preset):
        raise refuse(f"must be an object with voice_id or voice_ref, not {shown(value)}")
    return value


def _name_or_preset(value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise refuse(f"must be the name of a preset or a preset itself, not {shown(value)}")
    try:
        return Preset.model_validate(_preset(value))
    except ValidationError as error:
        first = problems_of(error, Preset)[0]
        raise refuse(first.message.removeprefix(first.key).lstrip(), *first.place) from None


class ModelObject(Strict):
    """A model as it is written; the keys of ``models[…]`` and of a registration."""

    id: Name = Field(description="the name that requests use")
    family: Name = Field(description="the name of an engine family, such as piper_tts")
    path: Text = Field(description="the model's file or folder (empty where a family needs none)")
    task: Task = Field(description="one of tts, asr, vad, diar, align, midi")
    mode: Mode = "offline"
    slots: Annotated[int, whole(1, MAX_SLOTS)] = 1
    lazy: Flag = True
    busy_timeout_ms: Milliseconds | None = None
    max_queued_requests: Count | None = None
    load_timeout_ms: Milliseconds | None = None
    isolation: IsolationName | None = None
    live_ingest: LiveIngest = LiveIngest()
    config: FilledText | None = None
    weight: FilledText | None = None
    load_options: JsonObject = Field(default_factory=dict)
    session_options: JsonObject = Field(default_factory=dict)
    default_request_options: JsonObject = Field(default_factory=dict)
    voice_presets: dict[Name, Annotated[Preset, BeforeValidator(_preset)]] = Field(
        default_factory=dict
    )
    default_voice_preset: Annotated[Any, BeforeValidator(_name_or_preset)] = None


def parse_model(
    data: Mapping[str, object],
    *,
    parallel: bool,
    base: Path | None,
    param: str = "",
    tasks: Mapping[str, Task] | None = None,
) -> ModelSpec:
    """Make a spec of a model object, or say everything that is wrong with it.

    Args:
        data: The object, as JSON or TOML gave it.
        parallel: Whether the server runs the parallel policy; without it ``slots`` is refused.
        base: The folder that relative paths start from, absolute; None refuses relative paths.
        param: The path of the object inside its document (``models[2]``), "" for the document.
        tasks: The task of each family that has only one, for objects that name none.

    Raises:
        InvalidRequestError: The object is wrong; ``param`` is the path of the first wrong key.
    """
    problems = [] if parallel else _serial_problems(data, param)
    kept = {key: data[key] for key in data if parallel or key != "slots"}
    family = data.get("family")
    if "task" not in data and tasks is not None and isinstance(family, str) and family in tasks:
        kept["task"] = tasks[family]
    try:
        model = ModelObject.model_validate(kept)
    except ValidationError as error:
        raise ModelObjectError([*problems, *problems_of(error, ModelObject, param)]) from None
    paths = _Paths(base, param)
    spec = _spec(model, paths)
    problems += [*_default_preset_problems(model, param), *paths.problems]
    if problems:
        raise ModelObjectError(problems)
    return spec


def _serial_problems(data: Mapping[str, object], param: str) -> list[Problem]:
    if "slots" not in data:
        return []
    key = dotted(("slots",), param)
    return [
        Problem(
            key,
            f"{key} of model {shown(data.get('id'))} needs --parallel-jobs; leave the key "
            "out (every model has one slot) or start the server with that flag",
            place=("slots",),
        )
    ]


def _default_preset_problems(model: ModelObject, param: str) -> list[Problem]:
    name = model.default_voice_preset
    if not isinstance(name, str) or name in model.voice_presets:
        return []
    key = dotted(("default_voice_preset",), param)
    hint = nearest(name, model.voice_presets)
    message = f"{key} must name one of voice_presets, not {shown(name)}; {hint}"
    return [Problem(key, message, place=("default_voice_preset",))]


class _Paths:
    """Makes paths absolute, and keeps what is wrong with those that it cannot."""

    def __init__(self, base: Path | None, param: str) -> None:
        self.base = base
        self.param = param
        self.problems: list[Problem] = []

    def absolute(self, text: str, *place: str) -> str:
        if text == "" or text.startswith(STORE_PREFIX):
            return text
        if self.base is not None:
            return str(self.base / expanded(text))
        if not os.path.isabs(text):  # noqa: PTH117 - Path would fold the text that is shown
            key = dotted(place, self.param)
            message = f"{key} must be an absolute path here, not {shown(text)}"
            self.problems.append(Problem(key, message, place=place))
        return text


def _spec(model: ModelObject, paths: _Paths) -> ModelSpec:
    default = model.default_voice_preset
    if isinstance(default, Preset):
        default = _voice(default, paths, "default_voice_preset")
    return ModelSpec(
        id=model.id,
        family=model.family,
        path=paths.absolute(model.path, "path"),
        task=model.task,
        mode=model.mode,
        slots=model.slots,
        lazy=model.lazy,
        busy_timeout_ms=model.busy_timeout_ms,
        max_queued_requests=model.max_queued_requests,
        load_timeout_ms=model.load_timeout_ms,
        isolation=model.isolation,
        live_ingest=model.live_ingest.model_dump(include=model.live_ingest.model_fields_set),
        config=model.config,
        weight=model.weight,
        load_options=model.load_options,
        session_options=model.session_options,
        default_request_options=model.default_request_options,
        voice_presets={
            name: _voice(preset, paths, "voice_presets", name)
            for name, preset in model.voice_presets.items()
        },
        default_voice_preset=default,
    )


def _voice(preset: Preset, paths: _Paths, *place: str) -> VoicePreset:
    reference = preset.voice_ref
    return VoicePreset(
        voice_id=preset.voice_id,
        voice_ref=None if reference is None else paths.absolute(reference, *place, "voice_ref"),
        reference_text=preset.reference_text,
    )
