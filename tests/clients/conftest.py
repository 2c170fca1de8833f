"""A server for real clients, and a look at it from outside."""

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.cases.conftest import SENTENCE, SPEECH, listening
from tests.server.harness import PATIENCE_S, Served

from paraudio.store import Store

LONG = "And then they went on. " * 400
"""Takes longer to speak than anybody here waits."""
DEPRECATED = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
"""The package has given up translations; those who still ask get an answer."""


@dataclass(frozen=True)
class Seen:
    """What a server shows of itself, for tests that block."""

    served: Served
    http: httpx.Client

    @property
    def base_url(self) -> str:
        """What clients of OpenAI's interface want."""
        return f"{self.served.url}/v1"

    def model(self, name: str) -> Any:
        return self.http.get(f"/v1/models/{name}").raise_for_status().json()

    def until(self, condition: Callable[[Any], object], name: str) -> None:
        """Look at a model until something holds of it."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition(seen := self.model(name)):
            assert time.monotonic() < deadline, f"it never came to that: {seen}"
            time.sleep(0.02)

    def until_busy(self, name: str) -> None:
        self.until(lambda seen: seen["active_slots"] == 1, name)

    def until_idle(self, name: str) -> None:
        """Wait until a model has neither work nor a line."""
        self.until(lambda seen: not seen["active_slots"] + seen["queued_requests"], name)

    def mark(self) -> int:
        """Wait until the log has all that has happened, and return how long it is then."""
        name = secrets.token_hex(8)
        self.http.get("/v1/models", headers={"X-Request-Id": name}).raise_for_status()
        self.until_said(name)
        return len(self.served.said)

    def requests(self, since: int = 0) -> list[str]:
        """The lines of the log about requests to the routes of audio and tasks."""
        lines = [line for line in self.served.said[since:] if "request id=" in line]
        return [line for line in lines if "/v1/audio/" in line or "/v1/tasks/" in line]

    def until_said(self, word: str, since: int = 0) -> str:
        return self.served.hear(word, since=since)


@pytest.fixture(scope="module")
def served(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Every model has one slot, or (``voice``, ``sim``, ``writer``) four."""
    with listening(tmp_path_factory.mktemp("clients"), model_store, 4, "thread") as served:
        yield served


@pytest.fixture(scope="module")
def seen(served: Served) -> Iterator[Seen]:
    with httpx.Client(base_url=served.url, timeout=60) as client:
        yield Seen(served, client)


@pytest.fixture(scope="module")
def speech(seen: Seen) -> bytes:
    """The sentence, spoken, as a wav file."""
    asked = {"model": "voice", "input": SENTENCE, "seed": 1, "response_format": "wav"}
    return seen.http.post(SPEECH, json=asked).raise_for_status().content
