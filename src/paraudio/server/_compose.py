"""What a runtime is made of, from the settings: for the server and for a single command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace

from paraudio.config import Settings
from paraudio.engines.isolation import Isolation, open_process_isolation, open_thread_isolation
from paraudio.lifecycle import RuntimeSettings
from paraudio.server._progress import Progress
from paraudio.server._stored import StoredModels
from paraudio.spec import IsolationName
from paraudio.store import Store


def runtime_settings(settings: Settings) -> RuntimeSettings:
    """The runtime's part of the settings, with the backend resolved."""
    chosen = RuntimeSettings(
        **{field.name: getattr(settings, field.name) for field in fields(RuntimeSettings)}
    )
    return replace(chosen, backend="cpu" if settings.backend == "auto" else settings.backend)


@asynccontextmanager
async def open_isolations(
    settings: Settings, progress: Progress
) -> AsyncIterator[dict[IsolationName, Isolation]]:
    """Open every isolation; a model of the store is fetched as it is loaded.

    Args:
        settings: Whose ``hang_timeout_ms`` holds.
        progress: How a fetch is shown.
    """
    hang_s = settings.hang_timeout_ms / 1000
    store = Store()
    async with (
        open_thread_isolation(hang_timeout_s=hang_s) as thread,
        open_process_isolation(hang_timeout_s=hang_s) as process,
    ):
        yield {
            "thread": StoredModels(thread, store, progress),
            "process": StoredModels(process, store, progress),
        }
