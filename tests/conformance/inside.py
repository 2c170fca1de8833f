"""A whole server over real sockets in this process, so that a test can break it first."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from paraudio.config import Settings
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import open_thread_isolation
from paraudio.http import create_app
from paraudio.journal import Journal
from paraudio.lifecycle import Runtime
from paraudio.server import runtime_settings
from paraudio.transport import Server, open_tcp


@asynccontextmanager
async def serving(
    *, revision: Callable[[], int] | None = None, **settings: Any
) -> AsyncIterator[str]:
    """Serve simulated models; yields the URL.

    Args:
        revision: What to say in place of the true revision.
        settings: What differs from a parallel server that allows management.
    """
    configuration = Settings(**{"parallel_jobs": True, "ui_management": True, **settings})
    known = {"simulated": SimulatedFamily()}
    async with (
        Journal(None) as journal,
        open_thread_isolation() as thread,
        trio.open_nursery() as nursery,
    ):
        runtime = Runtime(
            runtime_settings(configuration),
            families=known,
            isolations={"thread": thread},
            record=journal,
            revision=revision or (lambda: journal.revision),
        )
        await nursery.start(runtime.run)
        app = create_app(runtime, configuration, families=known, journal=journal)
        server = Server(app)
        [listener] = await open_tcp("127.0.0.1", 0)
        async with trio.open_nursery() as transport:
            await transport.start(server.serve, [listener])
            yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
            server.stop()
        runtime.stop()
