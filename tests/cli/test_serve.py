import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from paraudio.cli._notice import log_notice, log_ready
from paraudio.cli._serve import GROUPS, command
from paraudio.config import Settings, load, settings_info
from paraudio.engines.catalog import families

Cli = Callable[..., Result]


def test_every_setting_has_its_flag_and_its_place_in_the_help() -> None:
    shown = [name for names in GROUPS.values() for name in names]
    assert sorted(shown) == sorted(settings_info())
    assert len(shown) == len(set(shown))


def test_help_is_grouped_and_says_the_defaults(cli: Cli) -> None:
    text = cli("serve", "--help").stdout
    assert "Key that requests must bear; may be given again." in " ".join(text.split())
    for group in GROUPS:
        assert f"\n{group}:\n" in text
    assert "--port N" in text
    assert "[default: 8080]" in text
    assert "--[no-]parallel-jobs" in text
    assert "--backend cpu|cuda|auto" in text
    assert all(f"--{name.replace('_', '-')}" in text for name in ("journal", "host", "threads"))


def flags(*args: str) -> dict[str, object]:
    """What a command line says of the settings."""
    context = command.make_context("serve", list(args))
    return {
        name.replace("__", "."): value
        for name, value in context.params.items()
        if name not in {"config", "log_level", "log_format"}
    }


def settings(*args: str) -> Settings:
    return load(config=None, environ={}, flags=flags(*args)).settings


def test_without_flags_the_defaults_hold() -> None:
    assert settings() == load(config=None, environ={}, flags={}).settings


def test_flags_of_every_kind_arrive() -> None:
    made = settings(
        *("--port", "9", "--api-key", "one", "--api-key", "two", "--no-lazy-load"),
        *("--parallel-jobs", "--backend", "cpu", "--live-ingest-max-chunk-bytes", "5"),
        *("--allowed-path", "/a", "--cors-origins", "https://a.example"),
        *("--allowed-path", "/b", "--cors-origins", "https://b.example"),
    )
    assert made.port == 9
    assert made.api_keys == ("one", "two")
    assert not made.lazy_load
    assert made.parallel_jobs
    assert made.live_ingest.max_chunk_bytes == 5
    assert made.allowed_paths == ("/a", "/b")
    assert made.cors_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("*", "*"),
        ("https://a.example,https://b.example", ("https://a.example", "https://b.example")),
    ],
)
def test_origins_can_be_one_word(given: str, meant: object) -> None:
    assert settings("--cors-origins", given).cors_origins == meant


def test_wrong_flags_end_with_2_and_one_line_each(cli: Cli) -> None:
    result = cli("serve", "--port", "99999", "--threads", "many")
    assert result.exit_code == 2
    assert sorted(result.stderr.splitlines()) == [
        "error: --port: port must be a whole number from 0 to 65535, not 99999",
        'error: --threads: threads must be a whole number of at least 0, not "many"',
    ]


@pytest.mark.contract("startup/no_flag_any_slots_rejected")
@pytest.mark.parametrize("slots", ["1", "null", "4"])
def test_slots_without_the_flag_end_with_2(cli: Cli, tmp_path: Path, slots: str) -> None:
    path = tmp_path / "server.json"
    path.write_text(
        '{"models": [{"id": "sim", "family": "simulated", "path": "", "task": "tts",\n'
        f'"slots": {slots}}}]}}'
    )
    result = cli("serve", "--config", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith(f'error: {path}:2: models[0].slots of model "sim" needs')


@pytest.mark.contract("startup/slots_schema_rejected")
@pytest.mark.parametrize("slots", ["null", "true", '"2"', "1.5", "0", "17"])
def test_slots_that_are_no_count_end_with_2(cli: Cli, tmp_path: Path, slots: str) -> None:
    path = tmp_path / "server.json"
    path.write_text(
        '{"models": [{"id": "sim", "family": "simulated", "path": "", "task": "tts",\n'
        f'"slots": {slots}}}]}}'
    )
    result = cli("serve", "--config", str(path), "--parallel-jobs")
    assert result.exit_code == 2
    assert "models[0].slots must be a whole number from 1 to 16" in result.stderr


@pytest.mark.contract("startup/notice_printed")
@pytest.mark.parametrize("parallel", [False, True])
def test_the_notice_says_policy_and_what_each_family_advertises(
    caplog: pytest.LogCaptureFixture, parallel: bool
) -> None:
    caplog.set_level(logging.INFO, "paraudio")
    log_notice(load(config=None, environ={"PARAUDIO_X": "1"}, flags={"parallel_jobs": parallel}))
    text = caplog.text
    assert ("parallel policy" if parallel else "serial policy") in text
    assert families()
    for name, family in families().items():
        assert f"{name}: {family.advertises}" in text
    assert "piper-joe (tts), pocketsphinx-en (asr), silero-vad (vad)" in text
    assert "PARAUDIO_X is not a setting" in text


def test_a_path_that_is_not_there_is_logged_as_a_warning(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, "paraudio")
    config = tmp_path / "server.toml"
    config.write_text('[[models]]\nid = "joe"\nfamily = "piper_tts"\npath = "no"\ntask = "tts"\n')
    log_notice(load(config=config, environ={}, flags={}))
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(told) == 1
    assert told[0].startswith("models[0].path: ")
    assert told[0].endswith("of joe cannot be read")


def test_a_newcomer_is_told_the_url_and_what_to_try(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "paraudio")
    defaults = load(config=None, environ={}, flags={}).settings
    log_ready("http://127.0.0.1:8080", defaults)
    assert "listening on http://127.0.0.1:8080" in caplog.text
    assert '"model":"piper-joe"' in caplog.text
    caplog.clear()
    log_ready("http://127.0.0.1:8080", Settings())
    assert "try:" not in caplog.text
