"""Configuration: file, environment and flags, merged and checked; errors name the key."""

from paraudio.config._schema import LiveIngest, Settings, Tls

__all__ = ["LiveIngest", "Settings", "Tls"]
