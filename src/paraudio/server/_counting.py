"""A recorder that counts transitions and keeps none, until the journal itself takes its place."""

from types import TracebackType
from typing import Self

from paraudio.journal import Kind
from paraudio.spec import Json


class Journal:
    """Counts what happens.

    Attributes:
        revision: How many transitions there were.
    """

    def __init__(self, path: str | None) -> None:
        del path
        self.revision = 0

    def __call__(self, kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        """Count one transition."""
        del kind, model, facts
        self.revision += 1

    def flush(self) -> None:
        """There is nothing to write."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None
