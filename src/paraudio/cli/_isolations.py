"""What ``paraudio run`` needs of the engines: both isolations, over the model store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields

from paraudio.cli._output import show_progress
from paraudio.config import Settings
from paraudio.engines.isolation import Isolation, open_process_isolation, open_thread_isolation
from paraudio.lifecycle import RuntimeSettings
from paraudio.server import StoredModels
from paraudio.spec import IsolationName
from paraudio.store import Store


def runtime_settings(settings: Settings) -> RuntimeSettings:
    """The runtime's part of the settings."""
    return RuntimeSettings(
        **{one.name: getattr(settings, one.name) for one in fields(RuntimeSettings)}
    )


@asynccontextmanager
async def open_isolations(settings: Settings) -> AsyncIterator[dict[IsolationName, Isolation]]:
    """Open the isolations; a model of the store is fetched as it is loaded."""
    hang_s = settings.hang_timeout_ms / 1000
    store = Store()
    async with (
        open_thread_isolation(hang_timeout_s=hang_s) as thread,
        open_process_isolation(hang_timeout_s=hang_s) as process,
    ):
        yield {
            "thread": StoredModels(thread, store, show_progress),
            "process": StoredModels(process, store, show_progress),
        }
