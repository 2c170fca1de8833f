"""A signal in the middle of every fault in every state: the end is in time and says what it cut.

The rows in which the server survives the fault stand in the matrix; here each ends with it.
"""

import os
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
from tests.server.harness import serving
from tests.server.situations import STATES, Situation, models, situation
from tests.server.starving import starve

pytestmark = [pytest.mark.process, pytest.mark.contract("beyond/g05_bounded_shutdown")]

LONG_MS: Final = 60_000

Strike = Callable[[Situation, AsyncExitStack], Awaitable[None]]


async def disconnect(at: Situation, stack: AsyncExitStack) -> None:
    """The client leaves."""
    at.client.reset()


async def worker_kill(at: Situation, stack: AsyncExitStack) -> None:
    """The worker dies."""
    os.kill(await at.served.worker(at.name), signal.SIGKILL)


async def worker_stop(at: Situation, stack: AsyncExitStack) -> None:
    """The worker stands still, as under a debugger."""
    os.kill(await at.served.worker(at.name), signal.SIGSTOP)


async def journal_disk_full(at: Situation, stack: AsyncExitStack) -> None:
    """The journal cannot be written any more."""
    size = (at.served.folder / "journal.jsonl").stat().st_size
    resource.prlimit(at.served.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def no_descriptors(at: Situation, stack: AsyncExitStack) -> None:
    """No file can be opened, and somebody waits to be connected."""
    await starve(at.served, stack)


STRIKES: Final[dict[str, tuple[Strike, str]]] = {
    "disconnect": (disconnect, "thread"),
    "worker_kill": (worker_kill, "process"),
    "worker_stop": (worker_stop, "process"),
    "journal_disk_full": (journal_disk_full, "thread"),
    "no_descriptors": (no_descriptors, "thread"),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("fault", STRIKES)
async def test_a_server_ends_in_time_in_the_middle_of_a_fault(
    tmp_path: Path, fault: str, state: str
) -> None:
    strike, isolation = STRIKES[fault]
    async with (
        serving(
            tmp_path,
            models(LONG_MS),
            drain_ms=200,
            cancel_ms=800,
            hang_timeout_ms=500,
            busy_timeout_ms=0,
            isolation=isolation,
        ) as served,
        situation(served, state, LONG_MS) as at,
        AsyncExitStack() as stack,
    ):
        served.may_fail = True
        served.may_lose = fault == "journal_disk_full"
        await strike(at, stack)
        ended = await served.stopped()
    assert ended.code == (3 if ended.cuts else 0)
    if fault not in {"disconnect", "worker_kill"}:
        assert ended.cuts, "what would have taken a minute was cut"
