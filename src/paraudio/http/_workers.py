"""Worker threads for what would hold up the event loop: large bodies, files, sound."""

import os
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import trio

P = ParamSpec("P")
T = TypeVar("T")

_LEAST: Final = 4


class Workers:
    """A bounded set of threads of this server's own, apart from those that run models.

    Pure computation on private data goes here, so a thread never outlives what it works on: a call
    returns when its thread has ended, also when it is cancelled.
    """

    def __init__(self, count: int | None = None) -> None:
        """Bound the threads.

        Args:
            count: How many run at once; None takes the number of processors, and at least four.
        """
        self._limiter = trio.CapacityLimiter(count or max(_LEAST, os.cpu_count() or 1))

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking code in a thread.

        Cancelled: a call that checks (`check_cancelled`) ends at its next check; any other runs to
        its end, and the result is dropped.
        """
        return await trio.to_thread.run_sync(lambda: call(*args, **kwargs), limiter=self._limiter)


def check_cancelled() -> None:
    """Within a worker thread: raise if the one who waits for it was cancelled."""
    trio.from_thread.check_cancelled()
