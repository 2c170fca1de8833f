"""One holder at a time among all processes that share a store."""

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

_RETRY_S: Final = 0.05


@asynccontextmanager
async def held(path: Path) -> AsyncIterator[None]:
    """Hold the lock file at ``path``; the kernel frees it also when the process dies.

    A waiting caller asks again every 50 ms rather than sit in the kernel, because a thread that
    waits there could not be cancelled. The file stays: removing it would let a second holder in
    beside one who had opened it before.

    Cancelled: while waiting, nothing is held; inside, the lock is released on the way out.

    Raises:
        OSError: The file cannot be opened or locked.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor = await trio.to_thread.run_sync(partial(os.open, path, flags, 0o666))
    try:
        while not await trio.to_thread.run_sync(_try_lock, descriptor):  # noqa: ASYNC110 - a file lock has no event
            await trio.sleep(_RETRY_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
