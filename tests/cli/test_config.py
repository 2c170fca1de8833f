import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Cli = Callable[..., Result]

MODEL = {"id": "joe", "family": "piper_tts", "path": "joe.onnx", "task": "tts"}


def write(folder: Path, data: object) -> Path:
    path = folder / "server.json"
    path.write_text(json.dumps(data, indent=1))
    return path


def test_the_default_is_right_and_shown_whole(cli: Cli) -> None:
    result = cli("config", "check")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE", "SOURCE"]
    assert ["port", "8080", "default"] in [line.split() for line in lines]
    assert any("piper-joe (piper_tts, tts) store:piper-joe" in line for line in lines)
    assert "the default configuration is right" in result.stderr


def test_each_value_is_shown_with_its_source(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "joe.onnx").touch()
    path = write(tmp_path, {"port": 9, "models": [MODEL]})
    result = cli("config", "check", str(path), "--changed", PARAUDIO_API_KEYS="s3cret")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert ["port", "9", f"{path}:2"] in rows
    assert ["api_keys", '["(hidden)"]', "PARAUDIO_API_KEYS"] in rows
    assert any(row[0] == "models[0]" and row[-1] == f"{path}:4" for row in rows)
    assert len(rows) == 3


def test_a_wrong_file_ends_with_2_and_a_line_for_each_problem(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, {"prt": 9, "models": [{**MODEL, "slots": 1}]})
    result = cli("config", "check", str(path))
    assert result.exit_code == 2
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert first == f"error: {path}:2: prt is not a key here; did you mean 'port'?"
    assert second.startswith(f'error: {path}:9: models[0].slots of model "joe" needs')


def test_json_tells_a_script_everything(cli: Cli, tmp_path: Path) -> None:
    result = cli("config", "check", str(write(tmp_path, {"port": -1})), "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert found["ok"] is False
    (problem,) = found["problems"]
    assert problem["key"] == "port"
    assert problem["source"].endswith("server.json:2")

    result = cli("config", "check", str(write(tmp_path, {"models": [MODEL]})), "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["ok"] is True
    values = {one["key"]: one["value"] for one in found["settings"]}
    assert values["port"] == 8080
    assert values["models[0]"]["path"] == str(tmp_path / "joe.onnx")
    assert "cannot be read" in found["warnings"][0]


def test_the_variable_names_the_file(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, {"port": -1})
    assert cli("config", "check", PARAUDIO_CONFIG=str(path)).exit_code == 2
    result = cli("config", "check", str(tmp_path / "none.json"))
    assert result.exit_code == 2
    assert "there is no such file" in result.stderr


def test_what_is_odd_is_a_warning(cli: Cli, tmp_path: Path) -> None:
    result = cli("config", "check", str(write(tmp_path, {})), PARAUDIO_PRT="1")
    assert result.exit_code == 0
    assert "warning: PARAUDIO_PRT is not a setting" in result.stderr
    assert "has no models" in result.stderr


def test_folders_that_are_not_there_are_warnings(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    data = {"models": [], "voice_dir": "v", "allowed_paths": ["here", "a"]}
    result = cli("config", "check", str(write(tmp_path, data)))
    assert result.exit_code == 0
    voices, allowed, end = result.stderr.splitlines()
    assert voices.startswith("warning: voice_dir: there is no folder ")
    assert allowed.startswith("warning: allowed_paths[1]: there is no folder ")
    assert end.endswith("server.json is right, with 2 warnings")


def test_a_family_with_one_task_needs_none_said(cli: Cli, tmp_path: Path) -> None:
    data = {key: value for key, value in MODEL.items() if key != "task"}
    result = cli("config", "check", str(write(tmp_path, {"models": [data]})), "--json")
    values = {one["key"]: one["value"] for one in json.loads(result.stdout)["settings"]}
    assert values["models[0]"]["task"] == "tts"


def test_a_model_that_the_store_does_not_know_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, {"models": [{**MODEL, "path": "store:piper-jo"}]})
    result = cli("config", "check", str(path))
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: {path}:6: models[0].path: there is no model 'piper-jo' in the catalogue; "
        "did you mean 'piper-joe'?\n"
    )


def test_a_model_of_the_store_must_be_of_the_family_and_task_that_is_said(
    cli: Cli, tmp_path: Path
) -> None:
    path = write(
        tmp_path,
        {
            "models": [
                {**MODEL, "path": "store:silero-vad"},
                {**MODEL, "id": "v", "family": "silero_vad", "path": "store:piper-joe"},
                {**MODEL, "id": "s", "family": "simulated", "path": "store:piper-joe"},
                {**MODEL, "id": "r", "path": "store:piper-joe"},
            ]
        },
    )
    result = cli("config", "check", str(path), "--json")
    assert result.exit_code == 2
    found = {one["key"]: one["message"] for one in json.loads(result.stdout)["problems"]}
    assert found["models[0].family"] == (
        "models[0].family: store:silero-vad is a model of family 'silero_vad', not 'piper_tts'"
    )
    assert found["models[0].task"] == "models[0].task: store:silero-vad does vad, not tts"
    assert "is a model of family 'piper_tts'" in found["models[1].family"]
    assert "does not do task 'tts'" in found["models[1].task"]
    assert len(found) == 4


def test_several_faults_of_one_model_are_listed_at_once(cli: Cli, tmp_path: Path) -> None:
    model = {
        "id": "a",
        "family": "simulated",
        "path": "store:nobody",
        "task": "midi",
        "load_options": {"capacity": 17, "load_mss": 1, "load_ms": -1},
        "session_options": {"nonsense": 1},
    }
    result = cli("config", "check", str(write(tmp_path, {"models": [model]})), "--json")
    keys = [one["key"] for one in json.loads(result.stdout)["problems"]]
    assert sorted(keys) == [
        "models[0].load_options.capacity",
        "models[0].load_options.load_ms",
        "models[0].load_options.load_mss",
        "models[0].path",
        "models[0].session_options.nonsense",
        "models[0].task",
    ]


def test_what_is_wrong_beside_a_recording_of_no_use_is_listed_too(cli: Cli, tmp_path: Path) -> None:
    voice = {"voice_ref": "anna.wav"}
    model = {
        "id": "a",
        "family": "piper_tts",
        "path": "",
        "voice_presets": {"a.b": voice, "c": voice},
        "default_voice_preset": voice,
        "default_request_options": {"length_scale": "long"},
    }
    result = cli("config", "check", str(write(tmp_path, {"models": [model]})), "--json")
    keys = [one["key"] for one in json.loads(result.stdout)["problems"]]
    assert sorted(keys) == [
        "models[0].default_request_options.length_scale",
        "models[0].default_voice_preset.voice_ref",
        "models[0].voice_presets.a.b.voice_ref",
        "models[0].voice_presets.c.voice_ref",
    ]


def test_what_the_schema_and_what_the_families_refuse_is_listed_at_once(
    cli: Cli, tmp_path: Path
) -> None:
    simulated = {"family": "simulated", "path": "", "task": "tts"}
    wrong = {"load_options": {"capacity": 17}}
    models = [
        {"id": "a", **simulated, "slots": 2, "lazzy": True, "isolation": "thred", **wrong},
        {"id": "b", **simulated, **wrong},
        {"id": "b", **simulated, **wrong},
        {"id": "c", "family": "nobody", "path": 5, "task": "tts", **wrong},
        {"id": "d", "family": 5, "path": "", "task": "tts", **wrong},
        "no object",
    ]
    settings = {"port": -1, "parallel_jobs": "perhaps", "models": models}
    result = cli("config", "check", str(write(tmp_path, settings)), "--json")
    assert result.exit_code == 2
    problems = json.loads(result.stdout)["problems"]
    keys = [one["key"] for one in problems]
    assert sorted(keys) == [
        "models[0].isolation",
        "models[0].lazzy",
        "models[0].load_options.capacity",
        "models[0].slots",
        "models[1].load_options.capacity",
        "models[2].id",
        "models[2].load_options.capacity",
        "models[3].path",
        "models[4].family",
        "models[5]",
        "parallel_jobs",
        "port",
    ]
    assert all(one["source"].startswith(f"{tmp_path}/") for one in problems)


def test_right_with_warnings_is_said_with_their_number(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, {"models": [MODEL]})
    result = cli("config", "check", str(path))
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == f"{path} is right, with 1 warning"
    result = cli("config", "check", str(path), PARAUDIO_PRT="1")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == f"{path} is right, with 2 warnings"
    (tmp_path / "joe.onnx").touch()
    assert cli("config", "check", str(path)).stderr == f"{path} is right\n"


def test_nothing_changed_is_no_empty_table(cli: Cli) -> None:
    result = cli("config", "check", "--changed")
    assert result.exit_code == 0
    assert "SETTING" not in result.stdout


def test_what_a_family_would_refuse_is_found_without_loading(cli: Cli, tmp_path: Path) -> None:
    simulated = {"family": "simulated", "path": "", "task": "tts"}
    models = [
        {"id": "a", **simulated, "family": "simulatd"},
        {"id": "b", **simulated, "task": "midi"},
        {"id": "c", **simulated, "load_options": {"load_ms": 1, "capacity": 17}},
        {"id": "d", **simulated},
    ]
    path = write(tmp_path, {"models": models})
    result = cli("config", "check", str(path))
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert [line.split(": ")[1:3] for line in lines] == [
        [f"{path}:5", "models[0].family"],
        [f"{path}:13", "models[1].task"],
        [f"{path}:22", "models[2].load_options.capacity"],
    ]
    assert "must be a whole number from 1 to 16, not 17" in lines[2]
