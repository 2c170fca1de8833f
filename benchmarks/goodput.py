"""What clients that leave cost those that stay, and how soon what they held is free.

Run with ``python benchmarks/goodput.py``; with ``--models`` it also uses a model of every other
family: piper-joe, PocketSphinx and silero-vad, fetched first if the store lacks them. Each part
serves models with ``paraudio serve`` and prints

- latency: from a client's FIN or RST to its ticket or its slot being free, beside 1,000 waiters, as
  the server's journal has it (on the wall clock, so to the millisecond);
- goodput: whole answers a second for clients that stay, alone, and when each of their requests
  comes with one whose client leaves after 100 ms;
- shutdown: seconds from SIGTERM to the exit, for each kind of work in progress.
"""

import argparse
import base64
import contextlib
import datetime as dt
import json
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import trio

from paraudio.audio import encode
from paraudio.engines import Audio, Job, Load, Stop
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.journal import Kind, Trace, check, read
from paraudio.store import Store, default_home

WAITERS: Final = 1000
LEAVERS: Final = 200
LEAVE_AFTER_S: Final = 0.1
SECONDS: Final = 8.0
RESET: Final = struct.pack("ii", 1, 0)
VAD_S: Final = 60
"""Seconds of sound that a detector reads: enough for its run to outlast those who leave."""

SENTENCE: Final = "The weather is nice and the birds are singing."

Body = Mapping[str, object]


class Server:
    """A ``paraudio serve`` process; its log is read and dropped."""

    def __init__(self, process: subprocess.Popen[str], journal: Path) -> None:
        self.process = process
        self.port = 0
        self._journal = journal
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._listening.wait()
        if not self.port:
            raise RuntimeError("the server did not start")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "listening on " in line:
                self.port = int(line.partition("listening on ")[2].split()[0].rpartition(":")[2])
                self._listening.set()
        self._listening.set()

    def stop(self) -> tuple[int, float]:
        """End it with SIGTERM; returns its exit code and how many seconds that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        seconds = time.monotonic() - began
        self._reader.join()
        return code, seconds

    def trace(self) -> Trace:
        """Its journal, held to the rules."""
        trace = read(self._journal)
        violations = check(trace.events)
        assert not violations, violations[:3]
        return trace

    async def send(self, body: Body, name: str = "") -> trio.SocketStream:
        """Connect and send a request, whose answer nobody waits for yet."""
        data = json.dumps(body).encode()
        head = "POST /v1/tasks/run HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        named = f"X-Request-Id: {name}\r\n" if name else ""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        await stream.send_all(f"{head}{named}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return stream

    async def model(self, name: str) -> Any:
        """A model's picture."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            head = f"GET /v1/models/{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            await stream.send_all(head.encode())
            data = b"".join([bytes(piece) async for piece in stream])
        return json.loads(data.partition(b"\r\n\r\n")[2])

    async def until(self, name: str, condition: Callable[[Any], bool]) -> None:
        """Wait until something holds of a model."""
        while not condition(await self.model(name)):  # noqa: ASYNC110 - another process, no event
            await trio.sleep(0.02)


@contextlib.contextmanager
def serving(*models: Body, **settings: object) -> Iterator[Server]:
    """Serve models on a free port."""
    with tempfile.TemporaryDirectory() as folder:
        config, journal = Path(folder, "server.json"), Path(folder, "journal.jsonl")
        config.write_text(json.dumps({"port": 0, "models": models, **settings}))
        command = [sys.executable, "-m", "paraudio", "serve", "--config", str(config)]
        process = subprocess.Popen(
            [*command, "--journal", str(journal), "--parallel-jobs"],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield Server(process, journal)
        finally:
            process.kill()
            process.wait()


def simulated(**more: object) -> Body:
    """A simulated model object."""
    return {"id": "sim", "family": "simulated", "path": "", "task": "tts", **more}


def job(model: str, text: str = "hello", **options: object) -> Body:
    """The body of one job."""
    return {"model": model, "request": {"text": text, "options": options}}


def real(name: str, family: str, path: str, task: str) -> Body:
    """A model object of a real family, with two slots."""
    return {"id": name, "family": family, "path": path, "task": task, "slots": 2}


def hear(model: str, audio: Audio) -> Body:
    """The body of one job over a sound, packed, since its transport is not what is measured."""
    sound = base64.b64encode(encode(audio, "flac")).decode()
    return {"model": model, "request": {"audio_base64": sound}}


async def whole(stream: trio.SocketStream) -> bool:
    """Wait for an answer; whether it was whole and good."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := await stream.receive_some()):
            return False
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    left = int(fields[b"content-length"]) - len(body)
    while left > 0:
        if not (piece := await stream.receive_some()):
            return False
        left -= len(piece)
    return head.startswith(b"HTTP/1.1 200")


def leave(stream: trio.SocketStream, *, reset: bool) -> float:
    """Close a connection; returns when, in seconds of the wall clock."""
    if reset:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    at = time.time()
    stream.socket.close()
    return at


# Latency.


async def latency(*, reset: bool) -> None:
    """Let waiters leave, one each 5 ms, then whoever runs."""
    left: dict[str, float] = {}
    with serving(simulated(slots=4)) as server:
        streams: dict[str, trio.SocketStream] = {}
        for index in range(WAITERS + 4):
            streams[f"r{index}"] = await server.send(job("sim", run_ms=600_000), f"r{index}")
        await server.until("sim", lambda seen: seen["queued_requests"] >= WAITERS)
        waiting = list(streams)[4:]
        for name in random.Random(1).sample(waiting, LEAVERS):
            left[name] = leave(streams.pop(name), reset=reset)
            await trio.sleep(0.005)
        for _ in range(LEAVERS // 2):
            await trio.sleep(0.02)
            name = next(iter(streams))
            left[name] = leave(streams.pop(name), reset=reset)
        await trio.sleep(1)
        for stream in streams.values():
            leave(stream, reset=True)
        await trio.to_thread.run_sync(server.stop)
        trace = server.trace()
    for kind, what in ((Kind.LEFT, "ticket gone"), (Kind.RELEASED, "slot free")):
        found = sorted(_free_after(trace, kind, left))
        cuts = statistics.quantiles(found, n=100)
        how = "RST" if reset else "FIN"
        print(
            f"  {how} to {what:12} p50 {cuts[49] * 1000:5.0f} ms   p99 {cuts[98] * 1000:5.0f} ms   "
            f"max {found[-1] * 1000:5.0f} ms   of {len(found)}"
        )


def _free_after(trace: Trace, kind: Kind, left: Mapping[str, float]) -> Iterator[float]:
    """Seconds from each departure to the event that ended its ticket."""
    started = dt.datetime.fromisoformat(trace.header.started).timestamp()
    requests: dict[object, str] = {}
    for event in trace.events:
        if event.kind is Kind.QUEUED:
            requests[event.facts["ticket"]] = str(event.facts["request"])
        elif event.kind is kind and (name := requests[event.facts["ticket"]]) in left:
            yield started + event.at - trace.header.at - left[name]


# Goodput.


async def answers(server: Server, body: Body, clients: int, *, leavers: bool) -> float:
    """Whole answers a second; with leavers, each request that stays comes with one that leaves.

    The time counts to the last answer, not to the end: slow work would come in steps otherwise.
    """
    began = last = time.monotonic()
    done = 0

    async def goes() -> None:
        stream = await server.send(body)
        with trio.move_on_after(LEAVE_AFTER_S):
            await whole(stream)
        leave(stream, reset=False)

    async def stays() -> None:
        nonlocal done, last
        while True:
            async with trio.open_nursery() as pair:
                if leavers:
                    pair.start_soon(goes)
                async with await server.send(body) as stream:
                    good = await whole(stream)
            done, last = done + good, time.monotonic()

    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(clients):
                nursery.start_soon(stays)
    return done / (last - began)


async def goodput(what: str, model: Body, body: Body, clients: int, **settings: object) -> None:
    """Compare the goodput of some clients alone, and with half of all requests leaving."""
    with serving(model, **settings) as server:
        name = str(model["id"])
        async with await server.send(body) as stream:
            assert await whole(stream), "the model does not work"
        pairs = []
        for _ in range(3):  # in turn, since the machine may slow down meanwhile
            alone = await answers(server, body, clients, leavers=False)
            await server.until(name, lambda seen: not seen["active_slots"])
            beside = await answers(server, body, clients, leavers=True)
            await server.until(name, lambda seen: not seen["active_slots"])
            pairs.append((beside / alone, alone, beside))
        await trio.to_thread.run_sync(server.stop)
        server.trace()
    ratio, alone, beside = sorted(pairs)[1]
    print(
        f"  {what:46} alone {alone:6.2f}/s   beside {beside:6.2f}/s   ratio {ratio:4.2f}   "
        f"({min(pairs)[0]:4.2f} to {max(pairs)[0]:4.2f})"
    )


def others() -> tuple[tuple[Body, Body], ...]:
    """A model of each family that is not simulated, and work for it of some 0.2 to 0.6 s."""
    joe = real("joe", "piper_tts", "store:piper-joe", "tts")
    load = Load(
        path=str(trio.from_thread.run(Store(default_home()).fetch, "piper-joe")),
        task="tts",
        mode="offline",
        config=None,
        weight=None,
        options={},
        session_options={},
    )
    session = PiperTtsFamily().load(load, Stop()).session()
    assert session is not None
    speech = session.run(session.prepare(Job(task="tts", text=SENTENCE)), Stop()).audio
    assert speech is not None
    noise = np.random.default_rng(0).normal(0, 0.01, VAD_S * 16_000).astype(np.float32)
    return (
        (joe, job("joe", SENTENCE)),
        (real("ears", "pocketsphinx_asr", "", "asr"), hear("ears", speech)),
        (
            real("silero", "silero_vad", "store:silero-vad", "vad"),
            hear("silero", Audio(noise, 16_000)),
        ),
    )


# Shutdown.

SHUTDOWNS: Final[Mapping[str, tuple[Body, Body | None, Body]]] = {
    "idle": (simulated(), None, {}),
    "a run that ends in 1 s": (simulated(), job("sim", run_ms=1000), {}),
    "a run that would not end": (simulated(), job("sim", run_ms=600_000), {}),
    "a load that would not end": (
        simulated(load_options={"load_ms": 600_000}),
        job("sim"),
        {},
    ),
    "a thread that ignores its stop": (
        simulated(session_options={"ignore_cancel": True}),
        job("sim", run_ms=600_000),
        {},
    ),
    "a worker that ignores its stop": (
        simulated(session_options={"ignore_cancel": True}),
        job("sim", run_ms=600_000),
        {"isolation": "process"},
    ),
}


async def shutdown(what: str, model: Body, body: Body | None, settings: Mapping[str, Any]) -> None:
    """Measure one row; the drain is 2 s and the cancel 1 s."""
    bounds = {"drain_timeout_ms": 2000, "cancel_timeout_ms": 1000}
    with serving(model, **bounds, **settings) as server, contextlib.ExitStack() as clients:
        if body is not None:
            stream = await server.send(body)
            clients.callback(stream.socket.close)
            await server.until("sim", lambda seen: seen["active_slots"] > 0)
        code, seconds = await trio.to_thread.run_sync(server.stop)
    print(f"  {what:46} {seconds:5.2f} s of at most 4   code {code}")


async def main(*, models: bool) -> None:
    """Print everything."""
    print(f"latency, {WAITERS} waiters:")
    for reset in (False, True):
        await latency(reset=reset)
    print(f"goodput, half of the clients leave after {LEAVE_AFTER_S * 1000:.0f} ms:")
    families = await trio.to_thread.run_sync(others) if models else ()
    for isolation in ("thread", "process"):
        for clients in (2, 8):
            what = f"simulated, {isolation}, 200 ms, 4 slots, {clients} stay"
            work = job("sim", run_ms=200)
            await goodput(what, simulated(slots=4), work, clients, isolation=isolation)
        for model, work in families:
            for clients in (1, 4):
                what = f"{model['family']}, {isolation}, 2 slots, {clients} stay"
                await goodput(what, model, work, clients, isolation=isolation)
    print("shutdown after SIGTERM:")
    for what, (model, body, settings) in SHUTDOWNS.items():
        await shutdown(what, model, body, settings)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What clients that leave cost.")
    parser.add_argument("--models", action="store_true", help="also measure the real families")
    trio.run(lambda: main(models=parser.parse_args().models))
