import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import Result

from paraudio.journal import Journal, Kind

Cli = Callable[..., Result]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal in which a request is granted a slot, and gives it back."""
    path = tmp_path / "run.jsonl"
    trio.run(write, path)
    return path


async def write(path: Path) -> None:
    async with Journal(path) as record:
        record(Kind.REGISTERED, "m", slots=1, path="", config=1)
        record(Kind.QUEUED, "m", ticket=1, manager=False, bound_ms=None, request="a")
        record(Kind.GRANTED, "m", ticket=1, slots=[0])
        record(Kind.RELEASED, "m", ticket=1, slots=[0])
        for phase in ("running", "draining", "stopping", "stopped"):
            record(Kind.PHASE, phase=phase)


def test_a_journal_that_keeps_the_rules(cli: Cli, journal: Path) -> None:
    result = cli("verify", str(journal))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{journal}: no violation in 8 events\n"


def test_a_violation_is_shown_with_its_lines(cli: Cli, journal: Path) -> None:
    lines = journal.read_text().splitlines(keepends=True)
    assert '"granted"' in lines[3]
    lines[2], lines[3] = (
        lines[3].replace('"seq":3', '"seq":2'),
        lines[2].replace('"seq":2', '"seq":3'),
    )
    journal.write_text("".join(lines))
    result = cli("verify", str(journal))
    assert result.exit_code == 1
    shown = result.stdout.splitlines()
    assert shown[0].startswith(f"{journal}:3: ")
    assert f"  3: {lines[2].rstrip()}" in shown
    assert " in 8 events" in result.stderr

    result = cli("verify", str(journal), "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert found["violations"][0]["lines"][-1] == 3
    assert found["violations"][0]["events"][-1] == 2
    assert found["violations"][0]["rule"] in shown[0]


def test_json_of_a_good_journal(cli: Cli, journal: Path) -> None:
    found = json.loads(cli("verify", str(journal), "--json").stdout)
    assert (found["ok"], found["events"], found["violations"]) == (True, 8, [])
    assert found["torn"] is None
    assert found["stopped"] is True


def test_a_torn_line_is_told_and_left_out(cli: Cli, journal: Path) -> None:
    journal.write_bytes(journal.read_bytes()[:-1])
    result = cli("verify", str(journal))
    assert "warning: line 9 was torn off and is left out" in result.stderr


@pytest.mark.parametrize("phases", [0, 1, 3])
def test_a_server_that_does_not_say_that_it_stopped_is_warned_of(
    cli: Cli, journal: Path, phases: int
) -> None:
    kept = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(kept[: 5 + phases]))
    result = cli("verify", str(journal))
    assert (result.exit_code, result.stdout) == (0, "")
    warning, _ = result.stderr.splitlines()
    assert warning.startswith("warning: the server did not end by itself, or still runs: ")
    found = json.loads(cli("verify", str(journal), "--json").stdout)
    assert (found["ok"], found["stopped"]) == (True, False)


def test_what_is_no_journal_ends_with_2(cli: Cli, journal: Path, tmp_path: Path) -> None:
    result = cli("verify", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "cannot be read: No such file or directory" in result.stderr
    journal.write_text(journal.read_text().replace('"queued"', '"quued"'))
    result = cli("verify", str(journal))
    assert result.exit_code == 2
    assert result.stderr == f"error: {journal}:3: unknown kind 'quued'\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file has no complete line"),
        (b"RIFF\x00\x80\x00\x00WAVEfmt \n" * 9, "the first line is no JSON object"),
        (b"Dear diary\n", "the first line is no JSON object"),
        (b"[" * 100_000 + b"\n", "the first line is no JSON object"),
        (b"[1]\n", "the first line is no JSON object"),
        (b"{}\n", "the first line must name the format 'paraudio-journal'"),
    ],
)
def test_a_file_of_any_other_kind_ends_with_2(
    cli: Cli, tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    result = cli("verify", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"error: {file} is no journal, as `paraudio serve --journal FILE` writes one: {said}\n"
    )


def test_a_journal_of_another_version_is_called_a_journal(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text('{"format": "paraudio-journal", "version": 9}\n')
    result = cli("verify", str(file))
    assert result.exit_code == 2
    assert result.stderr == f"error: {file}:1: version 9 of the format is not known here\n"


def test_a_folder_ends_with_2(cli: Cli, tmp_path: Path) -> None:
    result = cli("verify", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr == f"error: {tmp_path} cannot be read: Is a directory\n"


def test_two_journals_in_one_file_are_told_as_that(cli: Cli, journal: Path) -> None:
    journal.write_bytes(journal.read_bytes() * 2)
    result = cli("verify", str(journal))
    assert result.exit_code == 2
    assert f"{journal}:10: another journal begins here" in result.stderr


def test_a_pipe_is_read_once_and_its_violations_come_without_their_lines(
    cli: Cli, journal: Path, tmp_path: Path
) -> None:
    text, pipe = journal.read_text().replace('"slots":[0]', '"slots":[3]'), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    result = cli("verify", str(pipe))
    writer.join()
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{pipe}:4: slots: ")
    assert all(line.startswith(f"{pipe}:") for line in result.stdout.splitlines())
