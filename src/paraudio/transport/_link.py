"""What a connection gives to the protocol that speaks on it."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, cast

from hypercorn.events import Event
from hypercorn.typing import AppWrapper, ConnectionState, TaskGroup, WorkerContext

from paraudio.transport._asgi import ASGIApp, Context
from paraudio.transport._call import AppCall
from paraudio.transport._inbox import BodyInbox, MessageInbox
from paraudio.transport._limits import ProtocolConfig


class Link(Protocol):
    """A connection, as its protocol sees it."""

    @property
    def app(self) -> ASGIApp:
        """The application."""

    @property
    def config(self) -> ProtocolConfig:
        """What hypercorn's classes read their bounds and headers from."""

    @property
    def context(self) -> Context:
        """Whether the server drains."""

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def client(self) -> tuple[str, int] | None:
        """Where the client is, or None on a Unix socket."""

    @property
    def server(self) -> tuple[str, int] | None:
        """Which address it connected to."""

    @property
    def running(self) -> int:
        """How many calls of the application run on this connection."""

    def readable(self) -> bool:
        """Whether something of the client waits in the socket, or its end does."""

    async def send(self, event: Event) -> None:
        """Send bytes, tell whether a request is in progress, or end the connection."""

    def call(self, inbox: BodyInbox | MessageInbox) -> AppCall:
        """Make a call of the application in the connection's nursery."""

    def spawn(self, func: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task in the connection's nursery."""


Handed: TypeAlias = tuple[
    AppWrapper,
    ProtocolConfig,
    WorkerContext,
    TaskGroup,
    ConnectionState,
    bool,
    tuple[str, int] | None,
    tuple[str, int] | None,
    Callable[[Event], Awaitable[None]],
]


def handed(link: Link) -> Handed:
    """A connection as hypercorn's protocol classes take it: in pieces, each of a type of theirs."""
    return (
        cast("AppWrapper", link.app),
        link.config,
        cast("WorkerContext", link.context),
        cast("TaskGroup", link),
        ConnectionState({}),
        link.tls,
        link.client,
        link.server,
        link.send,
    )
