"""Model objects and configuration files for the tests of this room."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from paraudio.config import ModelObjectError, SettingsError, load, parse_model
from paraudio.config._load import Loaded
from paraudio.spec import ModelSpec

BASE = Path("/srv/audio")
_STEP = re.compile(r'\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|\.?([A-Za-z_][A-Za-z0-9_-]*)')


def model(**changes: object) -> dict[str, Any]:
    """A complete model object, with changes."""
    return {"id": "joe", "family": "piper_tts", "path": "joe.onnx", "task": "tts", **changes}


def parsed(parallel: bool = True, **changes: object) -> ModelSpec:
    return parse_model(model(**changes), parallel=parallel, base=BASE)


def refused(parallel: bool = True, param: str = "", **changes: object) -> ModelObjectError:
    with pytest.raises(ModelObjectError) as caught:
        parse_model(model(**changes), parallel=parallel, base=BASE, param=param)
    return caught.value


def written(folder: Path, data: object, name: str = "server.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1))
    return path


def loaded(
    config: Path | None = None,
    environ: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> Loaded:
    return load(config=config, environ=environ or {}, flags=flags or {})


def unloadable(
    config: Path | None = None,
    environ: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(config=config, environ=environ or {}, flags=flags or {})
    return caught.value


def steps(key: str) -> list[str | int]:
    """Read a key's path back into steps."""
    found: list[str | int] = []
    at = 0
    while at < len(key):
        match = _STEP.match(key, at)
        assert match is not None, f"{key!r} is no path at {at}"
        index, quoted, plain = match.groups()
        if index is not None:
            found.append(int(index))
        else:
            found.append(json.loads(f'"{quoted}"') if quoted is not None else plain)
        at = match.end()
    return found


def is_real(key: str, data: object) -> bool:
    """Whether a path leads to a value of ``data``, or to a key that an object there lacks."""
    value = data
    for step in (path := steps(key)):
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return False
            value = value[step]
        elif not isinstance(value, dict):
            return False
        elif step in value:
            value = value[step]
        else:
            return step is path[-1]
    return bool(path)
