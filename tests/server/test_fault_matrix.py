"""Every kind of fault in every state of a model: over real sockets, against real processes.

A column of faults that one server survives shares one server, a model for each row; the server's
end is examined after the last row. A fault that ends the server has one for each row.
"""

import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from tests.server.clients import bodies
from tests.server.harness import Served, serving, simulated, started
from tests.server.leaks import assert_no_thread_left, assert_nothing_left, held, threads
from tests.server.results import note_left
from tests.server.situations import STATES, Situation, models, situation, told
from tests.server.starving import feed, starve

pytestmark = pytest.mark.process

BOUND_MS: Final = 2000
HANG_MS: Final = 1000
LONG_MS: Final = 60_000
NOTICED_S: Final = 2.0
"""What a loaded machine may take for what the server does in a tenth of that."""


async def usable(served: Served, name: str) -> None:
    """The model comes to rest, nothing of the past is left, and it serves the next request."""
    await served.until(
        lambda seen: not seen["active_slots"] + seen["queued_requests"] + seen["stuck_slots"], name
    )
    assert (await served.run(name)).status == 200


async def unaffected(served: Served) -> None:
    """Another model serves, and the server is alive."""
    with trio.fail_after(NOTICED_S):
        assert (await served.get("/health/live")).status == 200
        assert (await served.run("other")).status == 200


# Faults that the server survives, and what the client is told of each.

Fault = Callable[[Situation], Awaitable[None]]


async def disconnect(at: Situation) -> None:
    """The client leaves. What it drove alone goes on; what was only for it ends."""
    at.served.gone.append((at.name, time.time()))
    at.client.reset()
    goes_on = {"loading": "ready", "reconfiguring": "ready", "unloading": "unloaded"}
    if at.name in goes_on:
        await at.served.until(lambda seen: seen["state"] == goes_on[at.name], at.name)
    elif at.holder is not None:
        await at.served.until(lambda seen: not seen["queued_requests"], at.name, within_s=NOTICED_S)
        assert (await at.served.model(at.name))["active_slots"] == 1
        assert await told(at.holder) == "200"
    else:
        # Long before the request would have ended by itself.
        await at.served.until(lambda seen: not seen["active_slots"], at.name, within_s=NOTICED_S)


KILLED: Final = {
    "queued": {"200"},
    # A worker that dies before it has said that it is there has not started.
    "loading": {"500 backend_crashed", "500 load_failed"},
    "running": {"500 backend_crashed"},
    "streaming": {"200, then backend_crashed"},
    "reconfiguring": {"500 backend_crashed", "500 load_failed"},
    "unloading": {"200"},
}


async def worker_kill(at: Situation) -> None:
    """The worker dies: its request fails, and nothing else."""
    os.kill(await at.served.worker(at.name), signal.SIGKILL)
    if at.holder is not None:
        assert await told(at.holder) == "500 backend_crashed"
    assert await told(at.client) in KILLED[at.name]


async def worker_stop(at: Situation) -> None:
    """The worker hangs: bounded waits end, and it goes when nobody wants its work any more."""
    pid = await at.served.worker(at.name)
    os.kill(pid, signal.SIGSTOP)
    await unaffected(at.served)
    hasty = {**bodies.run(at.name), "busy_timeout_ms": 100}
    late = await at.served.post("/v1/tasks/run", hasty)
    assert (late.status, late.code) == (503, "server_busy")
    if at.name in {"loading", "reconfiguring"}:
        # A load goes on without its client, however long it takes.
        at.client.reset()
        os.kill(pid, signal.SIGCONT)
        await at.served.until(lambda seen: seen["state"] == "ready", at.name)
    elif at.name == "unloading":
        assert await told(at.client) == "200"
    else:
        if at.holder is not None:
            assert await told(at.client) == "503 server_busy"
        at.worker_of.reset()
        await at.served.until(lambda seen: not seen["active_slots"], at.name)
        assert pid not in at.served.workers()


async def journal_disk_full(at: Situation) -> None:
    """The journal cannot be written: nobody notices."""
    size = (at.served.folder / "journal.jsonl").stat().st_size
    resource.prlimit(at.served.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    assert await told(at.client) == "200"


async def no_descriptors(at: Situation) -> None:
    """No file can be opened: what is connected is served; who connects waits, and is served."""
    async with AsyncExitStack() as stack:
        waiting = await starve(at.served, stack)
        assert await told(at.client) == "200"
        feed(at.served)
        assert await told(waiting) == "200"


@dataclass(frozen=True)
class Column:
    """One fault.

    Attributes:
        fault: What happens.
        isolation: Where sessions run.
        ms: How long what it meets would take without it.
        failures: Whether the log may tell of failures.
        settings: Further settings.
    """

    fault: Fault
    isolation: str
    ms: int
    failures: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


COLUMNS: Final = {
    column.fault.__name__: column
    for column in (
        Column(disconnect, "thread", 3000),
        Column(worker_kill, "process", 2000, failures=True),
        Column(
            worker_stop,
            "process",
            3000,
            failures=True,
            settings={"hang_timeout_ms": HANG_MS, "busy_timeout_ms": BOUND_MS},
        ),
        Column(journal_disk_full, "thread", 500),
        Column(no_descriptors, "thread", 1000, failures=True),
    )
}


BEFORE: Final[dict[int, tuple[Counter[str], int]]] = {}
"""What the server of a column held before its first row, by its process."""


@pytest.fixture(scope="module", params=COLUMNS)
def column(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Column, Served]]:
    """The server of one column; it must end as if nothing had happened."""
    column = COLUMNS[request.param]
    with started(
        tmp_path_factory.mktemp(request.param),
        models(column.ms),
        isolation=column.isolation,
        **column.settings,
    ) as served:
        served.row = f"fault_matrix: every state, then the end [{request.param}]"
        served.may_fail = column.failures
        served.may_lose = column.fault is journal_disk_full
        served.url = served.hear("listening on ").partition("on ")[2].split()[0]
        yield column, served
        served.signal()
        ended = served.end()
    assert (ended.code, ended.cuts) == (0, [])
    assert ended.seconds < served.bound_s
    full = [line for line in ended.said if "cannot be written: File too large" in line]
    assert len(full) == (1 if column.fault is journal_disk_full else 0)
    assert [left.row for left in ended.left] == [state for state, _ in served.gone]
    for left in ended.left:
        note_left(left)


@pytest.mark.contract(
    "beyond/g01_waiter_leaves_on_disconnect",
    "beyond/g02_initializer_disconnect_keeps_load",
    "beyond/g03_running_inference_cancelled",
    "beyond/g08_backend_crash_isolated",
    "beyond/g09_journal_verifiable",
)
@pytest.mark.parametrize("state", STATES)
async def test_a_fault_costs_what_it_hit_and_nothing_else(
    column: tuple[Column, Served], state: str
) -> None:
    what, served = column
    if served.pid not in BEFORE:
        assert (await served.run("other")).status == 200
        await at_rest(served)
        BEFORE[served.pid] = held(served.pid), threads(served.pid)
    with trio.fail_after(30):
        async with situation(served, state, what.ms) as at:
            await what.fault(at)
        await unaffected(served)
        await usable(served, state)
        await at_rest(served)
    before, before_threads = BEFORE[served.pid]
    await assert_nothing_left(served, before)
    if state == list(STATES)[-1]:
        await assert_no_thread_left(served, before_threads)


async def at_rest(served: Served) -> None:
    """Without a loaded model there is no worker; the sockets of the past are closed."""
    assert (await served.post("/v1/tasks/unload_all_models", {})).status == 200
    assert served.workers() == []
    sockets = 0
    with trio.move_on_after(NOTICED_S):
        while (sockets := connections(served)) > 1:  # noqa: ASYNC110 - no event here
            await trio.sleep(0.01)
    assert sockets <= 1, "connections are left open"


def connections(served: Served) -> int:
    """How many clients' connections the server has open, the one that asks included."""
    port = f"{served.port:04X}"
    rows = Path(f"/proc/{served.pid}/net/tcp").read_text().splitlines()[1:]
    established = [row.split() for row in rows if row.split()[3] in {"01", "08"}]
    return sum(row[1].endswith(f":{port}") for row in established)


# Faults that end the server.

SIGNALS: Final = {"sigterm": [signal.SIGTERM], "sigterm_twice": [signal.SIGTERM, signal.SIGTERM]}


@pytest.mark.contract("beyond/g05_bounded_shutdown", "time/shutdown_queued_request")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("signals", SIGNALS)
async def test_a_server_ends_in_time_in_every_state(
    tmp_path: Path, signals: str, state: str
) -> None:
    once = len(SIGNALS[signals]) == 1
    async with (
        serving(
            tmp_path,
            models(LONG_MS),
            drain_ms=300 if once else LONG_MS,
            cancel_ms=800,
            hang_timeout_ms=HANG_MS,
            busy_timeout_ms=0,
            isolation="process" if once else "thread",
        ) as served,
        situation(served, state, LONG_MS) as at,
    ):
        ended = await served.stopped(*SIGNALS[signals])
        heard = await told(at.client)
    assert heard == ("503 shutting_down" if state == "queued" else "cut off")
    assert ended.code == 3
    assert ended.cuts
    assert ended.seconds < (served.bound_s if once else served.cancel_s + 1)


async def test_a_journal_on_a_full_disk_is_refused_at_startup(tmp_path: Path) -> None:
    with started(tmp_path, [simulated()], "--log-level", "error", journal="/dev/full") as served:
        ended = await served.ended()
    assert ended.code == 2
    (line,) = ended.said
    assert "/dev/full" in line
    assert "No space left on device" in line
