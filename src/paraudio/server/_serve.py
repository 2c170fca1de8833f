"""The whole server as one structure of scopes: whoever is used outlives whoever uses it.

Leaving goes inside out: the transport first, then requests, then models and their workers, then the
journal. A scope's exit is the guarantee that nothing of it is left; nothing is freed in any other
way.
"""

import logging
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import trio

from paraudio.config import Settings
from paraudio.engines.catalog import families
from paraudio.errors import ConfigError
from paraudio.http import create_app, open_tracing
from paraudio.journal import Journal, Pulse
from paraudio.lifecycle import Runtime
from paraudio.server._bind import open_listeners, urls_of
from paraudio.server._compose import open_isolations, resolved, runtime_settings
from paraudio.server._custom import CustomListeners, Listener, Service
from paraudio.server._memory import return_memory, settle_memory
from paraudio.server._notify import READY, STOPPING, extend, feed_watchdog, notify, status
from paraudio.server._progress import Progress, logged_progress
from paraudio.server._report import Report
from paraudio.server._stopping import (
    EXIT_CUT,
    EXIT_OK,
    SLACK_S,
    Phase,
    Shutdown,
    follow_signals,
    leave,
    watchdog,
)
from paraudio.server._stored import installs_cut, is_here
from paraudio.server._waiting import NOTHING, Waiting
from paraudio.spec import ModelSpec
from paraudio.store import open_shelf
from paraudio.transport import Limits, Server, tls_context

log = logging.getLogger(__name__)

Ready: TypeAlias = Callable[[str], None]
"""Told the URL of the first listener once connections are accepted on all of them."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run(
    settings: Settings,
    *,
    ready: Ready | None = None,
    progress: Progress = logged_progress,
    listeners: Sequence[Listener] = (),
) -> int:
    """Serve until a signal ends it.

    The first SIGTERM or SIGINT drains, a second one cancels what still runs, a third one leaves.

    Args:
        settings: The whole configuration.
        ready: Told the URL of the first listener once connections are accepted; every further
            one is logged.
        progress: How the fetch of a model is shown.
        listeners: Listeners of other kinds, which serve beside HTTP and drain with it.

    Returns:
        0 if everything was drained, 3 if anything was cut.

    Does not return where a backend ignores its stop until the cancel phase is over, or a thread is
    still inside one at the end: leaving the interpreter would wait for it, or abort there. The
    process then ends at once, after the report, with code 3.

    Raises:
        ConfigError: The address cannot be listened on, a model cannot be registered, or the backend
            cannot be had.
    """
    return_memory()
    settings = resolved(settings)
    report = Report()
    refused: list[ConfigError] = []
    try:
        trio.run(partial(_Serving(settings, progress, listeners, report).serve, ready))
    except* ConfigError as group:
        refused.extend(_leaves(group))
    if refused:
        raise refused[0]
    report.conclude()
    if report.threads_left():
        leave(EXIT_CUT)
    return EXIT_CUT if report.lines else EXIT_OK


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a drain has to do with."""

    runtime: Runtime
    front: Server
    custom: CustomListeners
    waiting: Waiting


class _Serving:
    """One server, from its first scope to its last.

    ``serve`` nests the scopes; each of the methods below it opens what lives inside of the one
    before it.
    """

    def __init__(
        self,
        settings: Settings,
        progress: Progress,
        listeners: Sequence[Listener],
        report: Report,
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._listeners = listeners
        self._report = report
        self._pulse = Pulse()
        self._journal = Journal(settings.journal, deferred=True, pulse=self._pulse)
        self._shutdown = Shutdown()
        self._begun = False  # to serve
        self._drained = False
        self._drain_s = settings.drain_timeout_ms / 1000
        self._cancel_s = settings.cancel_timeout_ms / 1000

    async def serve(self, ready: Ready | None) -> None:
        """Follow signals, and be gone in bounded time after the first."""
        with ExitStack() as to_the_end, trio.open_signal_receiver(*SIGNALS) as signals:
            async with trio.open_nursery() as process:
                process.start_soon(follow_signals, self._shutdown, signals)
                process.start_soon(self._leave_in_time, to_the_end)
                process.start_soon(feed_watchdog)
                process.start_soon(self._pulse.run)
                await self._with_runtime(ready)
                process.cancel_scope.cancel("everything has ended")

    async def _with_runtime(self, ready: Ready | None) -> None:
        """Own the journal, the workers and every model."""
        settings = self._settings
        known = families()
        async with (
            self._journal as journal,
            open_tracing() as tracing,
            open_shelf() as shelf,
            open_isolations(settings, self._progress, shelf) as isolations,
        ):
            runtime = Runtime(
                runtime_settings(settings),
                families=known,
                isolations=isolations,
                record=journal,
                revision=lambda: journal.revision,
            )
            for spec in settings.models:
                runtime.add(spec)
            app = create_app(
                runtime, settings, families=known, journal=journal, shelf=shelf, tracing=tracing
            )
            front = Server(app, _limits(settings))
            custom = CustomListeners(self._listeners, Service(runtime, self._shutdown))
            self._report.follow(
                journal,
                [runtime.cuts, front.cuts, custom.cuts, partial(installs_cut, shelf)],
                isolations.values(),
            )
            async with trio.open_nursery() as models:
                await models.start(runtime.run)
                try:
                    parts = _Parts(runtime, front, custom, Waiting(app, runtime, custom))
                    await self._with_transport(parts, ready, partial(is_here, shelf))
                finally:
                    runtime.stop()
            self._report.make()

    async def _with_transport(
        self,
        parts: _Parts,
        ready: Ready | None,
        here: Callable[[ModelSpec], Awaitable[bool]],
    ) -> None:
        """Own the listeners and every connection, until shutdown ends them."""
        runtime, front, custom = parts.runtime, parts.front, parts.custom
        tls = self._settings.tls
        secure = None if tls is None else tls_context(tls.cert, tls.key)
        async with open_listeners(self._settings) as listeners, trio.open_nursery() as transport:
            url, *others = urls_of(self._settings, listeners)
            # Only a server that has its place may touch the file.
            await self._journal.open()
            settle_memory()
            await transport.start(partial(front.serve, listeners, ssl_context=secure))
            transport.start_soon(custom.run)
            self._begun = True
            if ready is not None:
                ready(url)
            for other in others:
                log.info("listening on %s", other)
            notify(READY, status(f"serving on {url}"))
            transport.start_soon(runtime.load_eager)
            transport.start_soon(runtime.survey, here)
            await self._shutdown.wait(Phase.DRAINING)
            await self._drain(parts)
            runtime.stop()
            front.stop()
            custom.stop()

    async def _drain(self, parts: _Parts) -> None:
        """Refuse what is new and wait for what runs, at most until the second signal."""
        self._announce(parts.waiting.line())
        parts.runtime.drain()
        parts.front.drain()
        async with trio.open_nursery() as nursery:

            async def skip() -> None:
                await self._shutdown.wait(Phase.STOPPING)
                nursery.cancel_scope.cancel("a second signal skips the drain")

            nursery.start_soon(skip)
            nursery.start_soon(parts.waiting.say_again, self._drain_s)
            with trio.move_on_after(self._drain_s) as bound:
                await parts.runtime.wait_drained()
                await parts.front.wait_idle()
                await parts.custom.wait_ended()
                self._drained = True
                self._shutdown.advance(Phase.STOPPING, "all is drained")
            if bound.cancelled_caught:
                self._shutdown.advance(Phase.STOPPING, "drain_timeout_ms is over")
            nursery.cancel_scope.cancel("drained, or out of time")
        if parts.waiting.counts():
            log.info("cancelling %s", parts.waiting.line())

    def _announce(self, line: str) -> None:
        """Say what is in progress when the drain begins, to the log and to the manager."""
        rest = f"; what waits in a queue is refused, the rest may take {self._drain_s:g} s"
        log.info("in progress: %s%s", line, "" if line == NOTHING else rest)
        bound_s = self._drain_s + self._cancel_s + SLACK_S
        notify(STOPPING, extend(bound_s), status(f"draining: {line}"))

    async def _leave_in_time(self, to_the_end: ExitStack) -> None:
        """End the process when the cancel phase is over, whatever is still left in it.

        Cancelled when everything has ended by itself, which is what nearly always happens.
        """
        await self._shutdown.wait(Phase.DRAINING)
        total_s = self._drain_s + self._cancel_s
        to_the_end.enter_context(watchdog(total_s, self._report.last_words))
        if not self._begun:  # then there is nothing to drain, and nobody who would end the drain
            self._shutdown.advance(Phase.STOPPING, "it has not begun to serve")
        await self._shutdown.wait(Phase.STOPPING)
        with trio.move_on_after(self._cancel_s) as bound:
            await self._shutdown.wait(Phase.LEAVING)
        self._shutdown.advance(Phase.LEAVING, "cancel_timeout_ms is over")
        if not self._begun:
            self._report.add("the start, which did not end")
        self._report.make()
        if not self._report.lines and (bound.cancelled_caught or not self._drained):
            self._report.add("the rest of the shutdown, which did not end")
        self._report.conclude()
        self._report.flush()
        # A signal may come while what is drained is closed, which the system can do as well.
        leave(EXIT_CUT if self._report.lines else EXIT_OK)


def _leaves(group: BaseExceptionGroup[ConfigError]) -> Iterator[ConfigError]:
    """The errors in a group, however deep the nurseries between have nested it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _limits(settings: Settings) -> Limits:
    return Limits(
        slow_client_timeout_s=settings.slow_client_timeout_ms / 1000,
        half_close_grace_s=settings.half_close_grace_ms / 1000,
        max_connections=settings.max_connections,
    )
