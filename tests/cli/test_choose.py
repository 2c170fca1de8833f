from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from paraudio.cli import _choose
from paraudio.cli._choose import choose
from paraudio.config import DEFAULT_MODELS, Settings
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import InvalidRequestError, ModelNotFoundError
from paraudio.spec import ModelSpec, Task
from paraudio.store import CATALOGUE

OWN = ModelSpec(id="own", family="simulated", path="", task="asr")
DEFAULTS = Settings(models=DEFAULT_MODELS)


class SpeakingFamily(SimulatedFamily):
    tasks: Mapping[Task, frozenset[str]] = MappingProxyType({"tts": frozenset({"offline"})})


@pytest.fixture(autouse=True)
def _two_families(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"simulated": SimulatedFamily(), "speaking": SpeakingFamily()}
    monkeypatch.setattr(_choose, "families", lambda: made)


def test_a_configured_model_is_found_by_its_id() -> None:
    settings = Settings(models=(OWN,))
    assert choose("own", settings, family=None, task=None) is OWN


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_model_of_the_store_needs_no_configuration(name: str) -> None:
    spec = choose(name, Settings(), family=None, task=None)
    assert spec in DEFAULT_MODELS
    assert spec.id == name


def test_a_configured_model_hides_one_of_the_store() -> None:
    own = ModelSpec(id="piper-joe", family="simulated", path="", task="tts")
    assert choose("piper-joe", Settings(models=(own,)), family=None, task=None) is own


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ModelNotFoundError, match="did you mean 'piper-joe'"):
        choose("piper-jo", DEFAULTS, family=None, task=None)


def test_a_path_that_leads_nowhere_is_no_name_to_guess() -> None:
    with pytest.raises(ModelNotFoundError, match=r"there is no file or folder \./joe\.onnx"):
        choose("./joe.onnx", DEFAULTS, family=None, task=None)


def test_a_path_needs_its_family(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="--family"):
        choose(str(tmp_path), DEFAULTS, family=None, task=None)


def test_a_path_with_its_family_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = choose("voices/a.onnx", DEFAULTS, family="speaking", task=None)
    assert (spec.id, spec.task, spec.path) == ("a", "tts", str(tmp_path / "voices" / "a.onnx"))


def test_a_family_with_several_tasks_needs_one_said() -> None:
    with pytest.raises(InvalidRequestError, match="tts, asr, vad, diar: say which with --task"):
        choose("x", DEFAULTS, family="simulated", task=None)
    assert choose("x", DEFAULTS, family="simulated", task="vad").task == "vad"
    with pytest.raises(InvalidRequestError, match="task must be one of"):
        choose("x", DEFAULTS, family="simulated", task="sing")


def test_an_unknown_family_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidRequestError, match="did you mean 'simulated'"):
        choose("x", DEFAULTS, family="simulatd", task=None)
