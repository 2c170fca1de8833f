"""A real `paraudio serve` process with simulated models."""

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.cli.programs import PROGRAM, environment

ENDS_WITHIN_S = 60.0


@dataclass
class Serving:
    """The process, where it listens, and what it has said so far."""

    process: subprocess.Popen[str]
    url: str = ""
    said: list[str] = field(default_factory=list)

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, timeout=30).json()

    def post(self, path: str, body: object) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=30)

    def model(self, name: str) -> Any:
        return next(one for one in self.get("/v1/models")["data"] if one["id"] == name)

    def until(self, word: str) -> str:
        """Read what it says up to a line with a word in it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))
            if word in line:
                return self.said[-1]
        raise AssertionError(f"it ended without saying {word!r}: {self.said}")

    def end(self, number: int) -> int:
        """Send a signal, read the rest, and return the exit code."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        self.said += self.process.stderr.read().splitlines()
        return self.process.wait()


def simulated(**changes: object) -> dict[str, object]:
    return {"id": "sim", "family": "simulated", "path": "", "task": "tts", **changes}


@contextmanager
def serving(
    folder: Path, models: Sequence[object], *args: str, **settings: object
) -> Iterator[Serving]:
    """Serve models on a free port; a process that outlives the test's patience is killed."""
    config = folder / "server.json"
    config.write_text(json.dumps({"port": 0, "models": models, **settings}))
    process = subprocess.Popen(
        [*PROGRAM, "serve", "--config", str(config), *args],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=environment(folder),
    )
    patience = threading.Timer(ENDS_WITHIN_S, process.kill)
    patience.start()
    server = Serving(process)
    try:
        line = server.until("listening on ")
        server.url = line.partition("listening on ")[2].split()[0].rstrip('",')
        yield server
    finally:
        patience.cancel()
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
