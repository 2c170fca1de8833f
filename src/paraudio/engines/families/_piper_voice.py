"""The description that lies beside a Piper voice: ``<voice>.onnx.json``."""

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

PAD: Final = "_"
BOS: Final = "^"
EOS: Final = "$"

_MAX_BYTES: Final = 4 << 20
_MAX_SPEAKERS: Final = 1 << 16
_TYPES: Final = ("espeak", "text")


@dataclass(frozen=True, slots=True)
class PiperVoice:
    """What a voice needs of the text, and what it speaks like.

    Attributes:
        rate: Sample rate, in Hz.
        phoneme_type: ``espeak``, or ``text`` for voices that read letters.
        espeak_voice: The espeak-ng voice that makes the phonemes.
        ids: The numbers of each phoneme.
        replaced: What stands for a phoneme before it becomes numbers.
        speakers: Number of speakers; 1 where the model takes none.
        speaker_ids: The number of each speaker by name; by its number where it has no name.
        language: Tag like ``en_US``, or "".
        noise_scale: Default of how much the sound varies.
        length_scale: Default of how long the sounds are.
        noise_w: Default of how much their lengths vary.
        quality: ``low`` to ``high``, or "".
    """

    rate: int
    phoneme_type: str
    espeak_voice: str
    ids: Mapping[str, tuple[int, ...]]
    replaced: Mapping[str, tuple[str, ...]]
    speakers: int
    speaker_ids: Mapping[str, int]
    language: str
    noise_scale: float
    length_scale: float
    noise_w: float
    quality: str


def read_voice(file: Path) -> PiperVoice:
    """Read a voice's description.

    Raises:
        InvalidRequestError: There is none, or it describes no Piper voice; names ``config``.
    """
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise _bad("is no regular file")  # a pipe would keep whoever opens it waiting
        with file.open("rb") as opened:
            raw = opened.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise _bad(f"is larger than {_MAX_BYTES} bytes")
        parsed: Json = json.loads(raw)
    except OSError as error:
        raise InvalidRequestError(
            f"config: a Piper voice needs its description beside it; cannot read {str(file)!r} "
            f"({error.strerror})",
            param="config",
        ) from error
    except (ValueError, RecursionError) as error:
        raise _bad("is no JSON") from error
    return _voice(_Reader(parsed, "").mapping())


def _voice(top: "_Reader") -> PiperVoice:
    phoneme_type = top.get("phoneme_type").text("espeak")
    if phoneme_type not in _TYPES:
        raise _bad(f"has phoneme_type {phoneme_type!r}; known here: " + ", ".join(_TYPES))
    inference = top.get("inference").mapping(optional=True)
    ids = {name: each.numbers() for name, each in top.get("phoneme_id_map").mapping().items()}
    for needed in (PAD, BOS, EOS):
        if not ids.get(needed):
            raise _bad(f"has no {needed!r} in phoneme_id_map")
    audio, espeak = top.get("audio").mapping(), top.get("espeak").mapping(optional=True)
    replaced = top.get("phoneme_map").mapping(optional=True)
    speakers = top.get("num_speakers").whole(1, _MAX_SPEAKERS, default=1)
    named = top.get("speaker_id_map").mapping(optional=True).items()
    speaker_ids = {name: each.whole(0, speakers - 1) for name, each in named}
    language = top.get("language").mapping(optional=True)
    return PiperVoice(
        rate=audio.get("sample_rate").whole(1000, 384_000),
        phoneme_type=phoneme_type,
        espeak_voice=espeak.get("voice").text("" if phoneme_type == "text" else None),
        ids=ids,
        replaced={name: each.texts() for name, each in replaced.items()},
        speakers=speakers,
        speaker_ids=speaker_ids or {str(number): number for number in range(speakers)},
        language=language.get("code").text(""),
        noise_scale=inference.get("noise_scale").number(0.667),
        length_scale=inference.get("length_scale").number(1.0),
        noise_w=inference.get("noise_w").number(0.8),
        quality=audio.get("quality").text(""),
    )


def _bad(what: str) -> InvalidRequestError:
    return InvalidRequestError(f"config: the voice's description {what}", param="config")


class _Reader:
    """A JSON value and the way to it, so that what is wrong can be named."""

    def __init__(self, value: Json, where: str) -> None:
        self._value = value
        self._where = where

    def mapping(self, *, optional: bool = False) -> "_Reader":
        """Itself, if it is an object; an empty one where it may be missing."""
        if self._value is None and optional:
            return _Reader({}, self._where)
        if not isinstance(self._value, dict):
            raise self._wrong("an object")
        return self

    def get(self, key: str) -> "_Reader":
        """The value of a key, or null."""
        value = cast("dict[str, Json]", self._value).get(key)
        return _Reader(value, f"{self._where}.{key}".lstrip("."))

    def items(self) -> list[tuple[str, "_Reader"]]:
        """The keys and values of an object."""
        keys = cast("dict[str, Json]", self._value)
        return [(key, self.get(key)) for key in keys]

    def text(self, default: str | None) -> str:
        """A string."""
        value = default if self._value is None else self._value
        if not isinstance(value, str):
            raise self._wrong("a string")
        return value

    def texts(self) -> tuple[str, ...]:
        """A list of strings."""
        if not isinstance(self._value, list) or not all(isinstance(x, str) for x in self._value):
            raise self._wrong("a list of strings")
        return tuple(map(str, self._value))

    def number(self, default: float) -> float:
        """A number from 0 to 100."""
        value = default if self._value is None else self._value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
            raise self._wrong("a number from 0 to 100")
        return float(value)

    def whole(self, low: int, high: int, default: int | None = None) -> int:
        """A whole number in a range."""
        value = default if self._value is None else self._value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(f"a whole number from {low} to {high}")
        return value

    def numbers(self) -> tuple[int, ...]:
        """A list of whole numbers; older voices write a single one without the list."""
        values = self._value if isinstance(self._value, list) else [self._value]
        return tuple(_Reader(value, self._where).whole(0, 1 << 20) for value in values)

    def _wrong(self, wanted: str) -> InvalidRequestError:
        return _bad(f"needs {wanted} at {self._where or 'its top'}")
