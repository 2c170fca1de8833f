"""SIGTERM in moments that are no state of one model: the end is in time, whatever goes on."""

import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
import trio
from tests.server.clients import Client, bodies
from tests.server.harness import Served, serving, simulated

from paraudio.journal import Kind

pytestmark = [pytest.mark.process, pytest.mark.contract("beyond/g05_bounded_shutdown")]

LONG_MS: Final = 60_000
SIGNALS: Final = {"once": [signal.SIGTERM], "twice": [signal.SIGTERM, signal.SIGTERM]}
ISOLATIONS: Final = ("thread", "process")


async def held_up(served: Served, stack: AsyncExitStack, path: str, body: object) -> Client:
    return await stack.enter_async_context(await served.begin(path, body))


async def loading_behind_the_guard(served: Served, stack: AsyncExitStack) -> Client:
    """A model waits for room that only the end of another one's run can make."""
    await held_up(served, stack, "/v1/tasks/run", bodies.run("first", run_ms=LONG_MS))
    await served.until(lambda seen: seen["active_slots"] and seen["loaded"], "first")
    client = await held_up(served, stack, "/v1/tasks/run", bodies.run("second"))
    await served.until(lambda seen: seen["active_slots"] == 1, "second")
    return client


async def bulk(served: Served, stack: AsyncExitStack) -> Client:
    """A bulk unload waits for a run."""
    await held_up(served, stack, "/v1/tasks/run", bodies.run("first", run_ms=LONG_MS))
    await served.until(lambda seen: seen["active_slots"] and seen["loaded"], "first")
    client = await held_up(served, stack, "/v1/tasks/unload_all_models", {})
    await served.until(lambda seen: seen["queued_managers"] == 1, "first")
    return client


async def reconfiguring(served: Served, stack: AsyncExitStack) -> Client:
    """A replacement was committed, and loads."""
    assert (await served.run("first")).status == 200
    new = simulated("first", load_ms=LONG_MS)
    client = await held_up(served, stack, "/v1/models/load", new)
    # Before its load has begun the guard of loads would refuse it as the drain begins.
    loads = await served.until(lambda seen: seen["generation"] == 2, "first")
    assert (loads["state"], loads["managed"]) == ("reconfiguring", True)
    return client


Moment = Callable[[Served, AsyncExitStack], Awaitable[Client]]
MOMENTS: Final[dict[str, tuple[Moment, str]]] = {
    "the memory guard": (loading_behind_the_guard, "503 shutting_down"),
    "a bulk unload": (bulk, "503 shutting_down"),
    "a reconfiguration": (reconfiguring, "cut off"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("signals", SIGNALS)
async def test_a_server_ends_in_time_in_the_middle_of(
    tmp_path: Path, moment: str, isolation: str, signals: str
) -> None:
    enter, expected = MOMENTS[moment]
    once = signals == "once"
    async with (
        serving(
            tmp_path,
            [simulated("first"), simulated("second")],
            max_loaded_models=1,
            isolation=isolation,
            drain_ms=300 if once else LONG_MS,
            cancel_ms=800,
        ) as served,
        AsyncExitStack() as stack,
    ):
        client = await enter(served, stack)
        ended = await served.stopped(*SIGNALS[signals])
        try:
            answer = await client.answer()
            told = f"{answer.status} {answer.code}"
        except EOFError:
            told = "cut off"
    assert told == expected
    assert ended.code == 3, "the run, or the load, was cut"
    assert ended.seconds < (served.bound_s if once else served.cancel_s + 1)


@pytest.mark.parametrize("load_ms", [800, LONG_MS])
@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_server_ends_in_time_while_it_loads_eagerly(
    tmp_path: Path, isolation: str, load_ms: int
) -> None:
    models = [simulated(name, load_ms=load_ms, lazy=False) for name in ("one", "two")]
    short = load_ms < LONG_MS
    async with serving(
        tmp_path, models, isolation=isolation, drain_ms=10_000 if short else 300
    ) as served:
        for name in ("one", "two"):
            await served.until(lambda seen: seen["state"] == "loading", name)
        ended = await served.stopped()
    assert ended.code == (0 if short else 3)
    assert bool(ended.cuts) is not short
    assert ended.seconds < served.bound_s


async def test_a_server_ends_in_time_where_the_guard_refuses_every_load(tmp_path: Path) -> None:
    models = [simulated(memory_mb=64)]
    async with serving(tmp_path, models, min_free_memory_mb=2**30) as served:
        refused = await served.run()
        assert (refused.status, refused.code) == (503, "insufficient_memory")
        ended = await served.stopped()
    assert (ended.code, ended.cuts) == (0, [])


@pytest.fixture
def silent_index() -> Iterator[str]:
    """The address of a package index that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/simple"


@pytest.mark.parametrize("route", ["a request", "an install"])
@pytest.mark.parametrize("signals", SIGNALS)
async def test_a_server_ends_in_time_while_a_model_is_fetched(
    tmp_path: Path, silent_index: str, route: str, signals: str
) -> None:
    model = {"id": "far", "family": "piper_tts", "path": "store:piper-joe", "task": "tts"}
    once = signals == "once"
    pip = {
        "PIP_INDEX_URL": silent_index,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_CACHE_DIR": "1",
    }
    async with serving(
        tmp_path, [model], environ=pip, drain_ms=300 if once else LONG_MS, cancel_ms=1500
    ) as served:
        if route == "a request":
            body: object = {"model": "far", "input": "hello"}
            client = await served.begin("/v1/audio/speech", body)
            await served.heard("fetching piper-joe")
        else:
            client = await served.begin("/v1/ui/models/install", {"id": "piper-joe"})
        async with client:
            with trio.fail_after(30):
                while not served.workers():  # noqa: ASYNC110 - another process, no event
                    await trio.sleep(0.02)
            ended = await served.stopped(*SIGNALS[signals])
            await client.rest()
    assert ended.code == 3
    assert ended.seconds < (served.bound_s if once else served.cancel_s + 1)
    failed = [event for event in ended.events if event.kind is Kind.LOAD_FAILED]
    assert len(failed) == (1 if route == "a request" else 0)
