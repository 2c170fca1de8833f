"""A journal file: a first line that names format, version and process start, then events.

Each line is one JSON object and ends with a line feed; a line without one was torn off.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from paraudio.journal._events import Event, Kind
from paraudio.journal._facts import flaw
from paraudio.spec import Json

FORMAT: Final = "paraudio-journal"
VERSION: Final = 1
HEADER_BEGINS: Final = f'{{"format": "{FORMAT}"'.encode()
"""How the file of a journal begins, of whatever version."""


class JournalError(ValueError):
    """A file that is no journal, or no whole one; ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a journal.

    Attributes:
        version: The version of the format.
        started: When the process started recording: wall-clock time, ISO 8601, UTC.
        at: The same moment in seconds of the server's monotonic clock.
        pid: The process.
    """

    version: int
    started: str
    at: float
    pid: int


def new_header(at: float) -> Header:
    """The header of a journal that starts now."""
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Header(VERSION, started, at, os.getpid())


def encode_header(header: Header) -> bytes:
    """The first line."""
    line = {
        "format": FORMAT,
        "version": header.version,
        "started": header.started,
        "at": header.at,
        "pid": header.pid,
    }
    return json.dumps(line).encode() + b"\n"


def encode_events(events: Sequence[Event]) -> str:
    """Their lines; what JSON cannot say is written as its ``repr``, since recording never fails.

    This is most of what a file costs, so the facts of many events are encoded in one call: an
    encoder takes longer to set itself up than to do its work.
    """
    return "".join(
        [
            _encode_some(events[first : first + _AT_ONCE])
            for first in range(0, len(events), _AT_ONCE)
        ]
    )


def encode_event(event: Event) -> bytes:
    """One line; see `encode_events`."""
    return encode_events([event]).encode()


def _encode_some(events: Sequence[Event]) -> str:
    facts = _encode_facts([event.facts for event in events])
    return "".join(
        [
            f'{{"seq":{seq},"at":{at:.6f},"kind":"{kind}",'
            f'"model":{"null" if model is None else _quote(model)},"facts":{text}}}\n'
            for (seq, at, kind, model, _), text in zip(events, facts, strict=True)
        ]
    )


def _encode_facts(facts: list[dict[str, Json]]) -> list[str]:
    """Each as a JSON object."""
    # JSON has no line feeds inside of its strings, so those of the encoder are all separators.
    whole = _ENCODER.encode(facts)[1:-1]
    parts = whole.replace("}\n{", "}\0{").replace("\n", ",").split("\0")
    if len(parts) != len(facts):  # some fact is itself a list of objects, and was cut
        parts = [_ENCODER.encode(each).replace("\n", ",") for each in facts]
    return parts


_AT_ONCE: Final = 256
"""Events that are encoded in one call, which lets no other thread run."""
_ENCODER: Final = json.JSONEncoder(default=repr, separators=("\n", ":"))
_KINDS: Final[Mapping[str, Kind]] = {kind.value: kind for kind in Kind}
_quote: Final = json.encoder.encode_basestring_ascii


def decode_header(line: bytes) -> Header:
    """Read the first line.

    Raises:
        JournalError: It is not that of a journal of a version that is known here.
    """
    found = _object(line, 1)
    if found.get("format") != FORMAT:
        raise JournalError(1, f"not a journal: the first line must name the format {FORMAT!r}")
    if found.get("version") != VERSION:
        raise JournalError(1, f"version {found.get('version')!r} of the format is not known here")
    match found:
        case {"started": str(started), "at": float() | int() as at, "pid": int(pid)}:
            return Header(VERSION, started, at, pid)
        case _:
            raise JournalError(1, "the header lacks 'started', 'at' or 'pid'")


def decode_event(line: bytes, number: int) -> Event:
    """Read the line with the given number.

    Raises:
        JournalError: It is not an event with all its facts.
    """
    found = _object(line, number)
    if found.get("format") == FORMAT:
        raise JournalError(number, "another journal begins here; check each file by itself")
    match found:
        case {
            "seq": int(seq),
            "at": float() | int() as at,
            "kind": str(kind),
            "model": (str() | None) as model,
            "facts": dict(facts),
        } if len(found) == 5:
            pass
        case _:
            raise JournalError(
                number, "an event has exactly seq, at, kind, model and facts, each of its type"
            )
    known = _KINDS.get(kind)
    if known is None:
        raise JournalError(number, f"unknown kind {kind!r}")
    event = Event(seq, at, known, model, facts)
    if (wrong := flaw(event)) is not None:
        raise JournalError(number, wrong)
    return event


def _object(line: bytes, number: int) -> dict[str, Json]:
    """Read a line that must be one JSON object."""
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise JournalError(number, f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise JournalError(number, "not a JSON object")
    return found
