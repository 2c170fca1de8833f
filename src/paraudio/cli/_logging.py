"""Logging for a server: one line an event on stderr, for people or for machines."""

import datetime as dt
import json
import logging
import sys
from typing import Final

import click

from paraudio.cli._log_writer import LogWriter
from paraudio.cli._output import say_error, say_warning

LEVELS: Final = ("debug", "info", "warning", "error")

_COLOURS: Final = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}
_QUIET: Final = ("hypercorn", "quart", "asyncio", "hpack", "h11", "h2")
_BLAMING_CLIENTS: Final = ("python_multipart",)
"""Libraries whose warnings are of what a client sent wrong: it is told, nobody else needs to be."""


class TextFormatter(logging.Formatter):
    """``12:30:45.123 INFO    message``, coloured where that helps."""

    default_time_format = "%H:%M:%S"
    default_msec_format = "%s.%03d"

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows on its own."""
        level = f"{record.levelname:<7}"
        if self._colour and record.levelno in _COLOURS:
            level = click.style(level, fg=_COLOURS[record.levelno])
        text = f"{self.formatTime(record)} {level} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, and error if any."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _Say(logging.Handler):
    """Says warnings and errors the way that a command says its own."""

    def emit(self, record: logging.LogRecord) -> None:
        say = say_error if record.levelno >= logging.ERROR else say_warning
        say(record.getMessage())


def set_up_command() -> None:
    """Let a command that is no server say what is logged as a warning or worse."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Say()], force=True)


def set_up(level: str, style: str) -> None:
    """Send what this process logs to stderr, without ever waiting for whoever reads that.

    Args:
        level: One of `LEVELS`; libraries below us speak up from ``warning`` on only.
        style: ``text`` or ``json``.
    """
    handler = LogWriter(sys.stderr.fileno())
    text = TextFormatter(colour=sys.stderr.isatty())
    handler.setFormatter(JsonFormatter() if style == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    for name in _BLAMING_CLIENTS:
        logging.getLogger(name).setLevel(logging.ERROR)
