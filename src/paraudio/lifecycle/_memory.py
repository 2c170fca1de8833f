"""How much memory the process may still take, which its container may end before the host does."""

from collections.abc import Callable

import psutil


def free_host_memory() -> int:
    """Free bytes of host memory, as far as they can be had without swapping."""
    available: int = psutil.virtual_memory().available
    return available


def find_free_memory() -> Callable[[], int]:
    """Get ready to tell how much memory this process may still take.

    Returns:
        Tells the bytes: what the host has free, or what is left of a hard limit that is nearer. A
        limit is one of the process's control groups (version 2 or 1), from its own up to the
        highest that can be seen, so also that of a pod or a slice around it. File cache that the
        kernel can drop counts as left, ``memory.high`` is no limit, and a limit that cannot be read
        is none. Reads a few small files of the kernel, and raises nothing because of them.
    """
    from proclimits import get_memory_budget  # noqa: PLC0415 - 30 ms, for those who need it

    def free() -> int:
        host, budget = free_host_memory(), get_memory_budget()
        return host if budget is None else min(host, budget.available)

    return free
