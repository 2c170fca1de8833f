"""What a family is asked to load: everything that the spec and the server's configuration say."""

from dataclasses import asdict, replace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.lifecycle.stage import spec

from paraudio.config import Settings
from paraudio.engines import Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import InvalidRequestError
from paraudio.lifecycle import RuntimeSettings
from paraudio.lifecycle._candidate import Checker

NOWHERE: Any = Mock()
"""An isolation that nothing is run in."""


def _checker(settings: RuntimeSettings) -> Checker:
    return Checker(settings, {"simulated": SimulatedFamily()}, {"thread": NOWHERE})


def test_a_load_says_all_that_spec_and_settings_say() -> None:
    settings = RuntimeSettings(parallel_jobs=True, backend="cuda", device=3, threads=5)
    model = replace(
        spec("m", 2, memory_mb=7, run_ms=9), mode="streaming", config="/c.json", weight="w.bin"
    )
    candidate = _checker(settings).check(model)
    load = candidate.load
    assert (candidate.spec, candidate.isolation) == (model, NOWHERE)
    assert (load.options["memory_mb"], load.session_options["run_ms"]) == (7, 9)
    assert load == Load(
        path="/m",
        task="tts",
        mode="streaming",
        config="/c.json",
        weight="w.bin",
        options=load.options,
        session_options=load.session_options,
        backend="cuda",
        device=3,
        threads=5,
        model_id="m",
        generation=1,
    )
    assert candidate.generation(4) == replace(load, generation=4)


@pytest.mark.parametrize("param", ["default_request_options", "load_options", "session_options"])
def test_an_option_that_the_family_has_not_is_named_with_its_field(param: str) -> None:
    wrong: dict[str, Any] = {param: {"nonsense": 1}}
    with pytest.raises(InvalidRequestError) as refused:
        _checker(RuntimeSettings()).check(replace(spec("m"), **wrong))
    assert refused.value.param == f"{param}.nonsense"


def test_the_runtime_and_the_configuration_have_the_same_defaults() -> None:
    runtime = asdict(RuntimeSettings())
    assert runtime.pop("backend") == "cpu", "the configuration's own default is found out first"
    assert runtime == {name: getattr(Settings(), name) for name in runtime}
