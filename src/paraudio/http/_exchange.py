"""The scope of one request: from its head to the last byte of its answer, or to a cut.

Everything that a request holds beyond its handler's own frame (a model's lease, a running stream)
hangs on its exchange. The exchange ends with the connection's part in it, whether the body of the
answer was sent, cut off, or never begun, and so does what hangs on it.
"""

import re
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, cast

import trio
from quart.wrappers import Request
from quart.wrappers.base import BaseRequestWebsocket

from paraudio.http._core import Core
from paraudio.http._errors import Answer, answer_to
from paraudio.http._sending import Sender
from paraudio.journal import Kind
from paraudio.lifecycle import Use
from paraudio.transport import call_of

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}\Z")
_PARAMETER: Final = re.compile(r"<(?:\w+:)?(\w+)>")

LONGEST_NAME: Final = 200
"""Characters of a model's name that are kept with a request."""
UNMATCHED: Final = "unmatched"
"""What stands for the route of a request that no route takes."""


def request_id(given: str | None, core: Core) -> str:
    """The ID of a request: the client's own if it can be logged and is free, else a new one."""
    if given is None or not _ID.match(given):
        return secrets.token_hex(8)
    return given if given not in core.in_flight else f"{given}-{secrets.token_hex(4)}"


class Exchange:
    """One request and its answer.

    Attributes:
        core: What every request shares.
        request: The request; of a websocket there is only the head.
        id: Its ID, which the answer, the log and the journal name.
        started: When its head had come, in seconds of the server's clock.
        sender: How far its answer has got.
        reading: Whether its body is still to come.
        use: Its use of that model, once there is one.
        error: What the client is told of the error that ended it, if one did; of one that cuts its
            answer off it cannot be told.
        ended: Set when the handler is done and nothing that it opened is left.
    """

    __slots__ = (
        "_answered",
        "_model",
        "_scope",
        "_stack",
        "core",
        "ended",
        "error",
        "id",
        "reading",
        "request",
        "sender",
        "started",
        "use",
    )

    def __init__(self, core: Core, request: BaseRequestWebsocket, sender: Sender) -> None:
        self.core = core
        self.request = cast("Request", request)
        self.id = request_id(request.headers.get("X-Request-Id"), core)
        self.started = trio.current_time()
        self.sender = sender
        self.reading = request.method == "POST"
        self._model: str | None = None
        self.use: Use | None = None
        self.error: Answer | None = None
        self.ended = trio.Event()
        self._scope = trio.CancelScope()
        self._stack = AsyncExitStack()
        self._answered = False

    @property
    def model(self) -> str | None:
        """The model that it asks for, once that is known; a name that no model has may be cut."""
        return self._model

    @model.setter
    def model(self, name: str | None) -> None:
        # It goes to the log and to lists, and a client may write a whole body full of it.
        if name is not None and len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME]}..."
        self._model = name

    @property
    def path(self) -> str:
        """The path of its route, with names where paths differ: few, whatever clients send."""
        rule = self.request.url_rule
        return UNMATCHED if rule is None else _PARAMETER.sub(r"{\1}", rule.rule)

    @property
    def client(self) -> str | None:
        """Where it came from, as host and port."""
        address = self.request.scope.get("client")
        return None if address is None else f"{address[0]}:{address[1]}"

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled it; a client that leaves is another matter."""
        return self._scope.cancel_called

    def cancel(self) -> None:
        """End it as if its client had left."""
        self._scope.cancel("the request was cancelled by its ID")

    def answer_to(self, error: BaseException) -> Answer:
        """Map an error that ends it to its answer, which is kept; log it if it is the server's."""
        self.error = answer_to(error, self.id)
        return self.error

    def cut_stalled(self) -> None:
        """Reset its connection if that is all that keeps it from ending."""
        call = call_of(cast("dict[str, Any]", self.request.scope))
        if call is not None:
            call.cut_stalled()

    def hold(self, stack: AsyncExitStack) -> None:
        """Take over what a handler opened, to be closed when the exchange ends.

        Called as the last step of a handler, in the task that serves the request, so that scopes
        close in the order in which they were opened. What is closed sooner is closed then.
        """
        if self._answered:
            raise RuntimeError("an exchange has one answer")
        self._answered = True
        self._stack.push_async_exit(stack)

    def call_after(self, call: Callable[[], None]) -> None:
        """Call something when the exchange ends, in whatever way, after what it holds was closed.

        Called by a handler before it hands anything to `hold`.
        """
        self._stack.callback(call)

    async def __aenter__(self) -> Self:
        """Become known by the ID, and be told when the client leaves."""
        self.core.in_flight[self.id] = self
        self._stack.callback(self._end)
        call = call_of(cast("dict[str, Any]", self.request.scope))
        if call is not None:
            call.when_left = self._note_left
            if call.client_left:
                self._note_left()
        self._stack.enter_context(self._scope)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close what is held; swallows the cancellation that `cancel` began, and nothing else."""
        return await self._stack.__aexit__(kind, error, trace)

    def _end(self) -> None:
        del self.core.in_flight[self.id]
        call = call_of(cast("dict[str, Any]", self.request.scope))
        if call is not None:
            call.when_left = None
        self.ended.set()

    def _note_left(self) -> None:
        self.core.record(Kind.DISCONNECTED, request=self.id)
