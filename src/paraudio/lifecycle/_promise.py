"""A result that one task owes to another, whether or not that one still waits."""

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

import trio

T = TypeVar("T")


class Promise(Generic[T]):
    """Kept or broken once, by a plain call; waited for by whoever wants to know.

    Attributes:
        value: What was delivered, or None as yet and for ever after an error.
    """

    __slots__ = ("_settled", "_unwrap", "value")

    def __init__(self) -> None:
        self.value: T | None = None
        self._settled = trio.Event()
        self._unwrap: Callable[[], T] = _unsettled

    @property
    def settled(self) -> bool:
        """Whether it was kept or broken."""
        return self._settled.is_set()

    def keep(self, value: T) -> None:
        """Deliver the value."""
        self.value = value
        self._unwrap = lambda: value
        self._settled.set()

    def fail(self, error: Exception) -> None:
        """Deliver an error instead."""

        def unwrap() -> NoReturn:
            raise error

        self._unwrap = unwrap
        self._settled.set()

    async def wait(self) -> T:
        """Wait for the value, or raise the error; always a checkpoint.

        Cancelled: whoever works on it goes on, and the promise can be waited for again.
        """
        await self._settled.wait()
        return self._unwrap()


def _unsettled() -> NoReturn:
    raise RuntimeError("the promise is not settled")
