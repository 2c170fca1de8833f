"""Piper voices: fast speech from a ``.onnx`` file and the ``.onnx.json`` beside it.

Any voice that was exported for Piper works, whether it reads espeak's phonemes or letters, with one
speaker or many. Text is spoken utterance by utterance, so that the first sound comes early and the
memory stays within bounds. One onnxruntime session serves all sessions of a model: its runs may
overlap, and they share nothing, not even a random generator, for the noise is drawn outside (see
``_piper_graph``). So the same seed gives the same samples, whoever runs beside it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from paraudio.engines import _espeak
from paraudio.engines._options import Option, check_options, whole_option
from paraudio.engines._ort import OrtSession
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.families._files import (
    beside,
    check_inputs,
    inputs_of,
    open_model,
    weights_file,
)
from paraudio.engines.families._memory import give_back, memory_file
from paraudio.engines.families._piper_graph import feed_noise
from paraudio.engines.families._piper_request import REQUEST_OPTIONS
from paraudio.engines.families._piper_session import PiperSession
from paraudio.engines.families._piper_voice import PiperVoice, read_voice
from paraudio.engines.families._protobuf import WireError
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

_MAX_SESSIONS: Final = 16
_INPUTS: Final = frozenset({"input", "input_lengths", "scales"})
_WHAT: Final = "Piper voice"

# Measured for a voice of 63 MB: 90 MB after the load, 300 MB more while one run speaks the longest
# piece, of which 30 MB stay.
_WEIGHTS_FACTOR: Final = 1.5
_RUN_BYTES: Final = 300 << 20


class PiperTtsFamily:
    """Speech by Piper voices."""

    name: str = "piper_tts"
    tasks: Mapping[Task, frozenset[str]] = {"tts": frozenset({"offline", "streaming"})}
    load_options: tuple[Option, ...] = ()
    session_options: tuple[Option, ...] = (
        Option(
            name="max_characters",
            kind=int,
            default=50_000,
            minimum=1,
            maximum=1_000_000,
            doc="The longest text taken, in characters; a thousand are about a minute of speech.",
        ),
    )
    request_options: tuple[Option, ...] = REQUEST_OPTIONS
    isolation: IsolationName | None = None
    imitates: bool = False
    advertises: str = (
        "up to 16 slots: sessions share one onnxruntime session and no state; "
        "16 requests at once give the samples of 16 in a row"
    )

    def inspect(self, load: Load) -> Mapping[str, Json]:
        """Read the voice's description.

        Raises:
            InvalidRequestError: ``path``, ``weight`` or ``config`` is not such a voice.
        """
        file, voice = _find(load)
        check_inputs(inputs_of(file), _INPUTS, _WHAT)
        return {
            "sample_rate": voice.rate,
            "languages": [voice.language.replace("_", "-")] if voice.language else [],
            "speakers": voice.speakers,
            "voices": list(_names(voice)),
            "quality": voice.quality,
            "phonemes": voice.phoneme_type,
        }

    def estimate(self, load: Load) -> int:
        """Bytes for the weights and for one run; the other sessions' runs come on top."""
        file, _ = _find(load)
        return int(file.stat().st_size * _WEIGHTS_FACTOR) + _RUN_BYTES

    def load(self, load: Load, stop: Stop) -> "PiperTtsModel":
        """Open the voice.

        Raises:
            InvalidRequestError: The files are no Piper voice.
            Stopped: ``stop`` was set; nothing is left behind.
        """
        file, voice = _find(load)
        options = check_options(load.session_options, self.session_options, param="session_options")
        if voice.phoneme_type == "espeak":
            _check_espeak(voice.espeak_voice)
        session = _open(file, load, stop)
        check_inputs({info.name for info in session.inputs}, _INPUTS, _WHAT)
        return PiperTtsModel(voice, session, whole_option(options, "max_characters"))


class PiperTtsModel:
    """An open voice."""

    def __init__(self, voice: PiperVoice, session: OrtSession, max_characters: int) -> None:
        self._voice = voice
        self._session: OrtSession | None = session
        self._max_characters = max_characters

    def capacity(self) -> int:
        """As many sessions as there can be slots: they cost nothing until they speak."""
        return _MAX_SESSIONS

    def voices(self) -> tuple[str, ...]:
        """The names of the speakers; empty where there is only one."""
        return _names(self._voice)

    def session(self) -> PiperSession:
        """Build a session over the open voice."""
        if self._session is None:
            raise RuntimeError("the voice is closed")
        return PiperSession(self._voice, self._session, self._max_characters)

    def close(self) -> None:
        """Let go of the weights."""
        self._session = None
        give_back()


def _find(load: Load) -> tuple[Path, PiperVoice]:
    file = weights_file(load)
    named = load.config if load.config is not None else f"{file.name}.json"
    return file, read_voice(beside(file, named))


def _names(voice: PiperVoice) -> tuple[str, ...]:
    return tuple(sorted(voice.speaker_ids)) if voice.speakers > 1 else ()


def _check_espeak(voice: str) -> None:
    try:
        _espeak.check_voice(voice)
    except _espeak.UnknownVoiceError as error:
        raise InvalidRequestError(f"config: {error}", param="config") from error


def _open(file: Path, load: Load, stop: Stop) -> OrtSession:
    """Open the model with its noise as an input, where its graph can be changed so."""
    try:
        parts = feed_noise(
            memoryview(file.read_bytes()), left_in=file.name if load.shared else None
        )
    except WireError as error:
        raise InvalidRequestError(f"path is no ONNX model: {error}", param="path") from error
    if parts is None:
        return open_model(file, load, stop)
    if load.shared:
        graph = b"".join(parts)
        del parts
        return open_model(graph, load, stop, weights=file.parent)
    with memory_file(parts) as path:
        del parts
        return open_model(path, load, stop)
