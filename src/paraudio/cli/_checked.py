"""The whole check of a configuration: what its schema says, then what the families say."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import trio

from paraudio.cli._families import OnlyTasks
from paraudio.cli._output import meant
from paraudio.config import STORE_PREFIX, Draft, Loaded, Problem, SettingsError, draft
from paraudio.engines import Family
from paraudio.engines.catalog import families
from paraudio.engines.isolation import Isolation, open_process_isolation, open_thread_isolation
from paraudio.errors import ConfigError, ModelNotFoundError, ParaudioError
from paraudio.lifecycle import Runtime, RuntimeSettings
from paraudio.spec import IsolationName, ModelSpec
from paraudio.store import CATALOGUE

_REHEARSAL: Final = "simulated"
"""The family that stands in for any other, and loads no file."""


def load_checked(
    *, config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> Loaded:
    """Load a configuration as `paraudio.config.load` does, and let the families look at it too.

    Nothing is fetched or loaded, and no file of a model is read.

    Raises:
        SettingsError: Something is wrong; everything that is, with its source.
    """
    found = draft(config=config, environ=environ, flags=flags, tasks=OnlyTasks())
    told = {problem.key for problem in found.problems}
    more = [problem for problem in trio.run(_model_problems, found) if problem.key not in told]
    if found.problems or more:
        raise SettingsError([*found.problems, *more])
    return found.loaded()


async def _model_problems(found: Draft) -> list[Problem]:
    """What a runtime would refuse: an unknown family, task or option of a configured model."""
    problems = []
    known = families()
    policy = RuntimeSettings(parallel_jobs=found.parallel_jobs, isolation=found.isolation)
    async with open_thread_isolation() as thread, open_process_isolation() as process:
        isolations: dict[IsolationName, Isolation] = {"thread": thread, "process": process}
        runtime = Runtime(policy, families=known, isolations=isolations)
        for index, spec in found.specs.items():
            first: dict[str | None, ParaudioError] = {}
            for error in (*_refusals(spec, runtime, known), *_store_refusals(spec)):
                first.setdefault(error.param, error)
            problems += [_problem(error, index, found) for error in first.values()]
    return problems


def _refusals(
    spec: ModelSpec, runtime: Runtime, known: Mapping[str, Family]
) -> Iterator[ParaudioError]:
    """Everything that a runtime would refuse of a model, one thing after the other."""
    rest: ModelSpec | None = spec
    while rest is not None:
        try:
            runtime.add(rest)
        except ParaudioError as error:
            yield error
            rest = _without(rest, error.param or "", known)
        else:
            return


def _without(spec: ModelSpec, param: str, known: Mapping[str, Family]) -> ModelSpec | None:
    """The spec without what is wrong at ``param``, or None where nothing can stand for it."""
    field, _, name = param.partition(".")
    if field == "voice_presets":
        name = name.rpartition(".")[0]  # what is wrong is a key of the preset of that name
    given = getattr(spec, field, None)
    changed: dict[str, Any] = {}
    if isinstance(given, Mapping) and name in given:
        changed[field] = {key: value for key, value in given.items() if key != name}
    elif field == "id":
        changed[field] = f"{given} again"  # that it is taken was told already
    elif field in {"isolation", "default_voice_preset"} and given is not None:
        changed[field] = None
    elif field == "task" and spec.family in known and given not in known[spec.family].tasks:
        changed[field] = next(iter(known[spec.family].tasks))
    return dataclasses.replace(spec, **changed) if changed else None


def _store_refusals(spec: ModelSpec) -> Iterator[ParaudioError]:
    """Refuse a model of the store that no fetch would bring, or that is another kind of model."""
    name = spec.path.removeprefix(STORE_PREFIX)
    if name == spec.path:
        return
    if name not in CATALOGUE:
        yield ModelNotFoundError(
            f"there is no model {name!r} in the catalogue; {meant(name, CATALOGUE)}", param="path"
        )
    elif spec.family != _REHEARSAL:
        entry = CATALOGUE[name]
        if spec.family != entry.family:
            yield ConfigError(
                f"{spec.path} is a model of family {entry.family!r}, not {spec.family!r}",
                param="family",
            )
        if spec.task != entry.task:
            yield ConfigError(f"{spec.path} does {entry.task}, not {spec.task}", param="task")


def _problem(error: ParaudioError, index: int, found: Draft) -> Problem:
    steps = error.param.split(".") if error.param else []
    key = ".".join([f"models[{index}]", *steps])
    source = found.origins.of(("models", index, *steps))
    return Problem(key, f"{key}: {error.message}", "" if source == "default" else source)
