"""The whole check of a configuration: what its schema says, then what the families say."""

from collections.abc import Mapping
from pathlib import Path

import trio

from paraudio.cli._families import OnlyTasks
from paraudio.cli._output import meant
from paraudio.config import STORE_PREFIX, Loaded, Problem, SettingsError, load
from paraudio.engines.catalog import families
from paraudio.engines.isolation import Isolation, open_process_isolation, open_thread_isolation
from paraudio.errors import ModelNotFoundError, ParaudioError
from paraudio.lifecycle import Runtime, RuntimeSettings
from paraudio.spec import IsolationName, ModelSpec
from paraudio.store import CATALOGUE


def load_checked(
    *, config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> Loaded:
    """Load a configuration as `paraudio.config.load` does, and let the families look at it too.

    Nothing is fetched or loaded, and no file of a model is read.

    Raises:
        SettingsError: Something is wrong; everything that is, with its source.
    """
    loaded = load(config=config, environ=environ, flags=flags, tasks=OnlyTasks())
    problems = trio.run(_model_problems, loaded)
    if problems:
        raise SettingsError(problems)
    return loaded


async def _model_problems(loaded: Loaded) -> list[Problem]:
    """What a runtime would refuse: an unknown family, task or option of a configured model."""
    problems = []
    settings, known = loaded.settings, families()
    policy = RuntimeSettings(parallel_jobs=settings.parallel_jobs, isolation=settings.isolation)
    async with open_thread_isolation() as thread, open_process_isolation() as process:
        isolations: dict[IsolationName, Isolation] = {"thread": thread, "process": process}
        runtime = Runtime(policy, families=known, isolations=isolations)
        for index, spec in enumerate(settings.models):
            try:
                runtime.add(spec)
                _known_to_the_store(spec)
            except ParaudioError as error:
                problems.append(_problem(error, index, loaded))
    return problems


def _known_to_the_store(spec: ModelSpec) -> None:
    """Refuse a model of the store that no catalogue has, which no fetch would ever bring."""
    name = spec.path.removeprefix(STORE_PREFIX)
    if name != spec.path and name not in CATALOGUE:
        raise ModelNotFoundError(
            f"there is no model {name!r} in the catalogue; {meant(name, CATALOGUE)}", param="path"
        )


def _problem(error: ParaudioError, index: int, loaded: Loaded) -> Problem:
    steps = error.param.split(".") if error.param else []
    key = ".".join([f"models[{index}]", *steps])
    source = loaded.origins.of(("models", index, *steps))
    return Problem(key, f"{key}: {error.message}", "" if source == "default" else source)
