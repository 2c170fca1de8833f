"""What the journal costs: the same requests with none, with the ring, and with the ring and a file.

Run with ``python benchmarks/journal.py``. Eight clients at a time ask a simulated model that takes
no time at all, through the runtime, and through the whole application without sockets; so nothing
hides the cost. The three journals take turns within each round, and each ratio is of one round:
trust the ratios. The limit is 0.95.
"""

import gc
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import trio

from paraudio.config import Settings
from paraudio.engines import Job
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import open_thread_isolation
from paraudio.http import Api, create_app
from paraudio.journal import Journal, no_record
from paraudio.lifecycle import Runtime, RuntimeSettings
from paraudio.spec import ModelSpec

ROUNDS: Final = 30
CLIENTS: Final = 8
REQUESTS: Final = {"runtime": 400, "http": 150}
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
        paces: Requests per second of wall clock, and of processor, by way and round.
    """

    runtime: Runtime
    app: Api
    journal: Journal | None
    paces: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

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
async def open_bench(file: Path | None, *, records: bool) -> AsyncIterator[Bench]:
    """A bench with a journal or none."""
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
        app = create_app(runtime, Settings(), families=families, journal=journal or Journal())
        yield Bench(runtime, app, journal)
        runtime.stop()


async def pace(
    ask: Callable[[int], Awaitable[None]], requests: int, journal: Journal | None
) -> tuple[float, float]:
    """Requests per second: of wall clock, and of processor; until all of it is written."""
    numbers = iter(range(requests))

    async def client() -> None:
        for number in numbers:
            await ask(number)

    gc.collect()
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


def report(way: str, benches: dict[str, Bench]) -> None:
    """Print the paces of one way, and what each journal leaves of the pace without one."""
    bare = benches["none"].paces[way]
    print(f"\n{way}: requests a second, and the pace over that without a journal")
    for name, bench in benches.items():
        paces = bench.paces[way]
        line = f"  {name:12s}{statistics.median([each[0] for each in paces]):6.0f}"
        for index, clock in ((0, "clock"), (1, "processor")):
            ratios = [mine[index] / other[index] for mine, other in zip(paces, bare, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            line += f"  by {clock} {middle:.3f} ({low:.3f} to {high:.3f})"
        best = 1e6 / max(each[1] for each in paces)
        print(f"{line}  {best:.0f} us of a processor at best")


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_bench(None, records=False) as none,
            open_bench(None, records=True) as ring,
            open_bench(Path(folder, "journal.jsonl"), records=True) as file,
        ):
            benches = {"none": none, "ring": ring, "ring + file": file}
            await play_round(benches, 0)  # warm up
            for bench in benches.values():
                bench.paces.clear()
            for number in range(ROUNDS):
                await play_round(benches, number)
            for way in REQUESTS:
                report(way, benches)
            lost = 0 if file.journal is None else file.journal.lost
            print(f"\nbrackets: the middle half of {ROUNDS} rounds; {lost} events were lost")


if __name__ == "__main__":
    trio.run(main)
