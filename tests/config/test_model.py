import math
from pathlib import Path

import pytest
from tests.config.samples import BASE, model, parsed, refused

from paraudio.config import ModelObjectError, parse_model
from paraudio.spec import ModelSpec, VoicePreset


def test_four_keys_are_enough() -> None:
    spec = parsed()
    assert spec == ModelSpec(id="joe", family="piper_tts", path="/srv/audio/joe.onnx", task="tts")


def test_every_key_arrives_in_the_spec() -> None:
    spec = parsed(
        mode="streaming",
        slots=4,
        lazy=False,
        busy_timeout_ms=0,
        max_queued_requests=7,
        isolation="process",
        live_ingest={"idle_timeout_ms": 5},
        config="joe.json",
        weight="half.onnx",
        load_options={"a": [1, None]},
        session_options={"b": True},
        default_request_options={"c": 0.5},
        voice_presets={"anna": {"voice_ref": "anna.wav", "reference_text": "Hello"}},
        default_voice_preset="anna",
    )
    assert spec == ModelSpec(
        id="joe",
        family="piper_tts",
        path="/srv/audio/joe.onnx",
        task="tts",
        mode="streaming",
        slots=4,
        lazy=False,
        busy_timeout_ms=0,
        max_queued_requests=7,
        isolation="process",
        live_ingest={"idle_timeout_ms": 5},
        config="joe.json",
        weight="half.onnx",
        load_options={"a": [1, None]},
        session_options={"b": True},
        default_request_options={"c": 0.5},
        voice_presets={"anna": VoicePreset(None, "/srv/audio/anna.wav", "Hello")},
        default_voice_preset="anna",
    )


@pytest.mark.parametrize("key", ["id", "family", "path", "task"])
def test_a_missing_key_is_named(key: str) -> None:
    data = model()
    del data[key]
    with pytest.raises(ModelObjectError, match=f"{key} is missing") as caught:
        parse_model(data, parallel=True, base=BASE, param="models[2]")
    assert caught.value.param == f"models[2].{key}"
    assert (caught.value.status, caught.value.code) == (400, "invalid_request_error")


def test_an_unknown_key_is_named_with_the_nearest_one() -> None:
    error = refused(param="models[0]", lod_options={})
    assert error.param == "models[0].lod_options"
    assert "did you mean 'load_options'?" in error.message


def test_an_unknown_key_inside_is_named_with_the_keys_known_there() -> None:
    error = refused(voice_presets={"a.b": {"voice_id": "x", "pitch": 1}})
    assert error.param == 'voice_presets["a.b"].pitch'
    assert "known here: reference_text, voice_id, voice_ref" in error.message


def test_all_problems_are_said_at_once() -> None:
    error = refused(task="sing", mode="live", lazy=1, slots=0)
    assert {problem.key for problem in error.problems} == {"task", "mode", "lazy", "slots"}
    assert "task must be one of tts, asr, vad, diar, align, midi" in error.message
    assert "mode must be one of offline, streaming" in error.message


@pytest.mark.parametrize("slots", [None, 1, 2, 0, 17, "1", True, 1.5])
def test_serial_policy_refuses_the_key_slots_whatever_it_says(slots: object) -> None:
    error = refused(parallel=False, param="models[3]", slots=slots)
    assert error.param == "models[3].slots"
    assert '"joe"' in error.message
    assert "--parallel-jobs" in error.message


def test_serial_policy_gives_one_slot() -> None:
    assert parsed(parallel=False).slots == 1


def test_parallel_policy_gives_one_slot_where_none_is_said() -> None:
    assert parsed().slots == 1


@pytest.mark.parametrize("slots", range(1, 17))
def test_parallel_policy_takes_1_to_16(slots: int) -> None:
    assert parsed(slots=slots).slots == slots


def test_an_integral_float_is_an_integral_number() -> None:
    slots = parsed(slots=2.0).slots
    assert slots == 2
    assert isinstance(slots, int)


@pytest.mark.parametrize(
    "slots", [None, True, False, "2", 1.5, 0, 17, -1, [], {}, math.nan, math.inf, 10**400]
)
def test_parallel_policy_refuses_other_slots(slots: object) -> None:
    error = refused(slots=slots)
    assert error.param == "slots"
    assert "must be a whole number from 1 to 16" in error.message


@pytest.mark.parametrize("key", ["busy_timeout_ms", "max_queued_requests"])
@pytest.mark.parametrize("value", [-1, 0.5, "1", True, 2**53])
def test_times_and_counts_are_whole_and_not_negative(key: str, value: object) -> None:
    with pytest.raises(ModelObjectError) as caught:
        parse_model(model(**{key: value}), parallel=False, base=BASE)
    assert caught.value.param == key


def test_live_ingest_keeps_only_what_was_said() -> None:
    assert parsed(live_ingest={"max_body_bytes": 0}).live_ingest == {"max_body_bytes": 0}
    error = refused(live_ingest={"max_chunk_bytes": 0})
    assert error.param == "live_ingest.max_chunk_bytes"


@pytest.mark.parametrize(
    ("preset", "param"),
    [
        ({}, "voice_presets.a"),
        ({"reference_text": "hi"}, "voice_presets.a"),
        ({"voice_id": "x", "voice_ref": "y"}, "voice_presets.a"),
        ("x", "voice_presets.a"),
        ({"voice_id": 3}, "voice_presets.a.voice_id"),
        ({"voice_ref": ""}, "voice_presets.a.voice_ref"),
    ],
)
def test_a_preset_names_exactly_one_voice(preset: object, param: str) -> None:
    assert refused(voice_presets={"a": preset}).param == param


def test_the_default_preset_must_exist() -> None:
    error = refused(voice_presets={"anna": {"voice_id": "x"}}, default_voice_preset="ana")
    assert error.param == "default_voice_preset"
    assert "did you mean 'anna'?" in error.message


def test_the_default_preset_may_be_a_preset_of_its_own() -> None:
    spec = parsed(default_voice_preset={"voice_ref": "a.wav"})
    assert spec.default_voice_preset == VoicePreset(voice_ref="/srv/audio/a.wav")


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"voice_id": 3}, "default_voice_preset.voice_id"),
        ({"voice_id": "a", "x": 1}, "default_voice_preset.x"),
        ({}, "default_voice_preset"),
        (3, "default_voice_preset"),
    ],
)
def test_a_wrong_default_preset_is_named_to_the_key(given: object, param: str) -> None:
    assert refused(default_voice_preset=given).param == param


@pytest.mark.parametrize(
    ("given", "absolute"),
    [
        ("", ""),
        ("store:piper-joe", "store:piper-joe"),
        ("/data/joe", "/data/joe"),
        ("a/b", "/srv/audio/a/b"),
        ("~/joe", str(Path("~/joe").expanduser())),
        ("./~/joe", "/srv/audio/~/joe"),
    ],
)
def test_paths_start_at_the_base(given: str, absolute: str) -> None:
    assert parsed(path=given).path == absolute


def test_without_a_base_a_relative_path_is_refused() -> None:
    data = model(voice_presets={"a": {"voice_ref": "a.wav"}})
    with pytest.raises(ModelObjectError) as caught:
        parse_model(data, parallel=False, base=None)
    keys = [problem.key for problem in caught.value.problems]
    assert keys == ["path", "voice_presets.a.voice_ref"]
    assert "must be an absolute path" in caught.value.message


@pytest.mark.parametrize("path", ["a\0b", "\ud800", 3, None])
def test_what_is_no_file_name_is_no_path(path: object) -> None:
    assert refused(path=path).param == "path"


@pytest.mark.parametrize("name", ["", " joe", "joe ", "a\nb", "x" * 257, "\ud800", 7])
def test_an_id_is_a_printable_name(name: object) -> None:
    assert refused(id=name).param == "id"


@pytest.mark.parametrize("name", ["org/model", "größe", "モデル", "a b"])
def test_an_id_may_be_in_any_script(name: str) -> None:
    assert parsed(id=name).id == name


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({"a": [0, {"b": math.nan}]}, "load_options.a[1].b"),
        ({"a b": object()}, 'load_options["a b"]'),
        ({"\ud800": 1}, 'load_options["\\ud800"]'),
        ({"a": "\udfff"}, "load_options.a"),
        (3, "load_options"),
        (None, "load_options"),
    ],
)
def test_options_are_json(value: object, param: str) -> None:
    assert refused(load_options=value).param == param


def test_options_are_not_nested_without_end() -> None:
    deep: object = 1
    for _ in range(1000):
        deep = {"a": deep}
    error = refused(load_options=deep)
    assert error.param is not None
    assert error.param.startswith("load_options.a.a.a")
    assert "nested deeper" in error.message


def test_options_are_copied() -> None:
    options = {"list": [1]}
    spec = parsed(load_options=options)
    options["list"].append(2)
    assert spec.load_options == {"list": [1]}


def test_a_family_with_one_task_needs_none_said() -> None:
    data = model()
    del data["task"]
    spec = parse_model(data, parallel=False, base=BASE, tasks={"piper_tts": "tts"})
    assert spec.task == "tts"
    with pytest.raises(ModelObjectError, match="task is missing"):
        parse_model(data, parallel=False, base=BASE, tasks={"other": "tts"})
