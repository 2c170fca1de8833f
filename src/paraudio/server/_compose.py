"""What a runtime is made of, from the settings: for the server and for a single command."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields

from paraudio.config import Settings
from paraudio.engines.isolation import Isolation, open_process_isolation, open_thread_isolation
from paraudio.engines.onnxruntime_check import check_onnxruntime
from paraudio.errors import ConfigError
from paraudio.lifecycle import RuntimeSettings
from paraudio.server._progress import Progress
from paraudio.server._stored import StoredModels
from paraudio.spec import IsolationName
from paraudio.store import Shelf

log = logging.getLogger(__name__)


def resolved(settings: Settings) -> Settings:
    """The settings with ``auto`` resolved to the backend that works here.

    Blocks for as long as onnxruntime takes to import, and to open the device. What is odd about
    the installation is logged.

    Raises:
        ConfigError: No model of onnxruntime could run as configured.
    """
    found = check_onnxruntime(settings.backend, settings.device)
    for problem in found.problems:
        if problem.fatal:
            raise ConfigError(problem.text, param="backend")
        log.warning("%s", problem.text)
    return settings.model_copy(update={"backend": found.backend})


def runtime_settings(settings: Settings) -> RuntimeSettings:
    """The runtime's part of the settings."""
    return RuntimeSettings(
        **{field.name: getattr(settings, field.name) for field in fields(RuntimeSettings)}
    )


@asynccontextmanager
async def open_isolations(
    settings: Settings, progress: Progress, shelf: Shelf | None = None
) -> AsyncIterator[dict[IsolationName, Isolation]]:
    """Open every isolation; a model of the store is fetched as it is loaded.

    Args:
        settings: Whose ``hang_timeout_ms`` holds.
        progress: How a fetch is shown.
        shelf: Holds the store; None takes the default one.
    """
    hang_s = settings.hang_timeout_ms / 1000
    shelf = shelf or Shelf()
    async with (
        open_thread_isolation(hang_timeout_s=hang_s) as thread,
        open_process_isolation(hang_timeout_s=hang_s) as process,
    ):
        yield {
            "thread": StoredModels(thread, shelf, progress),
            "process": StoredModels(process, shelf, progress),
        }
