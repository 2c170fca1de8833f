"""Work that a signal ends cleanly: the first cancels it, the second ends the process at once."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import trio

T = TypeVar("T")


class Interrupted(Exception):  # noqa: N818 - like trio.Cancelled, it names what happened
    """A signal ended the work before it was done.

    Attributes:
        code: The exit code that says so: 130 for Ctrl-C, 143 for SIGTERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.code = 128 + number


async def until_signal(work: Callable[["trio.CancelScope"], Awaitable[T | None]]) -> T:
    """Run ``work`` to its end; SIGINT or SIGTERM cancels the scope that it was given.

    ``work`` enters the scope around what a signal may cut short, and nothing else, so that it
    cleans up outside of it; it returns None when it was cut short.

    Raises:
        Interrupted: A signal came and the work did not get to its end.
    """
    import trio  # noqa: PLC0415 - a third of the start-up time of commands that need none

    scope = trio.CancelScope()
    received = 0
    results: list[T | None] = []
    failures: list[Exception] = []

    async def watch(signals: AsyncIterator[int]) -> None:
        nonlocal received
        async for number in signals:
            if received:
                os._exit(128 + number)
            received = number
            scope.cancel()

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, signals)
            try:
                results.append(await work(scope))
            except Exception as error:
                failures.append(error)  # raised below, outside of the nursery's group
            nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if results[0] is None:
        raise Interrupted(received)
    return results[0]
