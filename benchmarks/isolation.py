"""What an isolation costs, beside the same call made directly.

Run with ``python -m benchmarks.isolation``. Times are wall-clock: the time within which a tenth of
the calls came back, which is what the work takes when a processor is free, and the median, which on
a busy machine is mostly waiting for one (a call to a process needs two in turn). The direct call in
the first column does the same work (a checksum of the sound).
"""

import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import numpy as np
import trio

from paraudio.engines import Audio, Job, Load, Stop
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import (
    Isolation,
    SessionHandle,
    open_process_isolation,
    open_thread_isolation,
)
from paraudio.engines.isolation._handle import Handle
from paraudio.errors import BackendCrashedError

RUNS: Final = 300
SPAWNS: Final = 7
LOAD: Final = Load("/bench", "asr", "offline", None, None, {}, {}, model_id="bench")


def job(seconds: float) -> Job:
    """A job with so much sound at 16 kHz."""
    return Job(task="asr", audio=Audio(np.zeros(round(seconds * 16_000), np.float32), 16_000))


def tenth_and_median(times: list[float]) -> str:
    """Both in milliseconds."""
    return (
        f"{statistics.quantiles(times, n=10)[0] * 1e3:8.3f} {statistics.median(times) * 1e3:8.3f}"
    )


def direct(work: Job) -> str:
    """Milliseconds of the call itself."""
    session = SimulatedFamily().load(LOAD, Stop()).session()
    assert session is not None
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        session.run(session.prepare(work), Stop())
        times.append(time.perf_counter() - began)
    return tenth_and_median(times)


async def timed(call: Callable[[], Awaitable[object]], count: int) -> list[float]:
    """Seconds of a call, each of several times."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    return times


async def opened(isolation: Isolation, cleanup: AsyncExitStack) -> SessionHandle:
    """A session that the stack closes."""
    model = await isolation.load(SimulatedFamily(), LOAD)
    cleanup.push_async_callback(model.close)
    session = await model.session()
    cleanup.push_async_callback(session.close)
    return session


async def print_runs(isolations: dict[str, Isolation]) -> None:
    """What one run costs, by isolation and length of sound."""
    async with AsyncExitStack() as cleanup:
        sessions = {name: await opened(each, cleanup) for name, each in isolations.items()}
        heads = "".join(f"{name:>20}" for name in ("direct", *sessions))
        print(f"milliseconds of a run: a tenth within, median\n{'':19}{heads}")
        for seconds in (0.0, 1.0, 30.0, 600.0):
            work = job(seconds)
            costs = [await timed(partial(each.run, work), RUNS) for each in sessions.values()]
            told = [direct(work), *map(tenth_and_median, costs)]
            print(f"{seconds:8.0f} s of sound" + "".join(f"{cost:>20}" for cost in told))


async def print_pieces(isolations: dict[str, Isolation]) -> None:
    """What one piece of live input costs: a tenth of a second of sound."""
    piece = job(0.1).audio
    assert piece is not None
    for name, isolation in isolations.items():
        async with AsyncExitStack() as cleanup:
            session = await opened(isolation, cleanup)
            async with session.live(Job(task="asr")) as live:
                times = await timed(partial(live.feed, piece), RUNS)
        print(f"a live piece in a {name}: {tenth_and_median(times)} ms")


async def print_spawns(isolations: dict[str, Isolation]) -> None:
    """What a load with one session costs, and its end."""
    for name, isolation in isolations.items():

        async def cycle(isolation: Isolation = isolation) -> None:
            async with AsyncExitStack() as cleanup:
                await opened(isolation, cleanup)

        median_s = statistics.median(await timed(cycle, SPAWNS))
        print(f"load, session, close in a {name}: {median_s * 1e3:.1f} ms")


async def print_kill(isolation: Isolation) -> None:
    """From the death of a worker in a run to the error, and to the session being back."""
    async with AsyncExitStack() as cleanup:
        session = await opened(isolation, cleanup)
        assert isinstance(session, Handle)
        work = Job(task="asr", audio=job(1.0).audio, options={"run_ms": 60_000})
        told, restored = [], []
        for _ in range(SPAWNS):
            async with trio.open_nursery() as nursery:
                ended: list[float] = []

                async def run(ended: list[float] = ended) -> None:
                    try:
                        await session.run(work)
                    except BackendCrashedError:
                        ended.append(time.perf_counter())

                nursery.start_soon(run)
                await trio.sleep(0.1)
                began = time.perf_counter()
                assert session.pid is not None
                os.kill(session.pid, signal.SIGKILL)
            told.append(ended[0] - began)
            began = time.perf_counter()
            await session.restore()
            restored.append(time.perf_counter() - began)
            await session.run(job(0.0))
        print(f"killed worker: error after {statistics.median(told) * 1e3:.1f} ms")
        print(f"killed worker: session restored in {statistics.median(restored) * 1e3:.1f} ms")


async def main() -> None:
    """Print all figures."""
    async with open_thread_isolation() as threads, open_process_isolation() as processes:
        isolations: dict[str, Isolation] = {"thread": threads, "process": processes}
        await print_runs(isolations)
        await print_pieces(isolations)
        await print_spawns(isolations)
        await print_kill(processes)


if __name__ == "__main__":
    trio.run(main)
