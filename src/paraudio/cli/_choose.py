"""Which model ``paraudio run`` means: one of the configuration, of the store, or a path."""

from pathlib import Path

from paraudio.cli._output import meant
from paraudio.config import STORE_PREFIX, Settings, expanded, parse_model
from paraudio.engines.catalog import families
from paraudio.errors import InvalidRequestError, ModelNotFoundError
from paraudio.spec import ModelSpec
from paraudio.store import CATALOGUE


def choose(name: str, settings: Settings, *, family: str | None, task: str | None) -> ModelSpec:
    """Find a model by its name, or describe the one that a path is.

    Args:
        name: An ID of the configuration, a name of the store's catalogue, or a path.
        settings: The configuration.
        family: The family of a path.
        task: The task of a path.

    Raises:
        ModelNotFoundError: Nothing is called so.
        InvalidRequestError: It is a path, and what it is is not said, or said wrongly.
    """
    if family is not None:
        return _from_path(name, family, task)
    configured = {spec.id: spec for spec in settings.models}
    if name in configured:
        return configured[name]
    if name in CATALOGUE:
        entry = CATALOGUE[name]
        path = "" if entry.installed is not None else f"{STORE_PREFIX}{name}"
        return ModelSpec(id=name, family=entry.family, path=path, task=entry.task)
    if expanded(name).exists():
        raise InvalidRequestError(f"{name} is a path: say what it is with --family", param="family")
    if "/" in name:
        raise ModelNotFoundError(
            f"there is no file or folder {name}, nor a model of that name", param="model"
        )
    known = dict.fromkeys([*configured, *CATALOGUE])
    raise ModelNotFoundError(f"there is no model {name!r}; {meant(name, known)}", param="model")


def _from_path(name: str, family: str, task: str | None) -> ModelSpec:
    known = families()
    if family not in known:
        hint = meant(family, known)
        raise InvalidRequestError(f"there is no family {family!r}; {hint}", param="family")
    tasks = known[family].tasks
    if task is None and len(tasks) > 1:
        raise InvalidRequestError(
            f"family {family} does {', '.join(tasks)}: say which with --task", param="task"
        )
    chosen = next(iter(tasks)) if task is None else task
    identity = Path(name).stem or family
    data = {"id": identity, "family": family, "path": name, "task": chosen}
    return parse_model(data, parallel=False, base=Path.cwd())
