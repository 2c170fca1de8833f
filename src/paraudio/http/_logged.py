"""What a client sent, as it may stand in the log: no sound, no control characters, no end of it."""

import json
import re
from typing import Final

LOGGED_CHARACTERS: Final = 4096
"""How much of a body is logged."""

_SOUND: Final = frozenset({"audio", "audio_base64", "data", "file", "voice_ref"})
_DATA: Final = re.compile(r"\s*data:[\w./+-]*[;,]", re.IGNORECASE)
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/_-]{200}")
"""No word is so long; base64 is, under whatever name it came."""
_LONG_WORD: Final = 40
_LONG_TEXT: Final = 1000
_LONG_LIST: Final = 100
_DEEP: Final = 10


def quoted(value: object) -> str:
    """A JSON value on one line of ASCII, which no terminal takes for more than text."""
    return json.dumps(value, separators=(",", ":"))


def shown_body(value: object) -> str:
    """A JSON value on one line, without sound and what may be sound, cut where it is long."""
    text = quoted(_without_sound(value))
    if len(text) > LOGGED_CHARACTERS:
        return f"{text[:LOGGED_CHARACTERS]}... ({len(text)} characters)"
    return text


def _without_sound(value: object, name: str = "", depth: int = 0, *, sound: bool = False) -> object:
    """The value without strings that are sound: by their name, or that of a value around them."""
    if isinstance(value, dict | list):
        if depth == _DEEP or len(value) > _LONG_LIST:
            return f"<{len(value)} items>"
        within = sound or name in _SOUND
        if isinstance(value, dict):
            return {
                key: _without_sound(inner, key, depth + 1, sound=within)
                for key, inner in value.items()
            }
        return [_without_sound(inner, name, depth + 1, sound=within) for inner in value]
    if isinstance(value, str) and (name in _SOUND or _is_no_text(value, sound=sound)):
        return f"<{len(value)} characters>"
    return value


def _is_no_text(value: str, *, sound: bool) -> bool:
    """Whether a string is too long, or of a kind, that nobody would have written."""
    most = _LONG_WORD if sound else _LONG_TEXT
    return len(value) > most or bool(_DATA.match(value) or _ENCODED.search(value))
