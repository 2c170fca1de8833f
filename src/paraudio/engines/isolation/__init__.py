"""Isolations: where the blocking code of a family runs, and how it is stopped."""

from paraudio.engines.isolation._process import ProcessIsolation, open_process_isolation
from paraudio.engines.isolation._protocols import (
    AbandonedCall,
    Inspection,
    Isolation,
    LiveHandle,
    ModelHandle,
    SessionHandle,
)
from paraudio.engines.isolation._thread import ThreadIsolation, open_thread_isolation

__all__ = [
    "AbandonedCall",
    "Inspection",
    "Isolation",
    "LiveHandle",
    "ModelHandle",
    "ProcessIsolation",
    "SessionHandle",
    "ThreadIsolation",
    "open_process_isolation",
    "open_thread_isolation",
]
