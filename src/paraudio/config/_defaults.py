"""The models of a server without a configuration file; the model store fetches their files."""

from typing import Final

from paraudio.config._model import STORE_PREFIX
from paraudio.spec import ModelSpec

DEFAULT_MODELS: Final = (
    ModelSpec(id="piper-joe", family="piper_tts", path=f"{STORE_PREFIX}piper-joe", task="tts"),
    ModelSpec(id="pocketsphinx-en", family="pocketsphinx_asr", path="", task="asr"),
    ModelSpec(id="silero-vad", family="silero_vad", path=f"{STORE_PREFIX}silero-vad", task="vad"),
)
"""Speech, transcription and voice activity, each loaded at its first request."""
