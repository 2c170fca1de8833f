"""Paths as people write them."""

from pathlib import Path


def expanded(text: str) -> Path:
    """A path with the home that its ``~`` stands for; where there is none, as it stands.

    Shells do the same with the name of nobody, or with a user without a home, as in a container.
    """
    if not text.startswith("~"):  # Path would take the one of ./~ for a home as well
        return Path(text)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
