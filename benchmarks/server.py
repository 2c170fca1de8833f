"""What the whole server costs, as a user sees it, beside the same model called directly.

Run with ``python -m benchmarks.server``; models that the store lacks are fetched first. It starts
``paraudio serve`` with no configuration, on a free port, and prints

- how long it takes until it listens, and the memory it then has;
- the first and the warm latency of speech, transcription and voice activity over HTTP;
- the warm latency over that of the same family called directly in this process, in one run;
- the most memory that the server and its workers had together.
"""

import base64
import contextlib
import json
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import httpx
import psutil
import trio

from paraudio.audio import decode
from paraudio.engines import Job, Load, Stop, check_options
from paraudio.engines.catalog import families
from paraudio.spec import Task
from paraudio.store import Store

SENTENCE: Final = "The weather is nice and the birds are singing."
RUNS: Final = 15
MEGABYTE: Final = 2**20


class Memory:
    """The resident memory of a process and its children, watched by a thread."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._done = threading.Event()
        self.peak = 0

    def now(self) -> int:
        """Bytes that are resident now, the children's included."""
        total = 0
        for process in (self._process, *self._process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            with contextlib.suppress(psutil.NoSuchProcess):
                self.peak = max(self.peak, self.now())

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the peak of what happens in the block."""
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(port: int) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The server on that port, and the seconds that it took to listen."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "paraudio", "serve", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/health/live")
                break
            time.sleep(0.01)
        yield process, time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def direct_ms(task: Task, family: str, model: str, job: Job) -> float:
    """Milliseconds of the family itself, called in this process: the limit."""
    made = families()[family]
    load = Load(
        path=str(Store().path(model)),
        task=task,
        mode="offline",
        config=None,
        weight=None,
        options=check_options({}, made.load_options, param="load_options"),
        session_options=check_options({}, made.session_options, param="session_options"),
        model_id=model,
    )
    loaded = made.load(load, Stop())
    session = loaded.session()
    assert session is not None
    try:
        session.run(session.prepare(job), Stop())
        return statistics.median(
            timed(lambda: session.run(session.prepare(job), Stop())) for _ in range(RUNS)
        )
    finally:
        session.close()
        loaded.close()


def job_for(task: Task, family: str, wav: bytes) -> Job:
    """What the HTTP request asks for, as a job."""
    options = check_options({}, families()[family].request_options, param="options")
    if task == "tts":
        return Job(task=task, text=SENTENCE, seed=1, options=options)
    return Job(task=task, audio=decode(wav), options=options)


def main() -> None:
    """Measure and print."""
    store = Store()
    for entry in store.entries():
        if store.path(entry.name) is None:
            trio.run(store.fetch, entry.name)
    port = free_port()
    speech = {"model": "piper-joe", "input": SENTENCE, "seed": 1}
    with serving(port) as (process, listening):
        memory = Memory(process.pid)
        idle = memory.now()
        with (
            memory.watched(),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client,
        ):
            wav = b""

            def speak() -> None:
                nonlocal wav
                wav = client.post("/v1/audio/speech", json=speech).raise_for_status().content

            def transcribe() -> None:
                client.post(
                    "/v1/audio/transcriptions",
                    data={"model": "pocketsphinx-en"},
                    files={"file": ("a.wav", wav)},
                ).raise_for_status()

            def detect() -> None:
                body = {"model": "silero-vad", "audio_base64": base64.b64encode(wav).decode()}
                client.post("/v1/tasks/run", content=json.dumps(body)).raise_for_status()

            rows: list[tuple[Task, str, str, Callable[[], None]]] = [
                ("tts", "piper_tts", "piper-joe", speak),
                ("asr", "pocketsphinx_asr", "pocketsphinx-en", transcribe),
                ("vad", "silero_vad", "silero-vad", detect),
            ]
            print(f"listening after {listening:.2f} s with {idle / MEGABYTE:.0f} MiB resident")
            print("              first ms  warm ms  direct ms  warm/direct")
            for task, family, model, ask in rows:
                first = timed(ask)
                warm = statistics.median(timed(ask) for _ in range(RUNS))
                direct = direct_ms(task, family, model, job_for(task, family, wav))
                print(
                    f"{model:14}{first:8.0f}{warm:9.1f}{direct:11.1f}{warm / direct:13.2f}",
                    flush=True,
                )
        print(f"most memory of server and workers: {memory.peak / MEGABYTE:.0f} MiB")


if __name__ == "__main__":
    main()
