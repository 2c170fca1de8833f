"""What a family has to say of a job that it did: to the client, and in the log.

A session puts sentences under ``warnings`` into the artifacts of its result: the job was done, and
still not quite what was asked for.
"""

import logging
from collections.abc import Mapping
from typing import Final

from paraudio.engines import Result
from paraudio.http._exchange import Exchange
from paraudio.spec import Json

log = logging.getLogger(__name__)

HEADER: Final = "X-Paraudio-Warning"
_MOST: Final = 500


def warnings_of(result: Result) -> list[str]:
    """The sentences, if there are any."""
    told = result.artifacts.get("warnings")
    return [one for one in told if isinstance(one, str)] if isinstance(told, list) else []


def note_warnings(exchange: Exchange, result: Result) -> None:
    """Log them; called once for each result."""
    for told in warnings_of(result):
        log.warning("request %s: %s", exchange.id, told)


def warning_headers(result: Result) -> dict[str, str]:
    """A header with them, for an answer that is sent when the result is there."""
    line = " ".join("; ".join(warnings_of(result)).split())
    return {HEADER: line.encode("ascii", "replace").decode()[:_MOST]} if line else {}


def warning_fields(result: Result) -> Mapping[str, Json]:
    """A field with them, for an event that has a result."""
    told: list[Json] = [*warnings_of(result)]
    return {"warnings": told} if told else {}
