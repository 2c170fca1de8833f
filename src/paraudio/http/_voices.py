"""Which voice a request speaks with.

The first that fits: the request's own recording, a preset of the model, a recording in
``voice_dir``, a voice of the family itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paraudio.config import Settings
from paraudio.engines import Audio, Voice
from paraudio.errors import (
    BackendError,
    InvalidRequestError,
    ParaudioError,
    PayloadTooLargeError,
)
from paraudio.http._fields import Fields, refusal
from paraudio.http._sources import MAX_VOICE_BYTES, OnServer, Source, source_field
from paraudio.spec import ModelSpec, VoicePreset

TRANSCRIPTS: Final = "prompt_text"
"""The file in ``voice_dir`` with a line ``name|what is said`` for each recording."""

_WANTS_NAME: Final = "the bare name of a voice, without a path"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceAsk:
    """What a request says of its voice.

    Attributes:
        name: A bare name, or None for the model's default.
        reference: A recording to imitate, or None.
        reference_text: What is said in it, or None.
        param: The field that holds the name, for messages.
        reference_param: The field that holds the recording.
    """

    name: str | None = None
    reference: Source | None = None
    reference_text: str | None = None
    param: str = "voice"
    reference_param: str = "voice_ref"


def voice_fields(fields: Fields, name: str = "voice") -> VoiceAsk:
    """Read the voice of a request.

    A voice is a string or, as newer OpenAI clients send it, ``{id}``; an empty one is none.

    Raises:
        InvalidRequestError: A field has the wrong kind, or the name is no bare name.
    """
    value = fields.get(name)
    holder = fields
    key = name
    if isinstance(value, dict):
        holder, key = fields.within(name, value), "id"
    given = holder.text(key)
    return VoiceAsk(
        name=None if given is None or not given.strip() else bare(given, holder.param(key)),
        reference=source_field(fields, "voice_ref", max_bytes=MAX_VOICE_BYTES),
        reference_text=fields.text("reference_text"),
        param=holder.param(key),
        reference_param=fields.param("voice_ref"),
    )


def bare(name: str, param: str) -> str:
    """A name that cannot lead anywhere in a file system.

    Raises:
        InvalidRequestError: It has a separator, a drive, ``..`` or an unprintable character. The
            message does not repeat it.
    """
    name = name.strip()
    if not _is_bare(name):
        raise InvalidRequestError(f"{param} must be {_WANTS_NAME}", param=param)
    return name


def _is_bare(name: str) -> bool:
    bad = any(mark in name for mark in ("/", "\\", ":", "..")) or name.startswith(".")
    return not bad and name.isprintable() and len(name) <= 200


def resolve(
    ask: VoiceAsk,
    spec: ModelSpec,
    settings: Settings,
    *,
    imitates: bool,
    roots: Iterable[str],
    check: Callable[[], None],
) -> Voice:
    """Find the voice that a request asked for; reads files, so it blocks.

    Args:
        ask: What the request said.
        spec: The model that it is bound to.
        settings: The server's, for ``voice_dir``.
        imitates: Whether the model's family can do anything with a recording; where it cannot, the
            recordings in ``voice_dir`` are none of its voices.
        roots: Folders that server-local paths may lie in.
        check: Called between blocks of work; raises to end it.

    Returns:
        The voice. A ``name`` in it is still to be confirmed by the loaded model (`confirm`).

    Raises:
        InvalidRequestError: A recording cannot be read or decoded.
        BackendError: The same of the default preset, which the request did not name.
    """
    limit = settings.max_request_body_bytes
    if ask.reference is not None:
        return Voice(None, ask.reference.decode(roots, limit, check), ask.reference_text)
    preset = _preset(ask, spec)
    if preset is not None:
        if preset.voice_ref is None:
            return Voice(preset.voice_id)
        source = OnServer(preset.voice_ref, ask.param)
        try:
            sound = source.decode([*roots, str(Path(preset.voice_ref).parent)], limit, check)
        except (InvalidRequestError, PayloadTooLargeError) as error:
            raise _unusable(ask, spec, "its recording cannot be read or decoded") from error
        return Voice(None, sound, ask.reference_text or preset.reference_text)
    recorded = _recorded(ask, settings, check) if imitates else None
    if recorded is not None:
        sound, text = recorded
        return Voice(None, sound, ask.reference_text or text)
    return Voice(ask.name)


def no_imitation(spec: ModelSpec, param: str) -> InvalidRequestError:
    """What a request is told that brings a recording to a model that cannot imitate one."""
    return InvalidRequestError(
        f"{param} has no effect on model {spec.id!r}: as a model for {spec.task} of family "
        f"{spec.family!r} it imitates no recording; leave it out",
        param=param,
    )


def _unusable(ask: VoiceAsk, spec: ModelSpec, why: str) -> ParaudioError:
    """A preset is at fault: a caller who named it can name another, any other cannot help it."""
    if ask.name is None:
        return BackendError(
            f"the default voice preset of model {spec.id!r} cannot be used: {why}; a request may "
            f"name another voice in {ask.param}"
        )
    return InvalidRequestError(
        f"{ask.param} names a preset of model {spec.id!r} that cannot be used: {why}",
        param=ask.param,
    )


def confirm(voice: Voice, known: tuple[str, ...], ask: VoiceAsk, spec: ModelSpec) -> Voice:
    """Check a voice against those that the loaded model has.

    Args:
        voice: What `resolve` found.
        known: The voices of the model.
        ask: What the request said.
        spec: The model that it is bound to.

    Returns:
        The voice. A model that lists no voices makes of a name what it likes: clients send the
        names of other servers' voices as a matter of course.

    Raises:
        InvalidRequestError: The model lists its voices, and this is none of them.
        BackendError: The same of the default preset, which the request did not name.
    """
    if voice.name is None or not known or voice.name in known:
        return voice
    listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    if voice.name != ask.name:
        raise _unusable(ask, spec, f"there is no voice {voice.name!r} in {listed}")
    raise refusal(ask.param, f"one of {listed}", voice.name)


def _preset(ask: VoiceAsk, spec: ModelSpec) -> VoicePreset | None:
    if ask.name is not None:
        return spec.voice_presets.get(ask.name)
    default = spec.default_voice_preset
    return spec.voice_presets.get(default) if isinstance(default, str) else default


def _recorded(
    ask: VoiceAsk, settings: Settings, check: Callable[[], None]
) -> tuple[Audio, str | None] | None:
    """The recording of that name in ``voice_dir``, and what is said in it; None where none is."""
    if settings.voice_dir is None or ask.name is None:
        return None
    folder = Path(settings.voice_dir)
    path = folder / f"{ask.name}.wav"
    if not _is_file(path):
        return None
    source = OnServer(str(path.absolute()), ask.param)
    sound = source.decode([str(folder.absolute())], settings.max_request_body_bytes, check)
    return sound, transcripts(folder).get(ask.name)


def transcripts(folder: Path) -> dict[str, str]:
    """What is said in the recordings of a folder, by name; lines that say nothing are skipped."""
    try:
        lines = (folder / TRANSCRIPTS).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("|") for line in lines)
    return {name.strip(): text.strip() for name, bar, text in pairs if bar and name.strip()}


def recordings(settings: Settings) -> list[str]:
    """The names of the recordings in ``voice_dir`` that a request can ask for.

    Reads a folder, so it blocks.
    """
    if settings.voice_dir is None:
        return []
    try:
        paths = list(Path(settings.voice_dir).iterdir())
    except OSError:
        return []
    return [path.stem for path in paths if path.suffix == ".wav" and _is_voice(path)]


def _is_voice(path: Path) -> bool:
    name = path.stem
    return _is_bare(name) and name == name.strip() and _is_file(path)


def _is_file(path: Path) -> bool:
    """Whether there is such a file, as far as one may look."""
    try:
        return path.is_file()
    except OSError:  # a name of more bytes than one may have, a link to where one may not look
        return False
