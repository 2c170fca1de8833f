"""The scope of one request: from its head to the last byte of its answer, or to a cut.

Everything that a request holds beyond its handler's own frame (a model's lease, a running stream)
hangs on its exchange. The exchange ends with the connection's part in it, whether the body of the
answer was sent, cut off, or never begun, and so does what hangs on it.
"""

import re
import secrets
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, cast

import trio
from quart.wrappers import Request

from paraudio.http._core import Core
from paraudio.journal import Kind
from paraudio.transport import call_of

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}\Z")


def request_id(given: str | None, core: Core) -> str:
    """The ID of a request: the client's own if it can be logged and is free, else a new one."""
    if given is None or not _ID.match(given):
        return secrets.token_hex(8)
    return given if given not in core.in_flight else f"{given}-{secrets.token_hex(4)}"


class Exchange:
    """One request and its answer.

    Attributes:
        core: What every request shares.
        request: The request.
        id: Its ID, which the answer, the log and the journal name.
        started: When its head had come, in seconds of the server's clock.
    """

    __slots__ = ("_held", "core", "id", "request", "started")

    def __init__(self, core: Core, request: Request) -> None:
        self.core = core
        self.request = request
        self.id = request_id(request.headers.get("X-Request-Id"), core)
        self.started = trio.current_time()
        self._held: AsyncExitStack | None = None

    def hold(self, stack: AsyncExitStack) -> None:
        """Take over what a handler opened, to be closed when the exchange ends.

        Called as the last step of a handler, in the task that serves the request, so that scopes
        close in the order in which they were opened. What is closed sooner is closed then.
        """
        if self._held is not None:
            raise RuntimeError("an exchange has one answer")
        self._held = stack

    async def __aenter__(self) -> Self:
        self.core.in_flight[self.id] = self
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        call = call_of(cast("dict[str, Any]", self.request.scope))
        if call is not None and call.client_left:
            self.core.record(Kind.DISCONNECTED, request=self.id)
        try:
            if self._held is not None:
                return await self._held.__aexit__(kind, error, trace)
            return None
        finally:
            del self.core.in_flight[self.id]
