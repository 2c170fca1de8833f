import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tests.cli.programs import PROGRAM, ended, environment

from paraudio import __version__
from paraudio.cli import _main, main
from paraudio.cli._main import COMMANDS
from paraudio.cli._signals import Interrupted
from paraudio.errors import ConfigError, LoadError, ModelNotFoundError

Cli = Callable[..., Result]


def test_version_is_one_line(cli: Cli) -> None:
    result = cli("--version")
    assert (result.exit_code, result.stdout) == (0, f"paraudio {__version__}\n")


def used_by_children() -> float:
    """Seconds of processor time, which a busy machine does not stretch as it does the clock."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.process
def test_version_is_fast(tmp_path: Path) -> None:
    times = []
    for _ in range(3):
        begun = used_by_children()
        assert ended(tmp_path, "--version").returncode == 0
        times.append(used_by_children() - begun)
    assert min(times) < 0.3


def test_version_and_help_import_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from paraudio.cli import _main; assert _main.run(sys.argv[1:]) == 0;"
        "print({'trio', 'numpy', 'pydantic', 'rich', 'quart'} & set(sys.modules))"
    )
    for flag in ("--version", "--help"):
        found = subprocess.run(
            [PROGRAM[0], "-c", code, flag],
            capture_output=True,
            check=True,
            env=environment(tmp_path),
        )
        assert found.stdout.endswith(b"set()\n")


def test_without_words_it_shows_its_help(cli: Cli) -> None:
    result = cli()
    assert result.exit_code == 0
    for command, line in COMMANDS.items():
        assert command in result.stdout
        assert line in result.stdout
    assert "130  interrupted" in result.stdout


def test_config_alone_shows_its_help(cli: Cli) -> None:
    result = cli("config")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: paraudio config ")
    assert "check  Check a file and the environment, and show what holds." in result.stdout


class InterruptedImport:
    """Finds a module like an import that a Ctrl-C ends."""

    def find_spec(self, name: str, *_: object) -> None:
        """End the import of the command line."""
        if name == "paraudio.cli._main":
            raise KeyboardInterrupt


def test_a_ctrl_c_during_the_imports_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "paraudio.cli._main")
    monkeypatch.setattr(sys, "meta_path", [InterruptedImport(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended_with:
        main([])
    assert ended_with.value.code == 130
    assert capsys.readouterr().err == "error: interrupted\n"


@pytest.mark.parametrize("command", [*COMMANDS, "config check"])
def test_each_command_explains_itself_and_its_exit_codes(cli: Cli, command: str) -> None:
    result = cli(*command.split(), "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: paraudio {command} ")
    assert "Exit codes:" in result.stdout
    first = COMMANDS.get(command)
    assert first is None or first in " ".join(result.stdout.split())


@pytest.mark.parametrize("args", [["-h"], ["serve", "-h"]])
def test_short_help_flag_works(cli: Cli, args: list[str]) -> None:
    assert cli(*args).exit_code == 0


def test_an_unknown_command_is_answered_with_the_nearest(cli: Cli) -> None:
    result = cli("serv")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "there is no command 'serv'; did you mean 'serve'?" in result.stderr


def test_an_unknown_option_is_answered_with_the_nearest(cli: Cli) -> None:
    result = cli("serve", "--prt", "1")
    assert result.exit_code == 2
    assert "--port" in result.stderr
    assert "See 'paraudio serve --help'." in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("wrong"), 2),
        (ModelNotFoundError("none"), 2),
        (LoadError("broken"), 1),
        (KeyboardInterrupt(), 130),
        (Interrupted(2), 130),
        (Interrupted(15), 143),
    ],
)
def test_each_failure_has_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(_main.cli, "callback", fail)
    assert _main.run(["models"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.lstrip().startswith("error: ")
    assert len(captured.err.split("\n")) <= 3


def test_an_unexpected_failure_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(_main.cli, "callback", fail)
    with pytest.raises(ZeroDivisionError):
        _main.run(["models"])


@pytest.mark.process
def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path: Path) -> None:
    words = " ".join(f"'{word}'" for word in PROGRAM)
    found = subprocess.run(
        ["/bin/bash", "-c", f"{words} config check --json | true"],
        capture_output=True,
        check=True,
        env=environment(tmp_path),
    )
    assert b"Traceback" not in found.stderr
    assert b"Exception" not in found.stderr


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has such a file")
@pytest.mark.parametrize("words", [["models", "--json"], ["--help"], ["config", "check"]])
def test_an_output_that_takes_nothing_is_one_line_and_code_1(
    tmp_path: Path, words: list[str]
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*PROGRAM, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment(tmp_path),
        )
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written: No space left on device\n"
