"""Models in the middle of something, for the tests of what befalls them there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.server.clients import Client, bodies
from tests.server.harness import Served, simulated


@dataclass
class Situation:
    """A model in the middle of something.

    Attributes:
        served: The server.
        name: The model.
        client: Whose request it is about.
        holder: For a queued request: whoever holds the slot.
    """

    served: Served
    name: str
    client: Client
    holder: Client | None = None

    @property
    def worker_of(self) -> Client:
        """The client whose request the worker works for."""
        return self.holder or self.client


Enter = Callable[[Served, str, int, AsyncExitStack], Awaitable[Situation]]


async def begin(served: Served, stack: AsyncExitStack, path: str, body: object) -> Client:
    return await stack.enter_async_context(await served.begin(path, body))


async def queued(served: Served, name: str, ms: int, stack: AsyncExitStack) -> Situation:
    assert (await served.run(name)).status == 200
    holder = await begin(served, stack, "/v1/tasks/run", bodies.run(name, run_ms=ms))
    await served.until(lambda seen: seen["active_slots"] and seen["loaded"], name)
    client = await begin(served, stack, "/v1/tasks/run", bodies.run(name))
    await served.until(lambda seen: seen["queued_requests"], name)
    return Situation(served, name, client, holder)


async def loading(served: Served, name: str, ms: int, stack: AsyncExitStack) -> Situation:
    client = await begin(served, stack, "/v1/tasks/run", bodies.run(name))
    await served.until(lambda seen: seen["state"] == "loading", name)
    return Situation(served, name, client)


async def running(served: Served, name: str, ms: int, stack: AsyncExitStack) -> Situation:
    client = await begin(served, stack, "/v1/tasks/run", bodies.run(name, run_ms=ms))
    await served.until(lambda seen: seen["active_slots"] and seen["loaded"], name)
    return Situation(served, name, client)


async def streaming(served: Served, name: str, ms: int, stack: AsyncExitStack) -> Situation:
    client = await begin(served, stack, "/v1/audio/speech", bodies.stream(name))
    assert await client.piece()
    return Situation(served, name, client)


async def reconfiguring(served: Served, name: str, ms: int, stack: AsyncExitStack) -> Situation:
    assert (await served.run(name)).status == 200
    old = set(served.workers())
    client = await begin(served, stack, "/v1/models/load", simulated(name, load_ms=ms))
    await served.until(
        lambda seen: seen["state"] == "reconfiguring" and old.isdisjoint(served.workers()), name
    )
    return Situation(served, name, client)


async def unloading(served: Served, name: str, ms: int, stack: AsyncExitStack) -> Situation:
    assert (await served.run(name)).status == 200
    client = await begin(served, stack, "/v1/models/unload", {"id": name})
    await served.until(lambda seen: seen["state"] == "unloading", name)
    return Situation(served, name, client)


STATES: Final[dict[str, Enter]] = {
    each.__name__: each for each in (queued, loading, running, streaming, reconfiguring, unloading)
}


def models(ms: int) -> list[object]:
    """One model for each state, which needs about that time in it."""
    special: dict[str, dict[str, object]] = {
        "loading": {"load_ms": ms},
        "unloading": {"unload_ms": ms},
        "streaming": {"chunks": 20, "chunk_ms": ms // 20},
    }
    return [simulated("other"), *(simulated(name, **special.get(name, {})) for name in STATES)]


@asynccontextmanager
async def situation(served: Served, state: str, ms: int) -> AsyncIterator[Situation]:
    async with AsyncExitStack() as stack:
        yield await STATES[state](served, state, ms, stack)


async def told(client: Client) -> str:
    """What a client was told, in a few words."""
    try:
        answer = await client.answer()
    except EOFError:
        return "cut off"
    if answer.status != 200:
        return f"{answer.status} {answer.code}"
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return "200"
    last = answer.events[-1]
    return "200" if last == "[DONE]" else f"200, then {last['error']['code']}"
