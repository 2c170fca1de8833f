"""Engines: what a family of models implements, the families, and the isolations that run them."""

from paraudio.engines._options import Option, check_options
from paraudio.engines._protocols import (
    BatchSession,
    Family,
    LoadedModel,
    Session,
    StreamingSession,
)
from paraudio.engines._stop import Stop, Stopped
from paraudio.engines._values import (
    Audio,
    Job,
    Load,
    Result,
    Samples,
    Segment,
    SpeakerTurn,
    StreamEvent,
    Voice,
    Word,
)

__all__ = [
    "Audio",
    "BatchSession",
    "Family",
    "Job",
    "Load",
    "LoadedModel",
    "Option",
    "Result",
    "Samples",
    "Segment",
    "Session",
    "SpeakerTurn",
    "Stop",
    "Stopped",
    "StreamEvent",
    "StreamingSession",
    "Voice",
    "Word",
    "check_options",
]
