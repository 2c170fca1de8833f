"""What a request asks of a Piper voice: checked, and in the voice's own terms."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from paraudio.engines._options import (
    Option,
    check_options,
    flag_option,
    number_option,
    whole_option,
)
from paraudio.engines._text import Utterance, utterances
from paraudio.engines._values import Job, Samples
from paraudio.engines.families._piper_phonemes import MAX_PHONEMES
from paraudio.engines.families._piper_script import check_readable
from paraudio.engines.families._piper_voice import PiperVoice
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

SLOWEST: Final = 0.25
FASTEST: Final = 4.0
_FEWEST_PHONEMES: Final = 20

REQUEST_OPTIONS: Final = (
    Option(
        name="noise_scale",
        kind=float,
        default=None,
        minimum=0,
        maximum=2,
        doc="How much the sound varies from one speaking to the next; 0 always speaks the same.",
    ),
    Option(
        name="length_scale",
        kind=float,
        default=None,
        minimum=SLOWEST,
        maximum=FASTEST,
        doc="How long the sounds are: 1 is normal, 2 takes twice the time; speed divides it.",
    ),
    Option(
        name="noise_w",
        kind=float,
        default=None,
        minimum=0,
        maximum=2,
        doc="How much the lengths of the sounds vary.",
    ),
    Option(
        name="speaker_id",
        kind=int,
        default=None,
        minimum=0,
        doc="Number of the speaker, for voices that have several; a named voice wins over it.",
    ),
    Option(
        name="sentence_silence_ms",
        kind=int,
        default=200,
        minimum=0,
        maximum=10_000,
        doc="Silence between two sentences, in milliseconds.",
    ),
    Option(
        name="normalize",
        kind=bool,
        default=True,
        doc="Bring each sentence to full volume, as Piper does.",
    ),
)


@dataclass(frozen=True, slots=True)
class Speech:
    """A checked request.

    Attributes:
        utterances: The text, cut.
        scales: noise_scale, length_scale and noise_w: shape [3], float32.
        speaker: Number of the speaker; 0 where there is only one.
        silence: Samples between two sentences.
        normalize: Whether each sentence is brought to full volume.
        seed: What the noise is drawn from.
        limit: The most phonemes of one run.
        unread: The scripts of words that the voice does not read.
    """

    utterances: tuple[Utterance, ...]
    scales: Samples
    speaker: int
    silence: int
    normalize: bool
    seed: int
    limit: int
    unread: tuple[str, ...] = ()


def read_job(job: Job, voice: PiperVoice, *, max_characters: int, can_seed: bool) -> Speech:
    """Check a job against a voice.

    Args:
        job: The job.
        voice: The voice that is to speak.
        max_characters: The longest text taken.
        can_seed: Whether the model takes its noise from us.

    Raises:
        InvalidRequestError: Something is wrong; ``param`` names the field.
    """
    speech = read_live_job(job, voice, can_seed=can_seed)
    text = job.text or ""
    if not text:
        raise InvalidRequestError("input must be the text to speak; it is empty", param="input")
    check_length(len(text), max_characters)
    unread = check_readable(voice, text)
    return replace(speech, utterances=tuple(utterances(text)), unread=unread)


def read_live_job(job: Job, voice: PiperVoice, *, can_seed: bool) -> Speech:
    """Check a job whose text is still to come; the arguments and errors of `read_job`."""
    options = check_options(job.options, REQUEST_OPTIONS, param="options")
    if job.task != "tts":
        raise InvalidRequestError(f"this model does tts, not {job.task}", param="task")
    if job.voice.reference is not None:
        raise InvalidRequestError(
            "voice_ref: this model speaks with voices of its own and imitates none",
            param="voice_ref",
        )
    _check_language(job.language, voice)
    scales = _scales(job.speed, options, voice)
    if job.seed is not None and not can_seed and scales[[0, 2]].any():
        raise InvalidRequestError(
            "seed has no effect on this model, whose graph draws its noise itself; set the options "
            "noise_scale and noise_w to 0 for the same sound each time",
            param="seed",
        )
    return Speech(
        utterances=(),
        scales=scales,
        speaker=_speaker(job.voice.name, options, voice),
        silence=voice.rate * whole_option(options, "sentence_silence_ms") // 1000,
        normalize=flag_option(options, "normalize"),
        seed=secrets.randbits(64) if job.seed is None else job.seed,
        limit=max(round(MAX_PHONEMES / max(1.0, float(scales[1]))), _FEWEST_PHONEMES),
    )


def check_length(count: int, most: int) -> None:
    """Refuse a text that is too long.

    Raises:
        InvalidRequestError: It has more than ``most`` characters.
    """
    if count > most:
        raise InvalidRequestError(
            f"input has {count} characters; up to {most} are spoken at once (the model's "
            "session option max_characters)",
            param="input",
        )


def _check_language(language: str | None, voice: PiperVoice) -> None:
    """A voice has one language; any region of it will do."""
    if not language or not voice.language:
        return
    asked, own = (tag.replace("_", "-").split("-")[0].lower() for tag in (language, voice.language))
    if asked != own:
        raise InvalidRequestError(
            f"language must be {own} for this voice, not {language!r}", param="language"
        )


def _scales(speed: float | None, options: Mapping[str, Json], voice: PiperVoice) -> Samples:
    """The three scales; ``speed`` is how many times faster than ``length_scale`` says."""
    noise, length, noise_w = (
        default if options[name] is None else number_option(options, name)
        for name, default in (
            ("noise_scale", voice.noise_scale),
            ("length_scale", voice.length_scale),
            ("noise_w", voice.noise_w),
        )
    )
    factor = 1.0 if speed is None else speed
    if not SLOWEST <= factor <= FASTEST:
        raise InvalidRequestError(
            f"speed must be a number from {SLOWEST} to {FASTEST:g}, not {speed!r}", param="speed"
        )
    return np.array([noise, length / factor, noise_w], dtype=np.float32)


def _speaker(name: str | None, options: Mapping[str, Json], voice: PiperVoice) -> int:
    """The number of the speaker that the voice's name, else the option, says; else the first.

    A voice with a single speaker takes any name: clients must send one, and there is no choice.
    """
    if name and voice.speakers > 1:
        if name not in voice.speaker_ids:
            known = ", ".join(sorted(voice.speaker_ids)[:20])
            raise InvalidRequestError(f"voice must be one of {known}, not {name!r}", param="voice")
        return voice.speaker_ids[name]
    if options["speaker_id"] is None:
        return 0
    number = whole_option(options, "speaker_id")
    if number >= voice.speakers:
        raise InvalidRequestError(
            f"options.speaker_id must be less than {voice.speakers}, the number of this voice's "
            f"speakers, not {number}",
            param="options.speaker_id",
        )
    return number
