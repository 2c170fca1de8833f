"""Reads the XML that a build server would read, and holds it to the format that they agree on.

The format is that of Jenkins' ``junit-10.xsd``, as far as it concerns what is written here.
"""

from typing import Final
from xml.parsers import expat

NEEDED: Final = {
    "testsuites": set[str](),
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname"},
    "failure": set[str](),
    "skipped": set[str](),
}
"""The attributes that an element must have."""
ALLOWED: Final = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": NEEDED["testsuite"] | {"skipped", "time", "timestamp", "hostname", "id"},
    "testcase": NEEDED["testcase"] | {"time", "status", "assertions"},
    "failure": {"message", "type"},
    "skipped": {"message", "type"},
}
"""The attributes that it may have."""
WITHIN: Final = {
    "testsuites": {""},
    "testsuite": {"testsuites"},
    "testcase": {"testsuite"},
    "failure": {"testcase"},
    "skipped": {"testcase"},
}
"""What it may stand in."""
COUNTS: Final = ("tests", "failures", "errors", "skipped")


def elements(text: str) -> list[tuple[str, dict[str, str]]]:
    """Every element with its attributes, in order."""
    return [(name, attributes) for _, name, attributes in _read(text)]


def flaws(text: str) -> list[str]:
    """What a build server would stumble over."""
    found = []
    for parent, name, attributes in _read(text):
        if parent not in WITHIN.get(name, set()):
            found.append(f"{name} stands in {parent!r}")
        elif not NEEDED[name] <= attributes.keys() <= ALLOWED[name]:
            found.append(f"{name} has {sorted(attributes)}")
        elif not all(attributes.get(count, "0").isdigit() for count in COUNTS):
            found.append(f"{name} counts {attributes}")
    return found


def _read(text: str) -> list[tuple[str, str, dict[str, str]]]:
    found: list[tuple[str, str, dict[str, str]]] = []
    inside = [""]

    def begin(name: str, attributes: dict[str, str]) -> None:
        found.append((inside[-1], name, attributes))
        inside.append(name)

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: inside.pop()
    parser.Parse(text, True)
    return found
