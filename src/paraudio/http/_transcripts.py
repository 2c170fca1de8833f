"""Transcripts as text, subtitles and OpenAI's verbose JSON: plain formatting of a result."""

import math
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from paraudio.engines import Result, Word
from paraudio.http._render import Timing
from paraudio.spec import Json

FORMATS: Final = ("json", "text", "srt", "vtt", "verbose_json")
"""The values of ``response_format`` for transcripts."""

GRANULARITIES: Final = ("word", "segment")

CONTENT_TYPES: Final = {
    "text": "text/plain; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}

_LINE_CHARACTERS: Final = 84
"""Two lines of 42 characters, the usual width of a subtitle."""

_LEAST_CONFIDENCE: Final = 1e-9

_PAUSE_S: Final = 0.8
"""A silence after which a new subtitle begins, in seconds."""


@dataclass(frozen=True, slots=True)
class Cue:
    """A stretch of a transcript; times in seconds."""

    start: float
    end: float
    text: str
    confidence: float | None = None


def text_of(result: Result) -> str:
    """The whole transcript; silence is an empty one."""
    if result.text is not None:
        return result.text.strip()
    parts = [segment.text for segment in result.segments] or [w.text for w in result.words]
    return " ".join(part.strip() for part in parts if part.strip())


def cues(result: Result, timing: Timing) -> list[Cue]:
    """The transcript in stretches: the family's segments, else groups of words, else one."""
    rate = result.sample_rate
    spoken = [segment for segment in result.segments if segment.text.strip()]
    if spoken and rate:
        return [Cue(s.start / rate, s.end / rate, s.text.strip(), s.confidence) for s in spoken]
    if result.words and rate:
        return [_cue(group, rate) for group in _groups(result.words, rate)]
    text = text_of(result)
    return [Cue(0.0, timing.audio_s, text)] if text else []


def subtitles(result: Result, timing: Timing) -> list[Cue]:
    """The same for reading along: what is too long for one look is cut where its words allow it."""
    rate = result.sample_rate
    return [short for cue in cues(result, timing) for short in _shortened(cue, result.words, rate)]


def _shortened(cue: Cue, words: Sequence[Word], rate: int) -> list[Cue]:
    """A cue, or its parts; the text stays as it is, also where the words have no punctuation."""
    tokens = cue.text.split()
    if len(cue.text) <= _LINE_CHARACTERS or not rate:
        return [cue]
    # Words come in order, and there may be hundreds of cues and tens of thousands of words.
    first = bisect_left(words, cue.start, key=lambda word: word.start / rate)
    last = bisect_right(words, cue.end, first, key=lambda word: word.start / rate)
    within = [word for word in words[first:last] if word.end / rate <= cue.end]
    if len(within) != len(tokens):
        return [cue]
    spoken = [replace(word, text=token) for word, token in zip(within, tokens, strict=True)]
    return [_cue(group, rate) for group in _groups(spoken, rate)]


def _groups(words: Iterable[Word], rate: int) -> list[list[Word]]:
    """Words in subtitles: a new one after a pause, after the end of a sentence, or when full."""
    groups: list[list[Word]] = []
    length = 0
    for word in words:
        last = groups[-1][-1] if groups else None
        full = length + len(word.text) + 1 > _LINE_CHARACTERS
        if last is None or full or _breaks(last, word, rate):
            groups.append([])
            length = 0
        groups[-1].append(word)
        length += len(word.text) + 1
    return groups


def _breaks(last: Word, word: Word, rate: int) -> bool:
    return word.start - last.end > _PAUSE_S * rate or last.text.endswith((".", "!", "?"))


def _cue(words: list[Word], rate: int) -> Cue:
    known = [word.confidence for word in words if word.confidence is not None]
    text = " ".join(word.text for word in words)
    mean = sum(known) / len(known) if known else None
    return Cue(words[0].start / rate, words[-1].end / rate, text, mean)


def srt(result: Result, timing: Timing) -> str:
    """SubRip: numbered cues, commas before the milliseconds."""
    return "".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{_flat(cue.text)}\n\n"
        for number, cue in enumerate(subtitles(result, timing), 1)
    )


def vtt(result: Result, timing: Timing) -> str:
    """WebVTT, with the characters escaped that mean something in it."""
    found = subtitles(result, timing)
    return "WEBVTT\n\n" + "".join(
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_escaped(_flat(cue.text))}\n\n"
        for cue in found
    )


def plain(result: Result, timing: Timing) -> str:
    """The text and a line end, as OpenAI's ``text`` format has it."""
    del timing
    return text_of(result) + "\n"


RAW: Final[dict[str, Callable[[Result, Timing], str]]] = {"text": plain, "srt": srt, "vtt": vtt}
"""The formats that are not JSON."""


def _flat(text: str) -> str:
    """A cue's text without blank lines, which would end it."""
    return "\n".join(line for line in text.splitlines() if line.strip())


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(seconds: float, mark: str) -> str:
    total = round(seconds * 1000)
    hours, rest = divmod(total, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}{mark}{rest % 1000:03d}"


def short_json(result: Result, timing: Timing) -> dict[str, Json]:
    """``{text, timing}``."""
    return {"text": text_of(result), "timing": timing.json()}


def verbose_json(
    result: Result, timing: Timing, *, granularities: Iterable[str], temperature: float
) -> dict[str, Json]:
    """OpenAI's ``verbose_json``.

    Args:
        result: What was heard.
        timing: How long that took.
        granularities: ``word`` and ``segment``: the lists that are wanted.
        temperature: What the request asked for, as clients expect it back.
    """
    rate = result.sample_rate
    verbose: dict[str, Json] = {
        "task": "transcribe",
        "language": result.language or "",
        "duration": round(timing.audio_s, 3),
        "text": text_of(result),
    }
    if "segment" in granularities:
        verbose["segments"] = [
            _segment(number, cue, temperature) for number, cue in enumerate(cues(result, timing))
        ]
    if "word" in granularities:
        verbose["words"] = [
            {
                "word": word.text,
                "start": round(word.start / rate, 3) if rate else 0.0,
                "end": round(word.end / rate, 3) if rate else 0.0,
            }
            for word in result.words
        ]
    return {**verbose, "timing": timing.json()}


def _logarithm(confidence: float) -> float:
    return round(math.log(max(confidence, _LEAST_CONFIDENCE)), 4)


def _segment(number: int, cue: Cue, temperature: float) -> dict[str, Json]:
    """A segment with every field that typed clients of OpenAI insist on.

    ``avg_logprob`` is the logarithm of the confidence, 0 where none is known (and for none at all a
    number far below every threshold, as JSON has no infinity); the compression ratio
    is the one that Whisper computes; ``tokens`` and ``no_speech_prob`` have no counterpart here.
    """
    data = cue.text.encode()
    return {
        "id": number,
        "seek": 0,
        "start": round(cue.start, 3),
        "end": round(cue.end, 3),
        "text": cue.text,
        "tokens": [],
        "temperature": temperature,
        "avg_logprob": 0.0 if cue.confidence is None else _logarithm(cue.confidence),
        "compression_ratio": round(len(data) / len(zlib.compress(data)), 4) if data else 0.0,
        "no_speech_prob": 0.0,
    }
