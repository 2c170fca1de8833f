"""Servers for the field cases: real processes, with real models and rehearsed ones.

They end with the module that uses them, so that tests that count processes count their own.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.server.harness import Served, simulated, started

from paraudio.store import Store

RAISED = re.compile(r"[\w.]+(Error|Exception|Group)\b")
"""The last line of a traceback."""

SPEECH = "/v1/audio/speech"
WORDS = "/v1/audio/transcriptions"
RUN = "/v1/tasks/run"

SENTENCE = "The weather is nice and the birds are singing."


def models(slots: int) -> list[dict[str, object]]:
    """The real models, and rehearsed ones beside them."""
    many: dict[str, object] = {"slots": slots} if slots > 1 else {}
    return [
        {"id": "voice", "family": "piper_tts", "path": "store:piper-joe", "task": "tts", **many},
        {"id": "vad", "family": "silero_vad", "path": "store:silero-vad", "task": "vad", **many},
        {"id": "ears", "family": "pocketsphinx_asr", "path": "", "task": "asr"},
        simulated("sim", run_ms=20, **many) | {"voice_presets": {"amber": {"voice_id": "a"}}},
        simulated("one", run_ms=20, chunks=1000, chunk_ms=10),
        simulated("broken", fail_loads=1000),
        simulated("broken ears", fail_loads=1000) | {"task": "asr"},
        simulated("writer", run_ms=20, **many) | {"task": "asr"},
    ]


@contextmanager
def listening(folder: Path, store: Store, slots: int, isolation: str) -> Iterator[Served]:
    """Serve all models, with the named number of slots."""
    with started(
        folder,
        models(slots),
        environ={"PARAUDIO_HOME": str(store.home)},
        isolation=isolation,
        parallel_jobs=slots > 1,
    ) as served:
        line = served.hear("listening on ")
        served.url = line.partition("listening on ")[2].split()[0]
        # What "broken" raises is logged with its traceback; nothing else may be.
        served.may_fail = True
        yield served
    raised = [line for line in served.said if RAISED.match(line)]
    assert all("simulated failure" in line for line in raised), raised


@pytest.fixture(scope="module")
def parallel(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Four slots, in threads."""
    with listening(tmp_path_factory.mktemp("parallel"), model_store, 4, "thread") as served:
        yield served


@pytest.fixture(scope="module")
def processes(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two slots, in processes of their own."""
    with listening(tmp_path_factory.mktemp("processes"), model_store, 2, "process") as served:
        yield served


@pytest.fixture(scope="module")
def serial(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One slot a model, in threads."""
    with listening(tmp_path_factory.mktemp("serial"), model_store, 1, "thread") as served:
        yield served


@pytest.fixture(scope="module")
def http(parallel: Served) -> Iterator[httpx.Client]:
    """A client of the parallel server."""
    with httpx.Client(base_url=parallel.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def speech(http: httpx.Client) -> bytes:
    """The sentence, spoken, as a wav file."""
    answer = http.post(SPEECH, json={"model": "voice", "input": SENTENCE, "seed": 1})
    assert answer.status_code == 200, answer.text
    return answer.content
