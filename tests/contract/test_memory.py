"""What an unload gives back: everything, also after many rounds."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest
import trio

from paraudio.engines import Job
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import (
    Isolation,
    open_process_isolation,
    open_thread_isolation,
)
from paraudio.lifecycle import Runtime, RuntimeSettings
from paraudio.spec import IsolationName, ModelSpec

MEBIBYTE = 2**20
WEIGHTS_MB = 48
NOISE_MB = 24
"""What an interpreter may take and keep in the meantime; less than one set of weights."""


def workers(others: set[psutil.Process]) -> list[psutil.Process]:
    """The processes that were started since ``others`` were all there were."""
    return [each for each in psutil.Process().children(recursive=True) if each not in others]


async def resident_mb(others: set[psutil.Process]) -> float:
    """Memory of this process and its workers; other tests' servers are not theirs."""
    await trio.to_thread.run_sync(gc.collect)  # a process full of tests has much to look through
    sizes = [each.memory_info().rss for each in (psutil.Process(), *workers(others))]
    return sum(sizes) / MEBIBYTE


@pytest.fixture
def others() -> set[psutil.Process]:
    """The processes that other tests keep running."""
    return set(psutil.Process().children(recursive=True))


@asynccontextmanager
async def running(name: IsolationName, isolation: Isolation, slots: int) -> AsyncIterator[Runtime]:
    runtime = Runtime(
        RuntimeSettings(parallel_jobs=True, isolation=name),
        families={"simulated": SimulatedFamily()},
        isolations={name: isolation},
    )
    runtime.add(
        ModelSpec(
            id="m",
            family="simulated",
            path="/m",
            task="tts",
            slots=slots,
            load_options={"memory_mb": WEIGHTS_MB},
        )
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(runtime.run)
        yield runtime
        runtime.stop()


async def use(runtime: Runtime) -> None:
    async with runtime.use("m", request="r") as it:
        await it.ready()
        await it.run(Job(task="tts", text="x"))


@pytest.mark.contract("beyond/g11_memory_released_after_unload")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_many_rounds_of_load_and_unload_leave_memory_flat(
    slots: int, others: set[psutil.Process]
) -> None:
    async with (
        open_thread_isolation() as isolation,
        running("thread", isolation, slots) as runtime,
    ):
        await use(runtime)
        assert await resident_mb(others) > WEIGHTS_MB
        await runtime.unload("m")
        before = await resident_mb(others)
        await use(runtime)
        assert await resident_mb(others) - before > WEIGHTS_MB / 2, "the weights are really held"
        for _ in range(15):
            await runtime.unload("m")
            await use(runtime)
        await runtime.unload("m")
        assert await resident_mb(others) - before < NOISE_MB


@pytest.mark.process
@pytest.mark.contract("beyond/g11_memory_released_after_unload")
async def test_an_unload_ends_the_processes_and_takes_all_their_memory_back(
    others: set[psutil.Process],
) -> None:
    async with (
        open_process_isolation() as isolation,
        running("process", isolation, 2) as runtime,
    ):
        before = await resident_mb(others)
        for _ in range(2):
            await use(runtime)
            assert await resident_mb(others) - before > 2 * WEIGHTS_MB, "each worker has its own"
            await runtime.unload("m")
            assert workers(others) == []
            assert await resident_mb(others) - before < NOISE_MB
