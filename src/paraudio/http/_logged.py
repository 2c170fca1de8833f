"""What a client sent, as it may stand in the log: no sound, no control characters, no end of it."""

import json
from typing import Final

LOGGED_CHARACTERS: Final = 4096
"""How much of a body is logged."""

_SOUND: Final = frozenset({"audio", "audio_base64", "data", "file", "voice_ref"})
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


def _without_sound(value: object, name: str = "", depth: int = 0) -> object:
    if isinstance(value, dict | list):
        if depth == _DEEP or len(value) > _LONG_LIST:
            return f"<{len(value)} items>"
        if isinstance(value, dict):
            return {key: _without_sound(inner, key, depth + 1) for key, inner in value.items()}
        return [_without_sound(inner, name, depth + 1) for inner in value]
    if isinstance(value, str) and (name in _SOUND or len(value) > _LONG_TEXT):
        return f"<{len(value)} characters>"
    return value
