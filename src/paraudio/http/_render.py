"""Results as JSON, and what is measured about them."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from paraudio.audio import encode
from paraudio.engines import Audio, Result, Segment, SpeakerTurn, Word
from paraudio.http._respond import Base64
from paraudio.http._workers import Workers
from paraudio.spec import Json

P = ParamSpec("P")
T = TypeVar("T")

LONG_SAMPLES: Final = 200_000
"""A sound with more samples is turned into bytes in a worker thread: a few milliseconds of work."""


_PIECE_BYTES: Final = 3 << 18
"""A whole number of triples, each of which is four letters of base64."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the work took, and how much sound it was about.

    Attributes:
        wall_s: Seconds that the run took, without the wait for a slot and without a load.
        audio_s: Seconds of the sound that was made or worked on; 0 where there was none.
        first_s: Seconds from the request to its first delta, for streams.
    """

    wall_s: float
    audio_s: float
    first_s: float | None = None

    @property
    def rtf(self) -> float:
        """Real-time factor: seconds of work for a second of sound; 0 without sound."""
        return self.wall_s / self.audio_s if self.audio_s else 0.0

    def json(self) -> dict[str, Json]:
        """The ``timing`` of an answer, in milliseconds."""
        timing: dict[str, Json] = {
            "wall_ms": _ms(self.wall_s),
            "audio_duration_ms": _ms(self.audio_s),
            "rtf": round(self.rtf, 4),
        }
        if self.first_s is not None:
            timing["ttft_ms"] = _ms(self.first_s)
        return timing

    def headers(self) -> dict[str, str]:
        """The same as headers."""
        return {
            "X-Paraudio-Wall-Ms": f"{self.wall_s * 1000:.1f}",
            "X-Paraudio-Audio-Duration-Ms": f"{self.audio_s * 1000:.1f}",
            "X-Paraudio-RTF": f"{self.rtf:.4f}",
        }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def base64_audio(audio: Audio, kind: str) -> Base64:
    """A sound as base64 text in one of the formats of ``paraudio.audio``."""
    data = memoryview(encode(audio, kind))
    # In pieces, so that other threads have their turns in between.
    starts = range(0, len(data), _PIECE_BYTES)
    return Base64(b"".join([base64.b64encode(data[at : at + _PIECE_BYTES]) for at in starts]))


def _span(start: int, end: int, rate: int) -> dict[str, Json]:
    """A stretch in seconds, and in samples."""
    seconds = (start / rate, end / rate) if rate else (0.0, 0.0)
    return {
        "start": round(seconds[0], 3),
        "end": round(seconds[1], 3),
        "start_sample": start,
        "end_sample": end,
    }


def word_json(word: Word, rate: int) -> dict[str, Json]:
    """A word with its place."""
    span = _span(word.start, word.end, rate)
    return {"word": word.text, **span, "confidence": word.confidence}


def segment_json(segment: Segment, rate: int) -> dict[str, Json]:
    """A segment with its place."""
    span = _span(segment.start, segment.end, rate)
    return {**span, "text": segment.text, "confidence": segment.confidence}


def turn_json(turn: SpeakerTurn, rate: int) -> dict[str, Json]:
    """A speaker's turn with its place."""
    span = _span(turn.start, turn.end, rate)
    return {"speaker": turn.speaker, **span, "confidence": turn.confidence}


def details_json(result: Result) -> dict[str, Json]:
    """All that a result says, apart from its sound."""
    rate = result.sample_rate
    return {
        "text": result.text,
        "language": result.language,
        "segments": [segment_json(segment, rate) for segment in result.segments],
        "speaker_turns": [turn_json(turn, rate) for turn in result.speaker_turns],
        "words": [word_json(word, rate) for word in result.words],
        "sample_rate": rate,
    }


def result_json(result: Result, timing: Timing) -> dict[str, object]:
    """All that a result says, its sound as a base64 wav: what the task routes answer.

    Encodes the sound: call it through `off_loop`.
    """
    audio = result.audio
    made: dict[str, object] = {
        "audio": None if audio is None else base64_audio(audio, "wav"),
        "channels": 0 if audio is None else 1,
        "named_audio_outputs": {},
        "artifacts": dict(result.artifacts),
        "timing": timing.json(),
    }
    if audio is not None:
        made["sample_rate"] = audio.rate
    return {**details_json(result), **made}


async def off_loop(
    workers: Workers, audio: Audio | None, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call what encodes a sound: here where the sound is short, in a worker thread where it is not.

    Args:
        workers: The threads.
        audio: The sound that decides.
        call: Blocking code.
        args: Its arguments.
        kwargs: Its keyword arguments.
    """
    if audio is not None and len(audio.samples) > LONG_SAMPLES:
        return await workers.run(call, *args, **kwargs)
    return call(*args, **kwargs)
