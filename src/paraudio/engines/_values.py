"""What goes into a session and what comes out of it: plain data, the same for every family.

Samples are float32 in [-1, 1]; positions are in samples at the rate beside them, times in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from paraudio.spec import Json, Task

Samples: TypeAlias = NDArray[np.float32]
"""Mono float32 samples, shape [frames]."""


@dataclass(frozen=True, slots=True)
class Audio:
    """Mono sound.

    Attributes:
        samples: Shape [frames], float32, in [-1, 1].
        rate: Frames a second.
    """

    samples: Samples
    rate: int

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return len(self.samples) / self.rate


@dataclass(frozen=True, slots=True)
class Word:
    """One recognised or aligned word; ``start`` and ``end`` in samples of the result's rate.

    ``confidence`` is in [0, 1], or None where the family has none.
    """

    text: str
    start: int
    end: int
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of speech; ``start`` and ``end`` in samples, ``text`` empty where none is known."""

    start: int
    end: int
    text: str = ""
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class SpeakerTurn:
    """A stretch in which one speaker talks; ``start`` and ``end`` in samples."""

    speaker: str
    start: int
    end: int
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """The voice that a request resolved to.

    Attributes:
        name: A voice of the family, or None for its own default.
        reference: A recording to imitate, or None.
        reference_text: What is said in the recording, or None.
    """

    name: str | None = None
    reference: Audio | None = None
    reference_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work for a session.

    Attributes:
        task: What is asked for; the model's own task.
        text: Text to speak or to align, or None.
        audio: Sound to work on, at any rate, or None.
        language: A BCP 47 tag, or None for automatic.
        voice: The voice to speak with.
        speed: Rate of speech, 1 is the voice's own; None where the caller said nothing.
        prompt: A hint for transcription, or None.
        seed: 0..2^64-1 for a repeatable result, or None.
        options: The family's request options: the model's defaults under the caller's own.
    """

    task: Task
    text: str | None = None
    audio: Audio | None = None
    language: str | None = None
    voice: Voice = field(default_factory=Voice)
    speed: float | None = None
    prompt: str | None = None
    seed: int | None = None
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a session made of a job; what a task does not produce stays None or empty.

    Attributes:
        text: What was said.
        audio: What was spoken.
        language: The language that was found or used.
        sample_rate: The rate that all positions below refer to; 0 where there are none.
        segments: Speech, in order.
        speaker_turns: Who spoke when, in order of start.
        words: Words, in order.
        artifacts: Further values by name.
    """

    text: str | None = None
    audio: Audio | None = None
    language: str | None = None
    sample_rate: int = 0
    segments: tuple[Segment, ...] = ()
    speaker_turns: tuple[SpeakerTurn, ...] = ()
    words: tuple[Word, ...] = ()
    artifacts: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where speech begins or ends in live sound; ``at`` in samples of the sound that was fed."""

    kind: Literal["start", "end"]
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One piece of a streamed result: a delta, or, last of all, the whole.

    Exactly one field is set. The last event of a stream that ended well carries ``result``.

    Attributes:
        audio: Sound that follows what came before.
        text: Text that follows what came before, and stays as it is.
        partial: What is heard so far of an utterance that goes on; the next one replaces it, and
            the text or the result that follows may differ.
        boundary: A place where speech begins or ends.
        turns: Speaker turns that follow those that came before.
        result: The whole.
    """

    audio: Audio | None = None
    text: str | None = None
    partial: str | None = None
    boundary: Boundary | None = None
    turns: tuple[SpeakerTurn, ...] = ()
    result: Result | None = None


Piece: TypeAlias = Audio | str
"""What a live session is fed: sound as it is captured, or text as it is written."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a family is asked to load.

    Attributes:
        path: File or folder, absolute, or "".
        task: What the sessions will do.
        mode: ``offline`` or ``streaming``.
        config: A file beside the weights, or None.
        weight: A weight file inside ``path``, or None.
        options: The family's load options, complete with defaults.
        session_options: The family's session options, complete with defaults.
        backend: ``cpu`` or ``cuda``.
        device: Index of the device, for ``cuda``.
        threads: Threads that one run may use; 0 lets the family choose.
        model_id: The name that messages use.
        generation: Counts the loads of this model in this process, from 1.
        settled: Whether the files never change where they are, as those of the store do not.
        shared: Whether, beside that, other processes may load the same: weights are then better
            mapped than read, for the system keeps what is mapped once.
    """

    path: str
    task: Task
    mode: str
    config: str | None
    weight: str | None
    options: Mapping[str, Json]
    session_options: Mapping[str, Json]
    backend: str = "cpu"
    device: int = 0
    threads: int = 0
    model_id: str = ""
    generation: int = 1
    settled: bool = False
    shared: bool = False
