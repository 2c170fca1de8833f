"""Processes, as the system shows them."""

import os
from contextlib import suppress
from pathlib import Path


def workers(pid: int) -> list[int]:
    """The child processes of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    found = {int(word) for word in text.split()}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found |= {int(word) for word in (thread / "children").read_text().split()}
    return sorted(found)


def command_line(pid: int) -> str:
    """How a process was started; empty where it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def marked(mark: str) -> list[str]:
    """The processes, by their command lines, that were started with a mark in their environment."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                if mark.encode() in (place / "environ").read_bytes():
                    found.append(f"{place.name} {command_line(int(place.name))}")
    return found


def descriptors(pid: int) -> int:
    """How many files a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names only


def stands_still(pid: int) -> bool:
    """Whether every thread of a process has been stopped."""
    states = (task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat"))
    return all(text.rpartition(")")[2].split()[0] == "T" for text in states)
