"""The page of routes lists exactly the routes and metrics that there are."""

import re
from collections.abc import Iterator
from pathlib import Path

from paraudio.errors import ConfigError, ParaudioError, UnavailableError
from paraudio.http import ROUTES, Gate
from paraudio.http._meters import Meters
from paraudio.lifecycle import Phase, Snapshot

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
WORDS = {Gate.OPEN: "open", Gate.KEYED: "keyed", Gate.MANAGEMENT: "managed"}


def test_every_route_is_on_the_page_and_no_other() -> None:
    rows = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    told = [(method, path, gate) for method, path, gate, _ in rows]
    real = [
        (route.method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route.path), WORDS[route.gate])
        for route in ROUTES
    ]
    assert sorted(told) == sorted(real)
    assert len(told) == len(set(told))


def kinds_of(error: type[ParaudioError]) -> Iterator[type[ParaudioError]]:
    for kind in error.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def test_every_code_of_an_error_is_on_the_page_with_its_status_and_no_other() -> None:
    rows = re.findall(r"^\| ([0-9]{3}) \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE)
    told = {(int(status), code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    real = {
        (kind.status, kind.code)
        for kind in kinds_of(ParaudioError)
        # What only the command line says, and what is only the root of others.
        if kind.__module__ == ParaudioError.__module__
        if kind not in {ConfigError, UnavailableError}
    }
    assert told == real


def test_every_code_of_an_error_is_told_once() -> None:
    rows = re.findall(r"^\| ([0-9]{3}) \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE)
    told = [(status, code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)]
    assert len(told) == len(set(told))


def test_every_metric_is_on_the_page_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*)\| [^|]+ \|$", PAGE, re.MULTILINE)
    told = {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in rows}

    class Nothing:
        def snapshot(self) -> Snapshot:
            return Snapshot(0, Phase.RUNNING, ())

    meters = Meters(Nothing())
    real = {}
    for collector in meters.registry._collector_to_names:
        for metric in collector.collect():
            if metric.name.startswith("paraudio_"):
                name = metric.name.removeprefix("paraudio_")
                total = "_total" if metric.type == "counter" else ""
                real[name + total] = tuple(getattr(collector, "_labelnames", ()))
    assert told.keys() == real.keys()
    for name, labels in real.items():
        if labels:
            assert told[name] == labels
