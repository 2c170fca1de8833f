"""What an isolation costs, beside the same call made directly.

Run with ``python benchmarks/isolation.py``. Times are wall-clock medians, so an idle machine gives
the true figures; the direct call in the first column does the same work (a checksum of the sound).
"""

import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
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


def direct(work: Job) -> float:
    """Milliseconds of the call itself."""
    session = SimulatedFamily().load(LOAD, Stop()).session()
    assert session is not None
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        session.run(session.prepare(work), Stop())
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


async def median_ms(call: Callable[[], Awaitable[object]], count: int) -> float:
    """Milliseconds of a call, the median of several."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


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
        print(
            "a run with                direct ms " + "".join(f"{name:>12} ms" for name in sessions)
        )
        for seconds in (0.0, 1.0, 30.0, 600.0):
            work = job(seconds)
            costs = [
                await median_ms(lambda s=session, w=work: s.run(w), RUNS)  # type: ignore[misc]
                for session in sessions.values()
            ]
            row = "".join(f"{cost:15.3f}" for cost in costs)
            print(f"{seconds:8.0f} s of sound {direct(work):16.3f} {row}")


async def print_spawns(isolations: dict[str, Isolation]) -> None:
    """What a load with one session costs, and its end."""
    for name, isolation in isolations.items():

        async def cycle(isolation: Isolation = isolation) -> None:
            async with AsyncExitStack() as cleanup:
                await opened(isolation, cleanup)

        print(f"load, session, close in a {name}: {await median_ms(cycle, SPAWNS):.1f} ms")


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
        await print_spawns(isolations)
        await print_kill(processes)


if __name__ == "__main__":
    trio.run(main)
