"""The server: listeners, one scope a connection, and an orderly or an instant end."""

import errno
import logging
import select
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from paraudio.transport._asgi import ASGIApp, Report
from paraudio.transport._connection import Connection
from paraudio.transport._limits import Limits
from paraudio.transport._phase import Phase
from paraudio.transport._shared import Shared
from paraudio.transport._sweeper import Sweeper

log = logging.getLogger(__name__)

ACCEPT_RETRY_S: Final = 0.1
"""How long a listener waits after the system had no descriptor or memory for a connection."""


def log_error(what: str, error: BaseException) -> None:
    """The hook that is used where none is given: one log record with the traceback."""
    log.error("%s", what, exc_info=error)


@dataclass(frozen=True, slots=True)
class Connections:
    """How many connections there are at one moment, and what they do.

    Attributes:
        total: All of them.
        requests: How many calls of the application run.
        active: Connections with a request in progress.
        idle: Connections that wait for a request.
        head: Connections with a TLS handshake or a request head under way.
        closing: Connections whose last bytes leave, or whose application has not ended.
    """

    total: int
    requests: int
    active: int
    idle: int
    head: int
    closing: int


class Server:
    """Serves an ASGI application over HTTP/1.1, HTTP/2 and websockets.

    Every connection has its own task and its own barrier: what goes wrong on one is reported and
    ends that one. ``drain``, ``stop`` and the snapshots are synchronous: they decide now, and
    whoever wants to see the consequences waits for `serve` or `wait_idle`. Lifespan messages are
    not sent.

    Args:
        app: The application, ASGI 3.
        limits: What a client may cost.
        on_error: Told what failed: an application's error, or a connection's.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits | None = None, *, on_error: Report = log_error
    ) -> None:
        self._shared = Shared(app, limits or Limits(), on_error)
        self._population = self._shared.population
        self._sweeper = Sweeper(self._shared)
        self._room = trio.Semaphore(self._shared.limits.max_connections)
        self._listeners: list[trio.SocketListener] = []
        self._accepting = trio.CancelScope()
        self._cuts: list[str] = []

    async def serve(
        self,
        listeners: Sequence[trio.SocketListener],
        *,
        ssl_context: ssl.SSLContext | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve connections until the server was drained or stopped and all have ended.

        Cancelled, it resets every socket at once and returns when the applications have ended.

        Args:
            listeners: Where connections come from; they are closed when accepting ends.
            ssl_context: How to speak TLS on all of them; None for plain text.
            task_status: Told once connections are accepted.
        """
        self._shared.ssl_context = ssl_context
        self._listeners = list(listeners)
        async with trio.open_nursery() as guards:
            guards.start_soon(self._sweeper.run)
            guards.start_soon(self._reset_when_cancelled)
            async with trio.open_nursery() as connections:
                try:
                    with self._accepting:
                        await self._accept_all(connections, task_status)
                finally:
                    self._close_listeners()
            guards.cancel_scope.cancel("no connection is left")

    def drain(self) -> None:
        """Take no new connection and no new request; everything that runs may finish.

        Listeners and idle connections close now. Answers that have not begun say
        ``Connection: close``; HTTP/2 clients are told GOAWAY. Then `serve` ends by itself.
        """
        self._shared.context.terminated.fire()
        self._stop_accepting()
        for connection in self._population:
            connection.drain()
        self._close_idle()

    def stop(self) -> None:
        """Cancel every connection's scope and reset its socket, all in this step."""
        self._shared.context.terminated.fire()
        self._stop_accepting()
        for connection in self._population:
            if connection.busy:
                self._cuts.append(f"cut off {connection}")
            connection.stop()

    async def wait_idle(self) -> None:
        """Wait until no request is in progress: no application runs, no answer is being sent."""
        await self._shared.wait_idle()

    def connections(self) -> Connections:
        """Count the connections, now."""
        count = self._population.count
        return Connections(
            total=len(self._population),
            requests=self._shared.calls,
            active=count(Phase.ACTIVE),
            idle=count(Phase.IDLE),
            head=count(Phase.HEAD),
            closing=count(Phase.CLOSING),
        )

    def cuts(self) -> list[str]:
        """One line for each connection with something in progress that `stop` cut off."""
        return list(self._cuts)

    # Accepting.

    async def _accept_all(
        self, connections: trio.Nursery, task_status: trio.TaskStatus[None]
    ) -> None:
        async with trio.open_nursery() as acceptors:
            for listener in self._listeners:
                acceptors.start_soon(self._accept, listener, connections)
            task_status.started()

    async def _accept(self, listener: trio.SocketListener, connections: trio.Nursery) -> None:
        failing = False
        while listener.socket.fileno() != -1:
            try:
                # First, so that a listener that nobody calls holds no room.
                await trio.lowlevel.wait_readable(listener.socket)
            except trio.ClosedResourceError:
                return
            await self._room.acquire()  # when all are taken, the rest waits in the backlog
            try:
                stream = await listener.accept()
            except trio.ClosedResourceError:
                # Woken by a connection in the very step that ended accepting.
                self._room.release()
                return
            except OSError as error:
                self._room.release()
                if not failing:
                    failing = True
                    name = errno.errorcode.get(error.errno or 0, "error")
                    self._shared.report(
                        f"no connection could be accepted ({name}); trying again", error
                    )
                await trio.sleep(ACCEPT_RETRY_S)
            except BaseException:
                self._room.release()
                raise
            else:
                failing = False
                self._take_in(stream, connections)

    def _take_in(self, stream: trio.SocketStream, connections: trio.Nursery) -> None:
        try:
            if self._shared.draining:
                raise ConnectionAbortedError  # accepted in the very step that ended accepting
            connection = Connection(self._shared, stream)
        except OSError:
            # That, or gone before we could set a socket option.
            stream.socket.close()
            self._room.release()
            return
        self._population.add(connection)
        self._sweeper.wake()
        connections.start_soon(self._run, connection)

    async def _run(self, connection: Connection) -> None:
        """The barrier: nothing but a cancel and an exit leaves this task."""
        try:
            with connection.scope:
                await connection.run()
        except* Exception as group:
            error = group.exceptions[0] if len(group.exceptions) == 1 else group
            self._shared.report(f"the connection failed: {connection}", error)
        finally:
            self._population.remove(connection)
            self._room.release()

    def _stop_accepting(self) -> None:
        self._accepting.cancel("the server takes no more connections")
        self._close_listeners()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.socket.close()

    # Ending.

    def _close_idle(self) -> None:
        """Close the connections that wait for a request, unless one has just come."""
        idle = self._population.members(Phase.IDLE)
        waiting = {one.fileno(): one for one in idle if one.fileno() != -1}
        poll = select.poll()
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(0):
            del waiting[descriptor]  # read and answered, with Connection: close
        for connection in waiting.values():
            connection.finish()

    async def _reset_when_cancelled(self) -> None:
        """A cancel from outside must not wait for sends that are stuck in their shield."""
        try:
            await trio.sleep_forever()
        finally:
            for connection in self._population:
                connection.stop()
