"""What a process holds of the system, to be compared before and after."""

import os
from collections import Counter
from pathlib import Path

import trio
from tests.server.harness import PATIENCE_S, Served


def held(pid: int) -> Counter[str]:
    """What a process has open, by kind: sockets, pipes, shared memory, and files by name."""
    found: Counter[str] = Counter()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)  # noqa: PTH115 - what it says is no path
        except FileNotFoundError:
            continue  # closed meanwhile
        kind = target.partition(":")[0]
        found["shared memory" if "memfd" in target or "/dev/shm" in target else kind] += 1  # noqa: S108 - looked for, not used
    return found


def threads(pid: int) -> int:
    """How many threads a process has."""
    return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - names only


async def assert_nothing_left(served: Served, before: Counter[str]) -> None:
    """Wait until the server holds no more than before; what was closed takes a moment."""
    more: Counter[str] = Counter()
    with trio.move_on_after(PATIENCE_S):
        while more := held(served.pid) - before:  # noqa: ASYNC110 - another process, no event
            await trio.sleep(0.02)
    assert not more, f"the server holds more than before: {dict(more)}"


async def assert_no_thread_left(served: Served, before: int) -> None:
    """Wait until the server has no more threads than before; idle ones end after 10 s."""
    with trio.move_on_after(PATIENCE_S):
        while threads(served.pid) > before:  # noqa: ASYNC110 - another process, no event
            await trio.sleep(0.1)
    assert threads(served.pid) <= before, "threads are left"
