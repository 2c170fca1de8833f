"""One call of the application: a request or a websocket, with its inbox and its scope."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self, cast

import trio
from hypercorn.config import Config
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

from paraudio.transport._asgi import ASGIApp, Report
from paraudio.transport._inbox import BodyInbox, Message, MessageInbox

EXTENSION: Final = "paraudio.call"
"""The key of the call in the extensions of its ASGI scope."""

SENDS_PER_YIELD: Final = 8
"""Writes that the socket takes at once give way to other tasks this often."""

_DISCONNECTS: Final = frozenset({"http.disconnect", "websocket.disconnect"})
_BODIES: Final = frozenset({"http.response.body", "websocket.http.response.body"})


def _nothing() -> None:
    """For calls of a connection that cannot stall."""


@dataclass(slots=True)
class Patience:
    """How long this call waits for its client; the application may change it at any time.

    Attributes:
        body_stall_s: How long the client may send nothing while the application waits for its body.
        send_stall_s: How long the client may take nothing of what is being sent.
    """

    body_stall_s: float
    send_stall_s: float


class AppCall:
    """One call of the application, in a task of its connection's nursery.

    Hypercorn's streams take it for their task group, and it starts one application. Its scope is
    cancelled when the client leaves, unless the last message was already sent: from then on only
    the end of the whole connection scope cancels it.

    Attributes:
        patience: How long this call waits for its client.
        scope: The ASGI scope, once the call has begun.
        started: When it began, seconds of the loop's clock.
        client_left: Whether the client went before the answer was complete.
        when_left: Called in the step in which that is seen, before anything is cancelled; must not
            raise. The application may set it.
        over: Whether the last message was sent, or the application has ended.
        largest_chunk: How many bytes of one chunk have come, of the largest one; 0 where the body
            comes without chunks of its own.
    """

    def __init__(
        self,
        app: ASGIApp,
        inbox: BodyInbox | MessageInbox,
        patience: Patience,
        *,
        nursery: trio.Nursery,
        report: Report,
        began: Callable[["AppCall"], None],
        ended: Callable[["AppCall"], None],
        readable: Callable[[], bool],
        cut_stalled: Callable[[], None] = _nothing,
    ) -> None:
        self.patience = patience
        self.scope: dict[str, Any] = {}
        self.started = trio.current_time()
        self.client_left = False
        self.when_left: Callable[[], None] | None = None
        self.over = False
        self.largest_chunk = 0
        self._app = app
        self._inbox = inbox
        self._nursery = nursery
        self._report = report
        self._began = began
        self._ended = ended
        self._readable = readable
        self._cut_stalled = cut_stalled
        self._cancel = trio.CancelScope()
        self._sends = 0
        self._send: Callable[[ASGISendEvent | None], Awaitable[None]]

    def __str__(self) -> str:
        return f"{self.scope.get('method', 'WEBSOCKET')} {self.scope.get('path', '')}"

    @property
    def starving_since(self) -> float | None:
        """Since when the application has waited for the client's body, or None if it does not."""
        return self._inbox.starving_since

    def waiting(self) -> bool:
        """Whether something of the client is here that the application has not received."""
        return self._inbox.filled or self._readable()

    def cut_stalled(self) -> None:
        """End the connection if bytes wait on it that its client does not take.

        Nothing else ends such a send, which is shielded: a cancelled application waits for it. For
        one that has been cancelled by somebody else than its client. A connection that serves
        others as well is left to them.
        """
        self._cut_stalled()

    async def invite_body(self) -> None:
        """Tell a client that waits for ``100 Continue`` that its body may come.

        Reading does that too. This is for an application that answers before it reads: once an
        answer has begun, it is too late to say so.
        """
        if isinstance(self._inbox, BodyInbox):
            await self._inbox.invite()

    # What hypercorn's streams use of a task group.

    async def spawn_app(
        self,
        app: AppWrapper,  # noqa: ARG002 - hypercorn's wrapper around the application that we have
        config: Config,  # noqa: ARG002
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start the application; returns where its messages go."""
        self.scope = dict(scope)
        self.scope["extensions"] = {**self.scope["extensions"], EXTENSION: self}
        self.scope["extensions"].pop("http.response.push", None)
        self._send = send
        self._began(self)
        self._nursery.start_soon(self._run, name=str(self))
        return self._put

    def spawn(self, func: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task of the stream (websocket pings)."""
        self._nursery.start_soon(func, *args)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """The nursery belongs to the connection."""

    def leave(self, message: Message | None = None) -> None:
        """The client is gone: cancel the application, unless its answer is already on the way."""
        if not self.over and not self.client_left:
            self.client_left = True
            if self.when_left is not None:
                self.when_left()
            # Before the inbox wakes it: who waits in `receive` is cancelled there.
            self._cancel.cancel("the client left")
        self._inbox.leave(message or {"type": f"{self.scope.get('type', 'http')}.disconnect"})

    # The application's side.

    async def receive(self) -> Message:
        """Wait for the next message of the client."""
        if self.client_left:
            await trio.lowlevel.checkpoint()
        message = await self._inbox.take()
        if self.client_left:
            # It was woken by the client's last words, and is cancelled here for what came next.
            await trio.lowlevel.checkpoint()
        return message

    async def send(self, message: Message) -> None:
        """Send a message; returns when the socket, or the stream's window, has taken it.

        Cancelled before it begins, nothing is sent; later, the message is sent all the same. The
        last message is always sent.
        """
        if _is_last(message):
            self._finish()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._sends += 1
            if self._sends % SENDS_PER_YIELD == 0:
                await trio.lowlevel.cancel_shielded_checkpoint()
        if not self.client_left:
            await self._send(cast("ASGISendEvent", message))

    async def _put(self, message: ASGIReceiveEvent) -> None:
        if message["type"] in _DISCONNECTS:
            self.leave(cast("Message", message))
        else:
            await self._inbox.put(cast("Message", message))

    def _finish(self) -> None:
        """From here on nothing cancels the application, and what still comes is dropped."""
        self.over = True
        self._inbox.close()

    async def _run(self) -> None:
        try:
            await self._call()
            self._finish()
            await self._send(None)
        finally:
            self._finish()
            self._ended(self)

    async def _call(self) -> None:
        try:
            with self._cancel:
                await self._app(self.scope, self.receive, self.send)
        except* Exception as group:
            error = group.exceptions[0] if len(group.exceptions) == 1 else group
            self._report(f"the application failed on {self}", error)


def _is_last(message: Message) -> bool:
    kind = message["type"]
    if kind in _BODIES:
        return not message.get("more_body", False)
    return bool(kind == "websocket.close")


def call_of(scope: dict[str, Any]) -> AppCall | None:
    """The call that an ASGI scope belongs to, or None under another server.

    Through it an application learns that its client left, and changes the call's `Patience`.
    """
    call = scope.get("extensions", {}).get(EXTENSION)
    return call if isinstance(call, AppCall) else None
