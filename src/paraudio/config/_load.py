"""File, environment and flags made one checked configuration."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paraudio.config._address import obstacle
from paraudio.config._defaults import DEFAULT_MODELS
from paraudio.config._documents import Document, read_document
from paraudio.config._layers import (
    PATHS,
    Layer,
    absolute,
    environment_layer,
    exists,
    flag_layer,
    is_folder,
    overlay,
)
from paraudio.config._model import STORE_PREFIX, parse_model
from paraudio.config._problems import (
    ModelObjectError,
    Place,
    Problem,
    SettingsError,
    dotted,
    problems_of,
    shown,
)
from paraudio.config._schema import Settings
from paraudio.spec import IsolationName, ModelSpec, Task, VoicePreset


@dataclass(frozen=True, slots=True)
class Origins:
    """Where each setting was said; the later layers win."""

    document: Document | None
    layers: tuple[Layer, ...]

    def of(self, place: Place) -> str:
        """The flag, variable or file (with its line) that said it, or "default"."""
        for layer in reversed(self.layers):
            for end in range(len(place), 0, -1):
                if place[:end] in layer.sources:
                    return layer.sources[place[:end]]
        if self.document is None or not place or place[0] not in self.document.data:
            return "default"
        return self.document.source(place)

    def of_value(self, place: Place) -> str:
        """The same for what holds: "default" also where only other keys of its object were said."""
        found = self.of(place)
        if self.document is None or found != self.document.source(place):
            return found
        return found if self.document.has(place) else "default"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A complete configuration.

    Attributes:
        settings: What holds.
        origins: Where it was said.
        warnings: What is not wrong but worth a line, such as a variable that nothing reads.
    """

    settings: Settings
    origins: Origins
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What could be understood of a configuration, and all that is wrong with it.

    Attributes:
        settings: What holds, or None where a setting is wrong.
        specs: The models by their places in the list. Of an object that is wrong, what is left
            without its wrong keys, if that is a model.
        parallel_jobs: The policy, as far as it is said.
        isolation: Where sessions run, as far as that is said.
        origins: Where each setting was said.
        warnings: What is not wrong but worth a line.
        problems: What is wrong, each with its source.
    """

    settings: Settings | None
    specs: Mapping[int, ModelSpec]
    parallel_jobs: bool
    isolation: IsolationName
    origins: Origins
    warnings: tuple[str, ...]
    problems: tuple[Problem, ...]

    def loaded(self) -> Loaded:
        """The complete configuration.

        Raises:
            SettingsError: Something is wrong.
        """
        if self.problems or self.settings is None:
            raise SettingsError(self.problems)
        return Loaded(self.settings, self.origins, self.warnings)


def load_settings(
    *, config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Merge and check the configuration; see `load`."""
    return load(config=config, environ=environ, flags=flags).settings


def load(
    *,
    config: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    tasks: Mapping[str, Task] | None = None,
) -> Loaded:
    """Merge and check the configuration, and keep where each setting was said.

    Args:
        config: A JSON or TOML file; None takes the embedded default models.
        environ: The environment, of which the ``PARAUDIO_*`` variables are read.
        flags: Dotted setting names (``port``, ``live_ingest.max_chunk_bytes``) to their values,
            which win over all else; None and an empty tuple are not given.
        tasks: The task of each family that has only one, for models that name none.

    Raises:
        SettingsError: A `ConfigError` that says everything that is wrong, each with its source.
    """
    return draft(config=config, environ=environ, flags=flags, tasks=tasks).loaded()


def draft(
    *,
    config: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    tasks: Mapping[str, Task] | None = None,
) -> Draft:
    """Merge and check the configuration, and keep also what is right of one that is wrong.

    Takes what `load` takes.

    Raises:
        SettingsError: The file cannot be read.
    """
    document = None if config is None else read_document(config)
    layers = (environment_layer(environ), flag_layer(flags))
    origins = Origins(document, layers)
    tree = _absolute_paths(document)
    for layer in layers:
        tree = overlay(tree, layer)
    objects = tree.pop("models", None)
    specs, whole, problems = _models(objects, tree, document, tasks)
    settings, more = _settings(tree, tuple(specs[index] for index in whole))
    problems = [*more, *problems]
    warnings = [warning for layer in layers for warning in layer.warnings]
    if settings is not None:
        problems += _unusable_paths(settings)
        warnings += _warnings(settings, document)
    isolation = tree.get("isolation")
    return Draft(
        settings,
        specs,
        parallel_jobs=tree.get("parallel_jobs") is True,
        isolation="process" if isolation == "process" else "thread",
        origins=origins,
        warnings=tuple(warnings),
        problems=tuple(_with_source(problem, origins) for problem in problems),
    )


def _absolute_paths(document: Document | None) -> dict[str, Any]:
    if document is None:
        return {}
    tree = dict(document.data)
    for name, *below in PATHS:
        if not below and name in tree:
            tree[name] = absolute(tree[name], document.path.parent)
        elif below and isinstance(tree.get(name), dict) and below[0] in tree[name]:
            path = absolute(tree[name][below[0]], document.path.parent)
            tree[name] = {**tree[name], below[0]: path}
    return tree


def _settings(
    tree: Mapping[str, Any], specs: tuple[ModelSpec, ...]
) -> tuple[Settings | None, list[Problem]]:
    try:
        return Settings.model_validate({**tree, "models": specs}), []
    except ValidationError as error:
        return None, problems_of(error, Settings)


def _models(
    objects: object,
    tree: Mapping[str, Any],
    document: Document | None,
    tasks: Mapping[str, Task] | None,
) -> tuple[dict[int, ModelSpec], list[int], list[Problem]]:
    """The specs of ``models``, which of them are whole, and what is wrong with the others."""
    if document is None:
        specs = dict(enumerate(_eager(DEFAULT_MODELS, tree)))
        return specs, list(specs), []
    if objects is None and "models" not in document.data:
        return {}, [], []
    if not isinstance(objects, list):
        message = f"models must be a list of model objects, not {shown(objects)}"
        return {}, [], [Problem("models", message, place=("models",))]
    specs, whole, problems = {}, [], []
    for index, item in enumerate(objects):
        parse = partial(_model, index=index, tree=tree, base=document.path.parent, tasks=tasks)
        try:
            specs[index] = parse(item)
            whole.append(index)
        except ModelObjectError as error:
            problems += [
                replace(problem, place=("models", index, *problem.place))
                for problem in error.problems
            ]
            if (rest := _rest(item, error.problems)) is not None:
                with suppress(ModelObjectError):
                    specs[index] = parse(rest)
    return specs, whole, [*problems, *_same_ids(objects)]


def _rest(item: object, problems: Sequence[Problem]) -> dict[str, Any] | None:
    """What a model object has besides its wrong keys."""
    if not isinstance(item, dict):
        return None
    wrong = {problem.place[0] for problem in problems if problem.place}
    return {key: value for key, value in item.items() if key not in wrong}


def _model(
    item: object,
    index: int,
    tree: Mapping[str, Any],
    base: Path,
    tasks: Mapping[str, Task] | None,
) -> ModelSpec:
    key = f"models[{index}]"
    if not isinstance(item, dict):
        raise ModelObjectError([Problem(key, f"{key} must be an object, not {shown(item)}")])
    return parse_model(
        {"lazy": tree.get("lazy_load") is not False, **item},
        parallel=tree.get("parallel_jobs") is True,
        base=base,
        param=key,
        tasks=tasks,
    )


def _eager(specs: Sequence[ModelSpec], tree: Mapping[str, Any]) -> tuple[ModelSpec, ...]:
    lazy = tree.get("lazy_load") is not False
    return tuple(replace(spec, lazy=lazy) for spec in specs)


def _same_ids(objects: Sequence[object]) -> list[Problem]:
    first: dict[str, int] = {}
    problems = []
    for index, item in enumerate(objects):
        name = item.get("id") if isinstance(item, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            place: Place = ("models", index, "id")
            key = dotted(place)
            message = (
                f"{key} must not be {shown(name)}, which models[{first[name]}] has already; "
                "each model needs a name of its own"
            )
            problems.append(Problem(key, message, place=place))
        first.setdefault(name, index)
    return problems


def _unusable_paths(settings: Settings) -> list[Problem]:
    """Paths without which the server could not even start."""
    problems = []
    if settings.tls is not None:
        for name, path in (("cert", settings.tls.cert), ("key", settings.tls.key)):
            if not exists(path):
                key = f"tls.{name}"
                message = f"{key} must be a file that can be read, not {shown(path)}"
                problems.append(Problem(key, message, place=("tls", name)))
    journal = settings.journal
    if journal is not None and (is_folder(journal) or not is_folder(str(Path(journal).parent))):
        message = f"journal must be a file in a folder that exists, not {shown(journal)}"
        problems.append(Problem("journal", message, place=("journal",)))
    for index, bound in enumerate(settings.bind):
        if (what := obstacle(bound)) is not None:
            key = f"bind[{index}]"
            message = (
                f"{key} must be a Unix socket or a path that is free, not {shown(bound)}, which is "
                f"{what}; take another path, or move that away"
            )
            problems.append(Problem(key, message, place=("bind", index)))
    return problems


def _with_source(problem: Problem, origins: Origins) -> Problem:
    source = origins.of(problem.place)
    hint = ""
    if source.startswith("PARAUDIO_") and "tcp://" in problem.message:
        hint = (
            " (Kubernetes sets such a variable for a service named paraudio: "
            "set enableServiceLinks: false, or rename the service)"
        )
    return replace(
        problem,
        source="" if source == "default" else source,
        message=problem.message + hint,
    )


def _warnings(settings: Settings, document: Document | None) -> list[str]:
    lines = []
    if document is not None and "models" not in document.data:
        lines.append(
            f"{document.shown} has no models, so the server starts with none; without a "
            "configuration file it would offer " + ", ".join(spec.id for spec in DEFAULT_MODELS)
        )
    for index, spec in enumerate(settings.models):
        if spec.path and not spec.path.startswith(STORE_PREFIX) and not exists(spec.path):
            lines.append(f"models[{index}].path: {shown(spec.path)} of {spec.id} cannot be read")
        lines += _missing_recordings(f"models[{index}]", spec)
    if settings.voice_dir is not None and not is_folder(settings.voice_dir):
        lines.append(f"voice_dir: there is no folder {shown(settings.voice_dir)}")
    lines += [
        f"allowed_paths[{index}]: there is no folder {shown(path)}; paths into it are refused"
        for index, path in enumerate(settings.allowed_paths)
        if not os.access(path, os.F_OK)  # a file may stand there too: it allows itself
    ]
    return lines


def _missing_recordings(key: str, spec: ModelSpec) -> list[str]:
    """The recordings of a model's presets that are not there."""
    presets = {
        dotted(("voice_presets", name), key): one for name, one in spec.voice_presets.items()
    }
    if isinstance(spec.default_voice_preset, VoicePreset):
        presets[f"{key}.default_voice_preset"] = spec.default_voice_preset
    return [
        f"{where}.voice_ref: {shown(preset.voice_ref)} of {spec.id} cannot be read"
        for where, preset in presets.items()
        if preset.voice_ref is not None and not exists(preset.voice_ref)
    ]
