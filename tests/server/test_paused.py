"""A server that the system did not run for a while, under a debugger or in a frozen container."""

import os
import signal
from pathlib import Path
from typing import Final

import pytest
import trio
from tests.server.clients import bodies
from tests.server.harness import Served, serving, simulated

from paraudio.journal import Event, Kind

pytestmark = pytest.mark.process

LONG_MS: Final = 60_000
PAUSE_S: Final = 1.5


async def pause(served: Served) -> None:
    """Keep the server from running; that so much time passes is the point."""
    await served.freeze()
    await trio.sleep(PAUSE_S)
    os.kill(served.pid, signal.SIGCONT)


def pauses_ms(events: list[Event]) -> int:
    return sum(int(str(event.facts["ms"])) for event in events if event.kind is Kind.PAUSED)


async def test_a_wait_that_ended_late_for_a_pause_breaks_no_rule(tmp_path: Path) -> None:
    async with serving(tmp_path, [simulated(run_ms=LONG_MS)]) as served:
        async with (
            await served.begin("/v1/tasks/run", bodies.run()),
            await served.begin("/v1/tasks/run", bodies.run() | {"busy_timeout_ms": 300}) as second,
        ):
            await served.until(lambda seen: seen["queued_requests"] == 1)
            await pause(served)
            answer = await second.answer()
            assert (answer.status, answer.code) == (503, "server_busy")
        ended = await served.stopped()
    # The journal went through the checker, which would have seen that wait end too late.
    assert pauses_ms(ended.events) >= 1000
    assert any("the system did not run this process for" in line for line in ended.said)
