"""What is heard, as events: words, voices, speech and silence, whatever the model listens for."""

from collections.abc import Mapping
from typing import Final

from paraudio.engines import Boundary, Result, StreamEvent
from paraudio.http._render import segment_json, turn_json
from paraudio.http._sse import EventFrames, sse
from paraudio.http._transcripts import text_of
from paraudio.http._warnings import warning_fields
from paraudio.http._work import Watch
from paraudio.spec import Json, Task

HEARING: Final[tuple[Task, ...]] = ("asr", "diar", "vad")
"""The tasks whose results come as these events."""


class HearingFrames(EventFrames[StreamEvent]):
    """OpenAI's events of a streamed transcription, and their like for the other tasks.

    Args:
        task: What the model listens for; it decides which event ends the stream.
        rate: Frames a second of the sound that is heard, which the places in deltas count.
        watch: Times the stream.
    """

    def __init__(self, task: Task, rate: int, watch: Watch) -> None:
        super().__init__()
        self._task = task
        self._rate = rate
        self._watch = watch

    async def event(self, event: StreamEvent) -> bytes:
        """A delta; the result itself is kept for the end."""
        if event.result is not None:
            self.done = self._whole(event.result)
            return b""
        told = self._delta(event)
        if told is None:
            return b""
        self._watch.delta()
        return sse(told)

    def _delta(self, event: StreamEvent) -> Mapping[str, Json] | None:
        if event.text:
            return {"type": "transcript.text.delta", "delta": event.text}
        if event.partial is not None:
            return {"type": "transcript.text.partial", "text": event.partial}
        if event.boundary is not None:
            return _boundary(event.boundary, self._rate)
        if event.turns:
            turns: list[Json] = [turn_json(turn, self._rate) for turn in event.turns]
            return {
                "type": "diarization.delta",
                "speaker_turns": turns,
                "sample_rate": self._rate,
            }
        return None

    def _whole(self, result: Result) -> Mapping[str, Json]:
        """The event that ends the stream."""
        timing: Json = self._watch.timing(result).json()
        told = warning_fields(result)
        rate = result.sample_rate
        if self._task == "diar":
            turns: list[Json] = [turn_json(turn, rate) for turn in result.speaker_turns]
            whole: dict[str, Json] = {"type": "diarization.done", "speaker_turns": turns}
        elif self._task == "vad":
            segments: list[Json] = [segment_json(one, rate) for one in result.segments]
            whole = {"type": "speech.done", "segments": segments}
        else:
            whole = {"type": "transcript.text.done", "text": text_of(result)}
            return {**whole, "timing": timing, **told}
        return {**whole, "sample_rate": rate, "timing": timing, **told}


def _boundary(boundary: Boundary, rate: int) -> Mapping[str, Json]:
    """Where speech begins or ends, in seconds and in samples."""
    kind = "speech.started" if boundary.kind == "start" else "speech.stopped"
    return {"type": kind, "at": round(boundary.at / rate, 3), "at_sample": boundary.at}
