"""What ``paraudio run`` is asked for, checked before anything is fetched or loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paraudio.audio import FORMATS
from paraudio.cli._whole import check_place
from paraudio.config import expanded
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the command line asks for; ``audio`` is a sound file, still encoded."""

    text: str | None = None
    audio: bytes | None = None
    voice: str | None = None
    language: str | None = None
    speed: float | None = None
    prompt: str | None = None
    seed: int | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    output: str | None = None


def check(ask: Ask, spec: ModelSpec) -> None:
    """Refuse what does not fit the task, before anything is fetched or loaded.

    Raises:
        InvalidRequestError: Something is missing or too much.
    """
    name = f"{spec.id} ({spec.task})"
    needs_text, needs_audio = spec.task in {"tts", "align"}, spec.task != "tts"
    if needs_text and ask.text is not None and not ask.text.strip():
        raise InvalidRequestError(f"{name} needs a text with something in it", param="text")
    if needs_text and ask.text is None:
        raise InvalidRequestError(f"{name} needs --text or --text-file", param="text")
    if needs_audio and ask.audio is None:
        raise InvalidRequestError(f"{name} needs --audio", param="audio")
    if not needs_text and ask.text is not None:
        raise InvalidRequestError(f"{name} takes no text", param="text")
    if not needs_audio and ask.audio is not None:
        raise InvalidRequestError(f"{name} takes no --audio", param="audio")
    if spec.task != "tts" and ask.output is not None:
        raise InvalidRequestError(f"{name} makes no sound for -o; redirect the output", param="-o")
    if spec.task == "tts" and ask.output is None:
        raise InvalidRequestError(f"{name} needs -o FILE.wav for its speech", param="-o")
    if ask.output is not None and ask.output != "-":
        _check_output(ask.output)


def _check_output(output: str) -> None:
    """Refuse a file that cannot be written now: the work may take long, and would be lost."""
    kind = Path(output).suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        names = ", ".join(f".{known}" for known in FORMATS)
        raise InvalidRequestError(
            f"-o must end in one of {names}, or be -, not {output}", param="-o"
        )
    try:
        check_place(expanded(output))
    except OSError as error:
        raise InvalidRequestError(
            f"{output} cannot be written: {error.strerror}", param="-o"
        ) from None
