"""A server that has no file left to open."""

import resource
from contextlib import AsyncExitStack

import trio
from tests.server.clients import Client
from tests.server.harness import PATIENCE_S, Served
from tests.server.processes import descriptors


async def starve(served: Served, stack: AsyncExitStack) -> Client:
    """Leave a server no file to open; returns a client that waits to be connected.

    What it closes just now makes room for others, so clients come until one has none.
    """
    said = len(served.said)
    _, most = resource.prlimit(served.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (descriptors(served.pid), most))
    while True:
        client = await stack.enter_async_context(await served.begin("/health/live"))
        if not await _serves(served, client, unless="(EMFILE)", since=said):
            return client


def feed(served: Served) -> None:
    """Let a server open files again."""
    _, most = resource.prlimit(served.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (1024, most))


async def _serves(served: Served, client: Client, *, unless: str, since: int) -> bool:
    """Whether a client is answered before it says that word."""
    answered = False
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                nonlocal answered
                await client.answer()
                answered = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(answer)
            while not any(unless in line for line in served.said[since:]):  # noqa: ASYNC110
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    return answered
