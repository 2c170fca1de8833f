"""Results of ``paraudio run``, for people and for scripts."""

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from paraudio.audio import encode
from paraudio.cli._output import print_json, print_table, say, say_warning
from paraudio.cli._whole import write_whole
from paraudio.config import expanded
from paraudio.engines import Result
from paraudio.errors import BackendError
from paraudio.spec import Json, ModelSpec


@dataclass(frozen=True, slots=True)
class Done:
    """A piece of work that ended well.

    Attributes:
        result: What came out.
        load_s: Seconds that fetching and loading the model took.
        run_s: Seconds that the run took.
        audio_s: Seconds of the sound that was made or worked on; 0 where there was none.
    """

    result: Result
    load_s: float
    run_s: float
    audio_s: float


def deliver(done: Done, spec: ModelSpec, *, output: str | None, as_json: bool) -> None:
    """Write the sound where it belongs, say what the model warns of, and print the rest."""
    result = done.result
    told = result.artifacts.get("warnings")
    for warning in told if isinstance(told, list) else ():
        say_warning(str(warning))
    if output is not None:
        _write(result, output)
    if as_json:
        print_json(result_json(done, spec, output))
        return
    if output is not None:
        speed = f", {done.audio_s / done.run_s:.1f} times real time" if done.run_s > 0 else ""
        say(f"{output}: {done.audio_s:.2f} s of speech in {done.run_s:.2f} s{speed}")
    elif spec.task in {"asr", "align"}:
        click.echo(result.text or "")
    else:
        _print_spans(result)


def _write(result: Result, output: str) -> None:
    if result.audio is None:
        raise BackendError("the model made no sound")
    kind = "wav" if output == "-" else Path(output).suffix.removeprefix(".").lower()
    data = encode(result.audio, kind)
    if output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(expanded(output), data)
    except OSError as error:
        raise BackendError(f"{output} cannot be written: {error.strerror}") from error


def _print_spans(result: Result) -> None:
    """Print what has a start and an end: speakers if there are any, else speech."""
    rate = result.sample_rate or 1
    if result.speaker_turns:
        rows = [
            (f"{one.start / rate:.2f}", f"{one.end / rate:.2f}", one.speaker)
            for one in result.speaker_turns
        ]
        print_table(("START", "END", "SPEAKER"), rows)
        return
    rows = [
        (f"{one.start / rate:.2f}", f"{one.end / rate:.2f}", one.text or "speech")
        for one in result.segments
    ]
    print_table(("START", "END", "WHAT"), rows)


def result_json(done: Done, spec: ModelSpec, output: str | None) -> dict[str, Json]:
    """The whole result; times in seconds and, as ``…_sample``, in samples of ``sample_rate``."""
    result = done.result
    rate = result.sample_rate
    audio: Json = None
    if result.audio is not None:
        audio = {"path": output, "sample_rate": result.audio.rate, "seconds": done.audio_s}
    return {
        "model": spec.id,
        "task": spec.task,
        "text": result.text,
        "language": result.language,
        "audio": audio,
        "sample_rate": rate,
        "segments": [
            _span(one.start, one.end, rate) | {"text": one.text, "confidence": one.confidence}
            for one in result.segments
        ],
        "speaker_turns": [
            _span(one.start, one.end, rate) | {"speaker": one.speaker, "confidence": one.confidence}
            for one in result.speaker_turns
        ],
        "words": [
            _span(one.start, one.end, rate) | {"word": one.text, "confidence": one.confidence}
            for one in result.words
        ],
        "artifacts": dict(result.artifacts),
        "timing": {
            "load_ms": round(1000 * done.load_s, 1),
            "wall_ms": round(1000 * done.run_s, 1),
            "audio_duration_ms": round(1000 * done.audio_s, 1),
            "rtf": round(done.run_s / done.audio_s, 4) if done.audio_s else 0.0,
        },
    }


def _span(start: int, end: int, rate: int) -> dict[str, Json]:
    scale = rate or 1
    return {
        "start": round(start / scale, 3),
        "end": round(end / scale, 3),
        "start_sample": start,
        "end_sample": end,
    }
