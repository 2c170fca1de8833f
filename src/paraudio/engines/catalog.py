"""The families that the server offers, by name."""

from importlib import import_module
from typing import Final, cast

from paraudio.engines._protocols import Family

_CLASSES: Final = {
    "simulated": ("paraudio.engines.families.simulated", "SimulatedFamily"),
    "piper_tts": ("paraudio.engines.families.piper_tts", "PiperTtsFamily"),
    "pocketsphinx_asr": ("paraudio.engines.families.pocketsphinx_asr", "PocketsphinxAsrFamily"),
    "silero_vad": ("paraudio.engines.families.silero_vad", "SileroVadFamily"),
}


def families() -> dict[str, Family]:
    """Make one object of each family; their libraries are imported when they load, not here."""
    return {name: _make(*where) for name, where in _CLASSES.items()}


def _make(module: str, name: str) -> Family:
    return cast("Family", getattr(import_module(module), name)())
