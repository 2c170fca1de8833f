"""Signals that come while the program still imports what it is made of."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.cli.programs import environment

pytestmark = pytest.mark.process

HIT = textwrap.dedent(
    """
    import os, signal, sys

    # Whoever runs these tests behind something may have had it ignored, which is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    class Hit:
        '''Signals this process as a module is about to be imported.'''
        def find_spec(self, name, *_):
            if name == sys.argv[1]:
                sys.meta_path.remove(self)
                os.kill(os.getpid(), int(sys.argv[2]))

    sys.meta_path.insert(0, Hit())
    from paraudio.cli import main
    main(sys.argv[3:])
    """
)
EARLIEST = "paraudio.cli._early"
"""The first module of ours after the entry itself."""


def hit(folder: Path, module: str, number: int, *words: str) -> tuple[int, list[str]]:
    """Run a command that gets a signal at an import; returns its code and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", HIT, module, str(int(number)), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env=environment(folder),
    )
    assert done.stdout == ""
    # click ends the line that a terminal shows ^C in.
    return done.returncode, done.stderr.strip().splitlines()


@pytest.mark.parametrize("module", ["paraudio.cli._main", "click", "paraudio.config", "trio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_server_imports_ends_it_with_0_and_a_line(
    tmp_path: Path, module: str, number: signal.Signals
) -> None:
    code, said = hit(tmp_path, module, number, "serve")
    assert (code, said) == (0, [f"{number.name}: ended before it began to serve"])


def test_a_ctrl_c_at_the_first_import_of_a_server_is_as_quiet(tmp_path: Path) -> None:
    code, said = hit(tmp_path, EARLIEST, signal.SIGINT, "serve")
    assert (code, said) == (0, ["SIGINT: ended before it began to serve"])


@pytest.mark.parametrize("module", [EARLIEST, "paraudio.cli._main", "paraudio.cli._models"])
def test_a_ctrl_c_while_another_command_imports_ends_it_with_130_and_a_line(
    tmp_path: Path, module: str
) -> None:
    assert hit(tmp_path, module, signal.SIGINT, "models") == (130, ["error: interrupted"])


@pytest.mark.parametrize("module", [EARLIEST, "paraudio.cli._main", "paraudio.cli._models"])
def test_sigterm_while_another_command_imports_ends_it_by_that_signal(
    tmp_path: Path, module: str
) -> None:
    assert hit(tmp_path, module, signal.SIGTERM, "models") == (-signal.SIGTERM, [])


def test_the_entry_imports_nothing_that_the_interpreter_has_not(tmp_path: Path) -> None:
    """Whatever it did import would lengthen the time in which a Ctrl-C is a traceback."""
    script = (
        "import sys; before = set(sys.modules); import paraudio.cli; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment(tmp_path, PYTHONPATH=str(Path(__file__).parents[2] / "src")),
    )
    assert done.stdout == "['paraudio', 'paraudio.cli']\n"


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_server_without_standard_files_serves_and_ends(tmp_path: Path, closed: str) -> None:
    """Nothing of ours gets one of their numbers, where others would write into it."""
    place = tmp_path / "socket"
    command = f'exec "$0" -m paraudio serve --bind unix:{place} {closed}'
    server = subprocess.Popen(
        ["/bin/sh", "-c", command, sys.executable],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        answers(place)
        for number in range(3):
            assert "socket" not in os.readlink(f"/proc/{server.pid}/fd/{number}")  # noqa: PTH115
        server.terminate()
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("words", "closed", "code", "said"),
    [
        ("--version", "1>&-", 0, ""),
        ("run -m silero-vad --audio -", "0<&-", 2, "error: --audio cannot be decoded: "),
    ],
)
def test_a_command_without_a_standard_file_has_an_empty_one(
    tmp_path: Path, words: str, closed: str, code: int, said: str
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -X dev -m paraudio {words} {closed}', sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env=environment(tmp_path),
    )
    assert (done.returncode, done.stderr[: len(said) or None]) == (code, said)


def answers(place: Path) -> None:
    """Wait until a server answers there."""
    deadline = time.monotonic() + 60
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            try:
                client.connect(str(place))
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < deadline
                time.sleep(0.05)
                continue
            client.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
            return
