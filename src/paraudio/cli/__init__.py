"""The command line: `paraudio serve`, `run`, `pull`, `models`, `config check`, `verify`."""

from paraudio.cli._main import main

__all__ = ["main"]
