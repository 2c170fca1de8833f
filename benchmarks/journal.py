"""What the journal costs: the same requests with none, with the ring, and with the ring and a file.

Run with ``python benchmarks/journal.py``. Eight clients at a time ask a simulated model that takes
no time at all, in three ways:

- runtime: through the runtime alone;
- http: through the whole application, without sockets;
- served: over connections that are kept, from this process to ``paraudio serve``, which always has
  the ring and the metrics that read it: with ``--journal FILE`` against without. A second server
  without one shows what the same thing measured twice differs by.

Nothing hides the cost: a model that works for a second has the same one. The journals take turns
within each round, and each ratio is of one round: trust the ratios, and those by processor more
than those by clock, on a machine that others use. Where nobody disturbs is the tenth part of the
turns that cost least. The limit is 0.95.
"""

import contextlib
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import psutil
import trio

from paraudio.config import Settings
from paraudio.engines import Job
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import open_thread_isolation
from paraudio.http import Api, create_app
from paraudio.journal import Journal, no_record
from paraudio.lifecycle import Runtime, RuntimeSettings
from paraudio.spec import ModelSpec

ROUNDS: Final = 60
CLIENTS: Final = 8
REQUESTS: Final = {"runtime": 240, "http": 100}
"""In a turn: the shorter, the more of them nobody disturbs, and the more writes a request."""
SERVED_ROUNDS: Final = 10
SERVED_REQUESTS: Final = 1000
"""In a turn: the system counts a process's time in steps of 10 ms."""
SETTLE_S: Final = 0.3
"""For how long what a turn recorded may still be written."""
Pace = tuple[float, float]
"""Requests a second: of wall clock, and of processor."""
BODY: Final = json.dumps(
    {"model": "voice", "input": "hello", "response_format": "json"}, separators=(",", ":")
).encode()
SCOPE: Final[dict[str, Any]] = {
    "type": "http",
    "asgi": {"spec_version": "2.3", "version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/v1/audio/speech",
    "raw_path": b"/v1/audio/speech",
    "query_string": b"",
    "root_path": "",
    "headers": [
        (b"host", b"bench"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(BODY)).encode()),
    ],
    "client": ("127.0.0.1", 50000),
    "server": ("127.0.0.1", 8080),
    "extensions": {},
}


@dataclass
class Bench:
    """A runtime with one model and one kind of journal.

    Attributes:
        runtime: The runtime.
        app: The application around it.
        journal: Its journal, if it has one.
        paces: By way and round.
    """

    runtime: Runtime
    app: Api
    journal: Journal | None
    paces: dict[str, list[Pace]] = field(default_factory=dict)

    async def ask_runtime(self, number: int) -> None:
        """One request."""
        async with self.runtime.use("voice", request=f"r{number}") as use:
            await use.ready()
            await use.run(Job(task="tts", text="hello"))

    async def ask_http(self, _: int) -> None:
        """One request over the application."""
        bodies = [BODY]
        status = 0

        async def receive() -> Any:
            await trio.lowlevel.checkpoint()
            if not bodies:
                await trio.sleep_forever()
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            await trio.lowlevel.checkpoint()
            status = message.get("status", status)

        await self.app(cast("Any", {**SCOPE, "state": {}}), receive, send)
        if status != 200:
            raise RuntimeError(f"a request was answered {status}")


@asynccontextmanager
async def open_bench(
    file: Path | None = None, *, records: bool = True, metrics: bool = False
) -> AsyncIterator[Bench]:
    """A bench with a journal or none, and with metrics that read it or not."""
    families = {"simulated": SimulatedFamily()}
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(Journal(file)) if records else None
        thread = await stack.enter_async_context(open_thread_isolation())
        nursery = await stack.enter_async_context(trio.open_nursery())
        runtime = Runtime(
            RuntimeSettings(parallel_jobs=True),
            families=families,
            isolations={"thread": thread},
            record=no_record if journal is None else journal,
        )
        runtime.add(ModelSpec(id="voice", family="simulated", path="", task="tts", slots=4))
        await nursery.start(runtime.run)
        followed = journal if journal is not None and metrics else Journal()
        app = create_app(runtime, Settings(), families=families, journal=followed)
        yield Bench(runtime, app, journal)
        runtime.stop()


async def pace(
    ask: Callable[[int], Awaitable[None]], requests: int, journal: Journal | None
) -> Pace:
    """The pace until all of it is written."""
    numbers = iter(range(requests))

    async def client() -> None:
        for number in numbers:
            await ask(number)

    wall, computed = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as nursery:
        for _ in range(CLIENTS):
            nursery.start_soon(client)
    if journal is not None:
        journal.flush()
    return (
        requests / (time.perf_counter() - wall),
        requests / (time.process_time() - computed),
    )


async def play_round(benches: dict[str, Bench], number: int) -> None:
    """Let each bench have a turn; who is first changes from round to round."""
    names = list(benches)
    for way, requests in REQUESTS.items():
        for name in names[number % len(names) :] + names[: number % len(names)]:
            bench = benches[name]
            ask = bench.ask_runtime if way == "runtime" else bench.ask_http
            bench.paces.setdefault(way, []).append(await pace(ask, requests, bench.journal))


class Served:
    """A ``paraudio serve`` process.

    Args:
        folder: For its configuration, its log and its files.
        journal: Whether it writes a journal.
    """

    def __init__(self, folder: Path, *, journal: bool) -> None:
        folder.mkdir()
        self._log = folder / "log"
        config = folder / "config.json"
        model = {"id": "voice", "family": "simulated", "path": "", "task": "tts", "slots": 4}
        config.write_text(json.dumps({"port": 0, "parallel_jobs": True, "models": [model]}))
        command = [sys.executable, "-m", "paraudio", "serve", "--config", str(config)]
        if journal:
            command += ["--journal", str(folder / "journal.jsonl")]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stderr=log)
        self.paces: list[Pace] = []

    async def port(self) -> int:
        """Where it listens, as soon as it does."""
        while "listening on " not in (said := self._log.read_text()):
            if self._process.poll() is not None:
                raise RuntimeError(f"the server did not start: {said}")
            await trio.sleep(0.05)
        return int(said.partition("listening on ")[2].split()[0].rpartition(":")[2])

    def computed(self) -> float:
        """Seconds of a processor that it and its children have taken."""
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system + times.children_user + times.children_system

    async def play(self) -> None:
        """One turn."""
        port, numbers = await self.port(), iter(range(SERVED_REQUESTS))
        wall, computed = time.perf_counter(), self.computed()
        async with trio.open_nursery() as nursery:
            for _ in range(CLIENTS):
                nursery.start_soon(ask_served, port, numbers)
        passed = time.perf_counter() - wall
        await trio.sleep(SETTLE_S)
        self.paces.append(
            (SERVED_REQUESTS / passed, SERVED_REQUESTS / (self.computed() - computed))
        )

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


async def ask_served(port: int, numbers: Iterator[int]) -> None:
    """Ask as long as there are numbers, over one connection."""
    head = (
        "POST /v1/audio/speech HTTP/1.1\r\nHost: bench\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    request = head.encode() + BODY
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for _ in numbers:
            await stream.send_all(request)
            answer = b""
            while not whole(answer):
                if not (piece := await stream.receive_some()):
                    raise RuntimeError("the server has closed the connection")
                answer += piece


def whole(answer: bytes) -> bool:
    """Whether that is a whole answer, which has to be 200."""
    head, ends, body = answer.partition(b"\r\n\r\n")
    if not ends:
        return False
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"a request was answered {answer!r}")
    length = head.lower().partition(b"content-length:")[2].split()[0]
    return len(body) >= int(length)


def report(way: str, paces: Mapping[str, Sequence[Pace]]) -> None:
    """Print the paces of one way, and what each journal leaves of the pace without one."""
    bare = paces["none"]
    print(f"\n{way}: requests a second, and the pace over that without a journal")
    for name, mine in paces.items():
        line = f"  {name:22s}{statistics.median([each[0] for each in mine]):6.0f}"
        for index, clock in ((0, "clock"), (1, "processor")):
            ratios = [each[index] / other[index] for each, other in zip(mine, bare, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            line += f"  by {clock} {middle:.3f} ({low:.3f} to {high:.3f})"
        costs = sorted(1e6 / each[1] for each in mine)
        print(f"{line}  {costs[len(costs) // 10]:.0f} us of a processor where nobody disturbs")


async def measure_inside(folder: Path) -> None:
    """Measure and print the ways within this process."""
    async with (
        open_bench(records=False) as none,
        open_bench() as ring,
        open_bench(folder / "one.jsonl") as file,
        open_bench(folder / "two.jsonl", metrics=True) as metrics,
    ):
        benches = {
            "none": none,
            "ring": ring,
            "ring + file": file,
            "ring + file + metrics": metrics,
        }
        await play_round(benches, 0)  # warm up
        for bench in benches.values():
            bench.paces.clear()
        for number in range(ROUNDS):
            await play_round(benches, number)
        for way in REQUESTS:
            report(way, {name: bench.paces[way] for name, bench in benches.items()})
        lost = sum(bench.journal.lost for bench in benches.values() if bench.journal is not None)
        print(f"\nbrackets: the middle half of {ROUNDS} rounds; {lost} events were lost")


async def measure_served(folder: Path) -> None:
    """Measure and print the way over the network."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for name in ("none", "none, once more", "file"):
            servers[name] = Served(folder / name, journal=name == "file")
            stack.callback(servers[name].stop)
        names = list(servers)
        for number in range(SERVED_ROUNDS + 1):
            for name in names[number % 3 :] + names[: number % 3]:
                await servers[name].play()
        # The first round is to warm up.
        report("served", {name: server.paces[1:] for name, server in servers.items()})
    print(f"\nbrackets: the middle half of {SERVED_ROUNDS} rounds")


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        await measure_inside(Path(folder))
        await measure_served(Path(folder))


if __name__ == "__main__":
    trio.run(main)
