"""Somebody who follows the pages as they stand, beside a real server with the real models."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import httpx
import pytest
from tests.docs.examples import Example, examples

ADDRESS: Final = "localhost:8080"
"""Where the pages say that the server is."""
ORIGIN: Final = "localhost:8000"
"""Where the pages say that a web page of the reader's own is."""

STARTS_WITHIN_S: Final = 60.0
ENDS_WITHIN_S: Final = 20.0
RUNS_WITHIN_S: Final = 120.0

_BETWEEN: Final = "-- the next example --"


@dataclass(frozen=True)
class Reader:
    """Somebody in a folder of their own, beside a running server.

    Attributes:
        folder: Where examples are run.
        url: The server's.
        origin: HOST:PORT that pages of other origins may come from.
        environment: The environment of what is run.
    """

    folder: Path
    url: str
    origin: str
    environment: dict[str, str]

    def here(self, text: str) -> str:
        """A text of a page with the addresses of this server."""
        address = self.url.removeprefix("http://")
        text = text.replace(ADDRESS, address).replace(ORIGIN, self.origin)
        return text.replace("http.server 8000", f"http.server {self.origin.rpartition(':')[2]}")

    def at(self, folder: Path) -> "Reader":
        """The same reader in another folder."""
        return replace(self, folder=folder)

    def shell(self, code: str) -> str:
        """Run an example of the shell; what it printed."""
        return self._run(["bash", "-euo", "pipefail", "-c", code])

    def python(self, *codes: str) -> list[str]:
        """Run examples in Python, one after the other in one process; what each printed."""
        code = f"\nprint({_BETWEEN!r})\n".join(codes)
        return self._run([sys.executable, "-c", code]).split(f"{_BETWEEN}\n")

    def follow(self, page: Path) -> list[str]:
        """Run every example of a page in its order; what each printed."""
        said: list[str] = []
        row: list[Example] = [*examples(page), Example("", "", "")]
        python: list[str] = []
        for example in row:
            if example.language == "python":
                python.append(example.code)
                continue
            if python:
                said += self.python(*python)
                python = []
            if example.language == "sh":
                said.append(self.shell(example.code))
            elif example.language:
                said.append("")
        return said

    def _run(self, command: list[str]) -> str:
        *words, code = command
        done = subprocess.run(
            [*words, self.here(code)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUNS_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@contextmanager
def reading(folder: Path, home: Path, flags: Sequence[str] = ()) -> Iterator[Reader]:
    """Start a server as the pages say, and be its reader; it must end well."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("PARAUDIO_")}
    environment = {
        **own,
        "PARAUDIO_HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "no_proxy": "localhost,127.0.0.1",
    }
    reader = Reader(
        folder, f"http://127.0.0.1:{free_port()}", f"localhost:{free_port()}", environment
    )
    log = folder.with_suffix(".log")
    port = reader.url.rpartition(":")[2]
    with log.open("wb") as sink:
        server = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("paraudio")),
                "serve",
                *("--port", port),
                *map(reader.here, flags),
            ],
            cwd=folder,
            env=environment,
            stdout=sink,
            stderr=sink,
        )
    try:
        wait_until_ready(server, reader.url, log)
        yield reader
        server.send_signal(signal.SIGTERM)
        assert server.wait(ENDS_WITHIN_S) == 0, log.read_text()
    finally:
        server.kill()
        server.wait()


def wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until new work is welcome."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(f"{url}/health/ready", timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail(f"the server is not ready; it said:\n{log.read_text()}")


def understood(said: str, heard: str) -> bool:
    """Whether at least half of the words came through; how many do is measured elsewhere.

    A voice speaks a little differently each time. Of the sentences in the pages, the recogniser
    understood at least 80% of the words in each of 40 tries.
    """
    words = said.lower().rstrip(".").split()
    there = set(heard.lower().replace(".", " ").split())
    return sum(word in there for word in words) >= len(words) / 2
