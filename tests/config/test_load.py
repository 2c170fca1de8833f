from pathlib import Path

import pytest
from tests.config.samples import loaded, model, unloadable, written

from paraudio.config import (
    DEFAULT_MODELS,
    ConfigEntry,
    Settings,
    describe,
    flag_name,
    load_settings,
    variable_name,
)
from paraudio.config._describe import HIDDEN
from paraudio.config._layers import setting_places
from paraudio.config._problems import shown
from paraudio.errors import ConfigError


def entry(entries: tuple[ConfigEntry, ...], key: str) -> ConfigEntry:
    return next(entry for entry in entries if entry.key == key)


@pytest.mark.contract("startup/no_flag_no_slots")
def test_without_a_file_the_default_models_have_one_slot_each() -> None:
    settings = load_settings(config=None, environ={}, flags={})
    assert settings == Settings(models=DEFAULT_MODELS)
    assert [(spec.id, spec.family, spec.task, spec.path) for spec in settings.models] == [
        ("piper-joe", "piper_tts", "tts", "store:piper-joe"),
        ("pocketsphinx-en", "pocketsphinx_asr", "asr", ""),
        ("silero-vad", "silero_vad", "vad", "store:silero-vad"),
    ]
    assert all(spec.slots == 1 and spec.lazy for spec in settings.models)


def test_an_empty_file_has_the_defaults_and_no_models(tmp_path: Path) -> None:
    result = loaded(written(tmp_path, {}))
    assert result.settings == Settings()
    (warning,) = result.warnings
    assert "has no models" in warning
    assert "piper-joe" in warning


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, {"port": 1, "threads": 1, "device": 1, "models": []})
    environ = {"PARAUDIO_PORT": "2", "PARAUDIO_THREADS": "2"}
    result = loaded(path, environ, {"port": "3", "journal": None})
    assert (result.settings.port, result.settings.threads, result.settings.device) == (3, 2, 1)
    entries = describe(result)
    assert entry(entries, "port") == ConfigEntry("port", 3, "--port")
    assert entry(entries, "threads") == ConfigEntry("threads", 2, "PARAUDIO_THREADS")
    assert entry(entries, "device").source == f"{path}:4"
    assert entry(entries, "host").source == "default"


def test_objects_are_merged_key_by_key(tmp_path: Path) -> None:
    bounds = {"idle_timeout_ms": 1, "max_body_bytes": 1}
    path = written(tmp_path, {"live_ingest": bounds, "models": []})
    environ = {"PARAUDIO_LIVE_INGEST__IDLE_TIMEOUT_MS": "2"}
    flags: dict[str, object] = {"live_ingest.max_chunk_bytes": "3"}
    result = loaded(path, environ, flags)
    ingest = result.settings.live_ingest
    assert (ingest.idle_timeout_ms, ingest.max_body_bytes, ingest.max_chunk_bytes) == (2, 1, 3)
    assert ingest.total_timeout_ms == 600_000
    entries = describe(result)
    assert entry(entries, "live_ingest.max_chunk_bytes").source == "--live-ingest-max-chunk-bytes"
    assert entry(entries, "live_ingest.max_body_bytes").source.startswith(str(path))


def test_a_wrong_object_is_refused_though_a_variable_reaches_into_it(tmp_path: Path) -> None:
    path = written(tmp_path, {"live_ingest": 5})
    error = unloadable(path, {"PARAUDIO_LIVE_INGEST__IDLE_TIMEOUT_MS": "2"})
    assert error.param == "live_ingest"


@pytest.mark.parametrize("text", ["1", "true", "YES", "on"])
def test_a_variable_can_switch_on(text: str) -> None:
    assert loaded(None, {"PARAUDIO_UI_ENABLED": text}).settings.ui_enabled


@pytest.mark.parametrize("text", ["0", "False", "no", "off"])
def test_a_variable_can_switch_off(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, {"lazy_load": True})
    assert not loaded(path, {"PARAUDIO_LAZY_LOAD": text}).settings.lazy_load


def test_an_empty_variable_counts_as_unset() -> None:
    assert loaded(None, {"PARAUDIO_PORT": "", "PARAUDIO_API_KEYS": ""}).settings.port == 8080


def test_lists_are_separated_by_commas() -> None:
    environ = {
        "PARAUDIO_API_KEYS": "one, two,",
        "PARAUDIO_CORS_ORIGINS": "https://a.example,http://b.example:81",
    }
    settings = loaded(None, environ).settings
    assert settings.api_keys == ("one", "two")
    assert settings.cors_origins == ("https://a.example", "http://b.example:81")
    assert loaded(None, {"PARAUDIO_CORS_ORIGINS": "*"}).settings.cors_origins == "*"


def test_a_wrong_variable_is_named_as_the_source() -> None:
    environ = {"PARAUDIO_PORT": "70000", "PARAUDIO_UI_ENABLED": "maybe", "PARAUDIO_THREADS": "2x"}
    messages = sorted(map(str, unloadable(None, environ).problems))
    assert messages == [
        "PARAUDIO_PORT: port must be a whole number from 0 to 65535, not 70000",
        'PARAUDIO_THREADS: threads must be a whole number of at least 0, not "2x"',
        'PARAUDIO_UI_ENABLED: ui_enabled must be true or false, not "maybe"',
    ]


def test_a_wrong_flag_is_named_as_the_source() -> None:
    (problem,) = unloadable(None, {}, {"drain_timeout_ms": "-1"}).problems
    assert problem.source == "--drain-timeout-ms"


def test_an_unknown_variable_is_told_and_ignored() -> None:
    environ = {"PARAUDIO_PRT": "1", "PARAUDIO_HOME": "/x", "PARAUDIO_CONFIG": "y", "OTHER": "z"}
    result = loaded(None, environ)
    (warning,) = result.warnings
    assert warning.startswith("PARAUDIO_PRT is not a setting")
    assert "did you mean 'PARAUDIO_PORT'?" in warning


def test_the_port_variable_of_a_kubernetes_service_is_explained() -> None:
    error = unloadable(None, {"PARAUDIO_PORT": "tcp://10.0.0.1:8080"})
    assert "enableServiceLinks" in error.message


def test_each_setting_has_a_variable_and_a_flag_of_its_own() -> None:
    places = [place for place, _ in setting_places()]
    assert ("port",) in places
    assert ("tls", "cert") in places
    assert ("models",) not in places
    assert len({variable_name(place) for place in places}) == len(places)
    assert len({flag_name(place) for place in places}) == len(places)
    assert flag_name(("api_keys",)) == "--api-key"
    assert variable_name(("tls", "cert")) == "PARAUDIO_TLS__CERT"


def test_every_problem_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '{"prt": 1,\n"port": -1,\n"models": [\n'
        '{"id": "a", "family": "f", "path": "", "task": "tts",\n"slots": 1},\n'
        "3,\n"
        '{"id": "a", "family": "f", "path": "", "task": "sing"}]}',
    )
    error = unloadable(path)
    assert isinstance(error, ConfigError)
    found = {problem.key: problem.source for problem in error.problems}
    assert found == {
        "port": f"{path}:2",
        "prt": f"{path}:1",
        "models[0].slots": f"{path}:5",
        "models[1]": f"{path}:6",
        "models[2].task": f"{path}:7",
        "models[2].id": f"{path}:7",
    }
    assert len(error.message.splitlines()) == 6


def test_two_models_with_one_id_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"models": [model(), model(id="b"), model()]})
    error = unloadable(path)
    assert error.param == "models[2].id"
    assert "models[0]" in error.message


@pytest.mark.parametrize("models", [None, {}, "a", 3])
def test_models_is_a_list(tmp_path: Path, models: object) -> None:
    assert unloadable(written(tmp_path, {"models": models})).param == "models"


@pytest.mark.contract("startup/no_flag_any_slots_rejected")
@pytest.mark.parametrize("slots", [1, None, 2])
def test_serial_policy_refuses_slots_in_any_model(tmp_path: Path, slots: object) -> None:
    path = written(tmp_path, {"models": [model(), model(id="b", slots=slots)]})
    error = unloadable(path)
    assert error.param == "models[1].slots"
    assert '"b"' in error.message


@pytest.mark.parametrize("how", ["file", "variable", "flag"])
def test_the_parallel_policy_can_be_chosen_anywhere(tmp_path: Path, how: str) -> None:
    data = {"models": [model(slots=2), model(id="b")], "parallel_jobs": how == "file"}
    result = loaded(
        written(tmp_path, data),
        {"PARAUDIO_PARALLEL_JOBS": "1"} if how == "variable" else {},
        {"parallel_jobs": True} if how == "flag" else {},
    )
    assert [spec.slots for spec in result.settings.models] == [2, 1]


def test_lazy_load_is_what_models_are_without_a_word_of_their_own(tmp_path: Path) -> None:
    path = written(tmp_path, {"lazy_load": False, "models": [model(), model(id="b", lazy=True)]})
    assert [spec.lazy for spec in loaded(path).settings.models] == [False, True]
    assert not any(spec.lazy for spec in loaded(None, {}, {"lazy_load": False}).settings.models)


def test_relative_paths_start_at_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    data = {"voice_dir": "v", "allowed_paths": ["a", "/b"], "models": [model(path="m")]}
    settings = loaded(written(tmp_path / "conf", data), {}, {"journal": "j.jsonl"}).settings
    assert settings.voice_dir == str(tmp_path / "conf" / "v")
    assert settings.allowed_paths == (str(tmp_path / "conf" / "a"), "/b")
    assert settings.journal == str(tmp_path / "here" / "j.jsonl")
    assert settings.models[0].path == str(tmp_path / "conf" / "m")


def test_the_home_of_nobody_is_a_folder_like_any_other(tmp_path: Path) -> None:
    data = {"voice_dir": "~nobody.here/v", "models": [model(path="~nobody.here/m")]}
    result = loaded(written(tmp_path, data))
    assert result.settings.voice_dir == f"{tmp_path}/~nobody.here/v"
    assert result.settings.models[0].path == f"{tmp_path}/~nobody.here/m"
    assert [line.split(":")[0] for line in result.warnings] == ["models[0].path", "voice_dir"]


def test_a_relative_configuration_file_gives_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {"models": [model(path="m")]})
    result = loaded(Path("server.json"))
    assert result.settings.models[0].path == str(tmp_path / "m")
    assert entry(describe(result), "models[0]").source == "server.json:3"


def test_files_that_starting_needs_must_be_there(tmp_path: Path) -> None:
    tls = {"cert": "cert.pem", "key": "key.pem"}
    path = written(tmp_path, {"tls": tls, "journal": "none/j.jsonl", "models": []})
    keys = [problem.key for problem in unloadable(path).problems]
    assert keys == ["tls.cert", "tls.key", "journal"]
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "j.jsonl").mkdir()
    assert "journal" in [problem.key for problem in unloadable(path).problems]
    (tmp_path / "none" / "j.jsonl").rmdir()
    for name in tls.values():
        (tmp_path / name).touch()
    settings = loaded(path).settings
    assert settings.tls is not None
    assert settings.tls.key == str(tmp_path / "key.pem")


def test_half_of_tls_is_refused(tmp_path: Path) -> None:
    error = unloadable(written(tmp_path, {"tls": {"cert": "c"}}))
    assert error.param == "tls.key"
    assert "is missing" in error.message


def test_files_that_may_come_later_are_only_told(tmp_path: Path) -> None:
    (tmp_path / "here.wav").touch()
    presets = {"a.b": {"voice_ref": "none.wav"}, "c": {"voice_ref": "here.wav"}}
    odd = model(path="none", voice_presets=presets, default_voice_preset={"voice_ref": "n.wav"})
    data = {
        "models": [odd, model(id="b", path="")],
        "voice_dir": "voices",
        "allowed_paths": ["here.wav", "sounds", ".", "n" * 300],
    }
    warnings = loaded(written(tmp_path, data)).warnings
    assert [line.split(":")[0] for line in warnings] == [
        "models[0].path",
        'models[0].voice_presets["a.b"].voice_ref',
        "models[0].default_voice_preset.voice_ref",
        "voice_dir",
        "allowed_paths[1]",
        "allowed_paths[3]",
    ]
    sounds = shown(str(tmp_path / "sounds"))
    assert warnings[-2] == (
        f"allowed_paths[1]: there is no folder {sounds}; paths into it are refused"
    )


def test_a_folder_with_a_name_that_is_too_long_is_not_there(tmp_path: Path) -> None:
    name = "n" * 300
    (warning,) = loaded(written(tmp_path, {"voice_dir": name, "models": []})).warnings
    assert warning.startswith("voice_dir: there is no folder ")
    error = unloadable(written(tmp_path, {"journal": f"{name}/run.jsonl", "models": []}))
    assert error.param == "journal"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("x", "cors_origins"),
        (3, "cors_origins"),
        (None, "cors_origins"),
        (["*", "https://a.example/"], "cors_origins[0]"),
        (["https://a.example", "https://a.example/"], "cors_origins[1]"),
        (["https://a.example", 3], "cors_origins[1]"),
    ],
)
def test_origins_are_checked(tmp_path: Path, given: object, param: str) -> None:
    error = unloadable(written(tmp_path, {"cors_origins": given}))
    assert error.param == param


def test_keys_are_never_shown(tmp_path: Path) -> None:
    path = written(tmp_path, {"api_keys": ["s3cret", 123456], "models": []})
    error = unloadable(path)
    assert error.param == "api_keys[1]"
    assert "123456" not in error.message
    error = unloadable(written(tmp_path, {"api_keys": "s3cret"}))
    assert "s3cret" not in error.message
    error = unloadable(None, {"PARAUDIO_API_KEYS": "s3 cret"})
    assert "s3 cret" not in error.message
    result = loaded(None, {"PARAUDIO_API_KEYS": "s3cret"})
    assert entry(describe(result), "api_keys").value == [HIDDEN]


@pytest.mark.parametrize("name", ["server.json", "server.toml"])
def test_a_key_that_nobody_said_has_its_default_whatever_was_said_beside_it(
    tmp_path: Path, name: str
) -> None:
    said = "[live_ingest]\nmax_chunk_bytes = 5\nsend_timeout_ms = 7\n"
    data = {"live_ingest": {"max_chunk_bytes": 5, "send_timeout_ms": 7}}
    path = written(tmp_path, data if name.endswith("json") else said, name)
    entries = describe(loaded(path, {"PARAUDIO_LIVE_INGEST__MAX_CHUNK_BYTES": "6"}))
    sources = {one.key: one.source for one in entries}
    assert sources["live_ingest.max_chunk_bytes"] == "PARAUDIO_LIVE_INGEST__MAX_CHUNK_BYTES"
    assert sources["live_ingest.send_timeout_ms"].startswith(str(path))
    assert sources["live_ingest.idle_timeout_ms"] == "default"


def test_every_setting_and_every_model_is_described() -> None:
    entries = describe(loaded())
    keys = {one.key for one in entries}
    assert set(Settings.model_fields) - {"models", "live_ingest"} <= keys
    assert entry(entries, "models[0]").source == "default"
    value = entry(entries, "models[1]").value
    assert isinstance(value, dict)
    assert value["id"] == "pocketsphinx-en"
