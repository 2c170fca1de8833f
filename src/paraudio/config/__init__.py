"""Configuration: file, environment and flags, merged and checked; errors name the key."""

from paraudio.config._model import STORE_PREFIX, parse_model
from paraudio.config._problems import ModelObjectError, Problem, SettingsError
from paraudio.config._schema import LiveIngest, Settings, Tls

__all__ = [
    "STORE_PREFIX",
    "LiveIngest",
    "ModelObjectError",
    "Problem",
    "Settings",
    "SettingsError",
    "Tls",
    "parse_model",
]
