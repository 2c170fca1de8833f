"""How a blocking backend call is told to stop."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(Exception):  # noqa: N818 - like trio.Cancelled, it names what happened, not a fault
    """The call ended early because it was told to; never a result, never shown to a client."""


class Stop:
    """A request to stop one backend call, made from any thread, seen by the thread that runs it.

    One ``Stop`` belongs to one call, so a late request can never hit the call after it. Setting it
    never blocks and never fails; setting it twice is setting it once.
    """

    __slots__ = ("_callbacks", "_event", "_lock")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def set(self) -> None:
        """Ask the call to stop, and run the callbacks that it registered."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            callback()

    def is_set(self) -> bool:
        """Whether the call was asked to stop."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise `Stopped` if the call was asked to stop; call it between pieces of work."""
        if self._event.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Block this thread for ``seconds``; raise `Stopped` as soon as the call is to stop."""
        if self._event.wait(seconds):
            raise Stopped

    @contextmanager
    def calls(self, callback: Callable[[], None]) -> Iterator[None]:
        """Within the block, a stop runs ``callback`` in the asking thread (at once if already set).

        The callback must neither block nor raise: it sets an engine's own flag.
        """
        with self._lock:
            already = self._event.is_set()
            if not already:
                self._callbacks.append(callback)
        if already:
            callback()
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
