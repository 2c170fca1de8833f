"""Isolations: where the blocking code of a family runs, and how it is stopped."""

from paraudio.engines.isolation._protocols import (
    Inspection,
    Isolation,
    ModelHandle,
    SessionHandle,
)

__all__ = ["Inspection", "Isolation", "ModelHandle", "SessionHandle"]
