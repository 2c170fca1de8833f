"""What the connections of one server have in common."""

import ssl

import trio

from paraudio.transport._asgi import ASGIApp, Context, Report
from paraudio.transport._limits import Limits, ProtocolConfig
from paraudio.transport._phase import Population


class Shared:
    """What a connection needs of its server.

    Attributes:
        app: The application.
        limits: What a client may cost.
        config: The limits as hypercorn's protocol classes read them.
        context: Whether the server drains.
        population: The connections.
        report: Told what failed.
        ssl_context: How to speak TLS, or None for plain text.
        calls: How many calls of the application run.
    """

    def __init__(self, app: ASGIApp, limits: Limits, report: Report) -> None:
        self.app = app
        self.limits = limits
        self.config = ProtocolConfig(limits)
        self.context = Context()
        self.population = Population()
        self.report = report
        self.ssl_context: ssl.SSLContext | None = None
        self.calls = 0
        self._idle = trio.lowlevel.ParkingLot()

    @property
    def draining(self) -> bool:
        """Whether no new request is served."""
        return self.context.terminated.is_set()

    def call_began(self) -> None:
        """One call of the application more is running."""
        self.calls += 1

    def call_ended(self) -> None:
        """One less."""
        self.calls -= 1
        if not self.calls:
            self._idle.unpark_all()

    async def wait_idle(self) -> None:
        """Wait until no call of the application runs."""
        await trio.lowlevel.checkpoint()
        while self.calls:
            await self._idle.park()
