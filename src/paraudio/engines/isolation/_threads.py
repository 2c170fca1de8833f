"""Blocking calls in threads of trio's cache, whose answer comes back to the event loop.

Not ``trio.to_thread.run_sync``: its limiter can let calls that hang starve all others, and it
either waits for a thread for ever or forgets it. Here every call has its thread at once (the lease
bounds how many there are), and a call that hangs stays known until it ends.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import outcome
import trio

from paraudio.engines.isolation._pending import Pending
from paraudio.engines.worker import Failed, Reply, translated
from paraudio.errors import BackendError

T = TypeVar("T")


def start_in_thread(what: str, work: Callable[[], Reply[T]]) -> Pending[T]:
    """Start ``work`` in a thread, now.

    Args:
        what: The call, for messages.
        work: Blocking code that gives a reply.
    """
    call: Pending[T] = Pending(what)
    token = trio.lowlevel.current_trio_token()

    def deliver(result: outcome.Outcome[Reply[T]]) -> None:
        # A run that is finished has nobody left who could be told.
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(_resolve, call, result)

    try:
        trio.lowlevel.start_thread_soon(work, deliver)
    except RuntimeError as error:  # the system has no thread left to give
        call.resolve(Failed(translated(error, what)))
    return call


def _resolve(call: Pending[T], result: outcome.Outcome[Reply[T]]) -> None:
    try:
        reply = result.unwrap()
    except BaseException as error:
        reply = Failed(translated(error, call.what, BackendError))
    call.resolve(reply)
