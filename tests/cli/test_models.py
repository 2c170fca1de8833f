import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tests.cli.programs import PROGRAM, environment

from paraudio.cli._output import size
from paraudio.store import CATALOGUE

Cli = Callable[..., Result]


def test_models_are_listed_with_what_is_here(cli: Cli, tmp_path: Path) -> None:
    result = cli("models", PARAUDIO_HOME=str(tmp_path))
    assert result.exit_code == 0
    head, *rows = [line.split() for line in result.stdout.splitlines()]
    assert head == [
        *("NAME", "TASK", "FAMILY", "DOWNLOAD", "DISK", "HERE", "LICENCE", "DESCRIPTION")
    ]
    assert [row[0] for row in rows] == list(CATALOGUE)
    joe = next(row for row in rows if row[0] == "piper-joe")
    assert joe[1:9] == ["tts", "piper_tts", "58.4", "MB", "63.2", "MB", "no", "CC0-1.0"]


def test_models_as_json(cli: Cli, tmp_path: Path) -> None:
    result = cli("models", "--json", PARAUDIO_HOME=str(tmp_path))
    found = {model["name"]: model for model in json.loads(result.stdout)}
    assert found["silero-vad"]["present"] is False
    assert found["silero-vad"]["path"] is None
    assert found["silero-vad"]["licence"] == "MIT"
    assert found["pocketsphinx-en"]["present"] is True
    assert Path(found["pocketsphinx-en"]["path"]).is_dir()


@pytest.mark.process
def test_on_a_terminal_the_table_is_drawn(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    variables = environment(tmp_path, TERM="xterm", COLUMNS="200")
    process = subprocess.Popen([*PROGRAM, "models"], stdout=slave, env=variables)
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 4096):
            text += piece
    except OSError:
        pass  # Linux says so when the other end of a terminal is gone
    assert process.wait() == 0
    os.close(master)
    assert b"\x1b[1m" in text
    assert "─".encode() in text
    assert b"piper-joe" in text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (63_206_088, "63.2 MB"),
        (2 * 10**9, "2.0 GB"),
        (5 * 10**12, "5000.0 GB"),
    ],
)
def test_sizes_are_in_decimal_units(count: int, text: str) -> None:
    assert size(count) == text
