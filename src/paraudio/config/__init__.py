"""Configuration: file, environment and flags, merged and checked; errors name the key."""

from paraudio.config._address import INHERITED, UNIX_PREFIX, split_address
from paraudio.config._defaults import DEFAULT_MODELS
from paraudio.config._describe import ConfigEntry, describe, model_json
from paraudio.config._expanded import expanded
from paraudio.config._layers import SettingInfo, flag_name, settings_info, variable_name
from paraudio.config._load import Draft, Loaded, Origins, draft, load, load_settings
from paraudio.config._model import STORE_PREFIX, parse_model
from paraudio.config._problems import ModelObjectError, Problem, SettingsError, nearest
from paraudio.config._schema import LiveIngest, Settings, Tls

__all__ = [
    "DEFAULT_MODELS",
    "INHERITED",
    "STORE_PREFIX",
    "UNIX_PREFIX",
    "ConfigEntry",
    "Draft",
    "LiveIngest",
    "Loaded",
    "ModelObjectError",
    "Origins",
    "Problem",
    "SettingInfo",
    "Settings",
    "SettingsError",
    "Tls",
    "describe",
    "draft",
    "expanded",
    "flag_name",
    "load",
    "load_settings",
    "model_json",
    "nearest",
    "parse_model",
    "settings_info",
    "split_address",
    "variable_name",
]
