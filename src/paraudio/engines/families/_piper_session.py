"""A session of a Piper voice: text in, sound out, utterance by utterance."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from paraudio.engines._ort import OrtSession, Tensor
from paraudio.engines._pieces import text_piece
from paraudio.engines._stop import Stop
from paraudio.engines._text import GrowingText, Utterance
from paraudio.engines._values import Audio, Job, Piece, Result, Samples, StreamEvent
from paraudio.engines.families._piper_graph import NOISE_INPUT
from paraudio.engines.families._piper_phonemes import pieces, silent_piece
from paraudio.engines.families._piper_request import (
    Speech,
    check_length,
    read_job,
    read_live_job,
)
from paraudio.engines.families._piper_script import unread, warnings
from paraudio.engines.families._piper_voice import PiperVoice
from paraudio.errors import InvalidRequestError

# A frame of sound needs one number for each of 192 channels (Piper's inter_channels), and a
# phoneme's number comes to two frames at normal speed. The row is read again from its start where
# that is too few, so these set what is worth drawing, not what works.
_CHANNELS: Final = 192
_FRAMES: Final = 4

_SILENCE: Final = 1e-8


@dataclass(slots=True)
class _Live:
    """A live job: what it asks for, the text that came, and the sound that was made of it."""

    speech: Speech
    text: GrowingText = field(default_factory=GrowingText)
    characters: int = 0
    parts: list[Samples] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


class PiperSession:
    """Speaks. What changes in a run lives in the run, what changes in a live job until its reset.

    Sessions share only what nobody changes.
    """

    def __init__(self, voice: PiperVoice, model: OrtSession, max_characters: int) -> None:
        self._voice = voice
        self._model: OrtSession | None = model
        self._max_characters = max_characters
        self._inputs = frozenset(info.name for info in model.inputs)
        self._live: _Live | None = None

    def prepare(self, job: Job) -> object:
        """Check a job, cut its text, and make sure that some of it can be spoken.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        speech = read_job(
            job,
            self._voice,
            max_characters=self._max_characters,
            can_seed=NOISE_INPUT in self._inputs,
        )
        for index, utterance in enumerate(speech.utterances):
            if next(pieces(self._voice, utterance), None) is not None:
                return dataclasses.replace(speech, utterances=speech.utterances[index:])
        raise _unspeakable()

    def run(self, prepared: object, stop: Stop) -> Result:
        """Speak all of it.

        Raises:
            Stopped: ``stop`` was set; the session is as good as before.
        """
        speech = _speech(prepared)
        return self._whole(list(self._sound(speech, stop)), speech.unread)

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        """Yield the sound of each utterance as soon as it is there, then the whole.

        Raises:
            Stopped: ``stop`` was set; the session is as good as before.
        """
        parts: list[Samples] = []
        speech = _speech(prepared)
        for part in self._sound(speech, stop):
            parts.append(part)
            yield StreamEvent(audio=Audio(part, self._voice.rate))
        yield StreamEvent(result=self._whole(parts, speech.unread))

    def begin(self, job: Job, stop: Stop) -> None:  # noqa: ARG002 - takes no time
        """Check a live job.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        self._live = _Live(read_live_job(job, self._voice, can_seed=NOISE_INPUT in self._inputs))

    def feed(self, piece: Piece, stop: Stop) -> Sequence[StreamEvent]:
        """Speak each sentence that is whole by now.

        Raises:
            InvalidRequestError: It is no text, or makes the text too long.
            Stopped: ``stop`` was set; the session is as good as before.
        """
        live, text = self._begun(), text_piece(piece)
        live.characters += len(text)
        check_length(live.characters, self._max_characters)
        found = unread(self._voice, text)
        live.unread += [] if found is None else found.scripts
        return self._spoken(live, live.text.push(text), stop)

    def finish(self, stop: Stop) -> Sequence[StreamEvent]:
        """Speak the rest, and give the whole: what ``run`` makes of the same text and seed.

        Raises:
            InvalidRequestError: Nothing of the text can be spoken.
            Stopped: ``stop`` was set; the session is as good as before.
        """
        live = self._begun()
        events = self._spoken(live, live.text.end(), stop)
        if not live.parts:
            raise _unspeakable()
        return [*events, StreamEvent(result=self._whole(live.parts, live.unread))]

    def reset(self) -> None:
        """Forget a live job, and speak next to nothing, to prove that the model still does."""
        self._live = None
        scales = np.array([0, 1, 0], dtype=np.float32)
        speech = Speech((), scales, speaker=0, silence=0, normalize=False, seed=0, limit=1)
        self._speak(silent_piece(self._voice), speech, 0, Stop())

    def close(self) -> None:
        """Let go of the model's weights."""
        self._model = self._live = None

    def _begun(self) -> _Live:
        if self._live is None:
            raise RuntimeError("no live job has begun")
        return self._live

    def _spoken(self, live: _Live, utterances: list[Utterance], stop: Stop) -> list[StreamEvent]:
        before = len(live.parts)
        for utterance in utterances:
            count = len(live.parts)
            live.parts += self._utter(utterance, live.speech, count, stop)
        return [StreamEvent(audio=Audio(part, self._voice.rate)) for part in live.parts[before:]]

    def _whole(self, parts: list[Samples], unread: Iterable[str]) -> Result:
        told = warnings(self._voice, unread)
        return Result(
            audio=Audio(np.concatenate(parts), self._voice.rate),
            language=self._voice.language.replace("_", "-") or None,
            artifacts={"warnings": told} if told else {},
        )

    def _sound(self, speech: Speech, stop: Stop) -> Iterator[Samples]:
        """The sound of each piece of each utterance."""
        count = 0
        for utterance in speech.utterances:
            for part in self._utter(utterance, speech, count, stop):
                yield part
                count += 1

    def _utter(
        self, utterance: Utterance, speech: Speech, count: int, stop: Stop
    ) -> Iterator[Samples]:
        """The sound of each piece of an utterance, behind ``count`` others, silence before it."""
        silence = np.zeros(speech.silence if count else 0, dtype=np.float32)
        for index, numbers in enumerate(pieces(self._voice, utterance, speech.limit)):
            sound = self._speak(numbers, speech, count + index, stop)
            yield sound if index else np.concatenate((silence, sound))

    def _speak(self, numbers: list[int], speech: Speech, count: int, stop: Stop) -> Samples:
        """One run of the model: shape [samples]."""
        if self._model is None:
            raise RuntimeError("the session is closed")
        feeds: dict[str, Tensor] = {
            "input": np.array([numbers], dtype=np.int64),
            "input_lengths": np.array([len(numbers)], dtype=np.int64),
            "scales": speech.scales,
        }
        if "sid" in self._inputs:
            feeds["sid"] = np.array([speech.speaker], dtype=np.int64)
        if NOISE_INPUT in self._inputs:
            feeds[NOISE_INPUT] = _noise(speech, len(numbers), count)
        outputs = self._model.run(feeds, stop, shrink=True)
        samples = np.asarray(outputs[0], dtype=np.float32).reshape(-1)
        peak = float(np.max(np.abs(samples), initial=0.0))
        if speech.normalize and peak > _SILENCE:
            samples = samples / np.float32(peak)
        return np.clip(samples, -1.0, 1.0)


def _unspeakable() -> InvalidRequestError:
    return InvalidRequestError(
        "input holds nothing that this voice can speak; send words", param="input"
    )


def _noise(speech: Speech, numbers: int, count: int) -> Samples:
    """The row of noise of one run: the same for the same seed and the same place in the text."""
    size = math.ceil(numbers * _CHANNELS * _FRAMES * max(1.0, float(speech.scales[1])))
    if not speech.scales[[0, 2]].any():
        return np.zeros(1, dtype=np.float32)
    generator = np.random.Generator(np.random.PCG64([speech.seed, count]))
    return generator.standard_normal(size, dtype=np.float32)


def _speech(prepared: object) -> Speech:
    if not isinstance(prepared, Speech):
        raise TypeError(f"not a prepared job: {prepared!r}")
    return prepared
