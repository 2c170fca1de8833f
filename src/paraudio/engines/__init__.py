"""Engines: what a family of models implements, the families, and the isolations that run them."""

from paraudio.engines._options import Option, check_options
from paraudio.engines._protocols import (
    BatchSession,
    Family,
    LiveSession,
    LoadedModel,
    Session,
    StreamingSession,
)
from paraudio.engines._stop import Stop, Stopped
from paraudio.engines._text import whole_sentences
from paraudio.engines._values import (
    Audio,
    Boundary,
    Job,
    Load,
    Piece,
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
    "Boundary",
    "Family",
    "Job",
    "LiveSession",
    "Load",
    "LoadedModel",
    "Option",
    "Piece",
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
    "whole_sentences",
]
