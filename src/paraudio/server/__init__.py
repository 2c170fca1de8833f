"""The server as one structure of scopes, and its end in bounded time."""

from paraudio.server._compose import open_isolations, resolved, runtime_settings
from paraudio.server._custom import Listener, Service
from paraudio.server._progress import Progress, Report, logged_progress
from paraudio.server._serve import Ready, run
from paraudio.server._stored import StoredModels

__all__ = [
    "Listener",
    "Progress",
    "Ready",
    "Report",
    "Service",
    "StoredModels",
    "logged_progress",
    "open_isolations",
    "resolved",
    "run",
    "runtime_settings",
]
