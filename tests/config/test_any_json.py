"""Whatever JSON says, the answer is a spec or a refusal that names a real path."""

import copy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.config.samples import BASE, is_real, model, written

from paraudio.config import ModelObjectError, SettingsError, load, parse_model
from paraudio.config._model import ModelObject
from paraudio.config._schema import Settings
from paraudio.spec import ModelSpec

any_text = st.text(alphabet=st.characters(exclude_categories=()), max_size=6)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 20)
    | st.floats()
    | any_text
    | st.sampled_from(["tts", "offline", "thread", "voice_id", "a", "/m", "store:x", "*"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
presets = st.dictionaries(
    st.sampled_from(["voice_id", "voice_ref", "reference_text", "x"]), scalars, max_size=3
)
near = (
    values
    | st.dictionaries(any_text, presets | values, max_size=2)
    | presets
    | st.dictionaries(st.sampled_from(["idle_timeout_ms", "max_chunk_bytes"]), scalars, max_size=2)
)
model_keys = st.sampled_from(sorted(ModelObject.model_fields)) | any_text
setting_keys = st.sampled_from(sorted(Settings.model_fields)) | any_text


@given(changes=st.dictionaries(model_keys, near, max_size=4), dropped=st.sets(model_keys))
@settings(max_examples=400)
def test_any_object_is_a_spec_or_a_refusal_with_a_real_path(
    changes: dict[str, Any], dropped: set[str]
) -> None:
    data = {key: value for key, value in model(**changes).items() if key not in dropped}
    for parallel in (False, True):
        for base in (BASE, None):
            before = copy.deepcopy(data)
            try:
                spec = parse_model(data, parallel=parallel, base=base)
            except ModelObjectError as error:
                refusal = error
            else:
                assert isinstance(spec, ModelSpec)
                assert 1 <= spec.slots <= (16 if parallel else 1)
                continue
            assert refusal.param == refusal.problems[0].key
            for problem in refusal.problems:
                assert is_real(problem.key, data), problem
                assert problem.message.startswith(problem.key)
            assert repr(data) == repr(before)


@given(
    data=st.dictionaries(setting_keys, near, max_size=4),
    models=st.none() | st.lists(near | st.builds(model), max_size=3),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_a_configuration_or_a_refusal_with_real_paths(
    tmp_path: Path, data: dict[str, Any], models: list[Any] | None
) -> None:
    if models is not None:
        data = {**data, "models": models}
    path = written(tmp_path, data)
    try:
        result = load(config=path, environ={}, flags={})
    except SettingsError as error:
        for problem in error.problems:
            assert is_real(problem.key, data), problem
            assert problem.source.startswith(str(path)), problem
    else:
        assert isinstance(result.settings, Settings)
