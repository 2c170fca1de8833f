"""Reads the XML that a build server would read."""

from xml.parsers import expat


def elements(text: str) -> list[tuple[str, dict[str, str]]]:
    """Every element with its attributes, in order."""
    found: list[tuple[str, dict[str, str]]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: found.append((name, attributes))
    parser.Parse(text, True)
    return found
