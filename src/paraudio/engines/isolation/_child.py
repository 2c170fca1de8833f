"""One worker process, seen from the server: started, called, killed and reaped in one task."""

import errno
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import trio

from paraudio.engines._stop import Stop
from paraudio.engines.isolation._frames import receive_message, send_message
from paraudio.engines.isolation._pending import Pending
from paraudio.engines.worker import Done, Failed, translated
from paraudio.engines.worker._messages import (
    Answer,
    Ask,
    Ready,
    Setup,
    StopAsking,
    Verb,
    unpacked,
)
from paraudio.errors import BackendCrashedError, BackendError, LoadError

log = logging.getLogger("paraudio.worker")

REAP_TIMEOUT_S: Final = 2.0
"""How long a killed process may take to be gone; longer means that the kernel holds it."""

_LAST_WORDS_S: Final = 0.5
_LONGEST_LINE: Final = 16 * 1024
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""What would change how other lines of the log look, or hide a part of this one."""
_PIECE: Final = 2 * 1024
"""Bytes of output that are logged in one step, within which nobody else has a turn."""


class Child:
    """A worker process; `run` is its task, and owns everything that belongs to it.

    Attributes:
        pid: Its process ID, 0 before it has started.
        dead: Whether it can answer no more calls.
        gone: Ends when the process is reaped, or given up for the kernel to reap.
    """

    def __init__(self, name: str, *, start_timeout_s: float) -> None:
        self.pid = 0
        self.dead = False
        self._name = name
        self._start_timeout_s = start_timeout_s
        self._calls: dict[int, Pending[Any]] = {}
        self._numbers = 0
        self._outbox, self._to_send = trio.open_memory_channel[Ask | StopAsking](sys.maxsize)
        self._process: trio.Process | None = None
        self._killed = False
        self.gone: Pending[None] = Pending(f"{name}: the end of a worker process")

    @property
    def ended(self) -> bool:
        """Whether the process has ended, as the system knows before its socket tells."""
        return self._process is not None and self._process.returncode is not None

    def call(
        self, what: str, verb: Verb, *arguments: object, stop: Stop | None = None
    ) -> Pending[Any]:
        """Ask the worker for something, now; the reply comes as it is, unchecked.

        Args:
            what: The call, for messages.
            verb: What to do.
            arguments: What with; must be picklable.
            stop: Ends the call early.
        """
        call: Pending[Any] = Pending(what)
        if self.dead:
            call.resolve(Failed(BackendCrashedError(f"{what}: the worker process is dead")))
            return call
        self._numbers += 1
        number = self._numbers
        self._calls[number] = call
        self._outbox.send_nowait(Ask(number, verb, arguments, stop is not None))
        if stop is not None:
            heeding = ExitStack()
            heeding.enter_context(stop.calls(partial(self._pass_stop, number)))
            call.then(heeding.close)
        return call

    def kill(self) -> None:
        """Kill the process and all that it started; its calls fail when it is gone."""
        self.dead = True
        if self._process is not None and not self._killed:
            # What it started outlives a worker that died by itself, and is in its group. A death is
            # noticed at once, so the number of the group is nobody else's yet; once is enough.
            self._killed = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill the process and wait, whoever is cancelled, until it is reaped or given up."""
        self.kill()
        with trio.CancelScope(shield=True):
            await self.gone.wait_ended()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Start the process and serve it until it is dead; started when it can take calls.

        Raises:
            LoadError: It did not start in time; never after it has started.
            BackendCrashedError: It died before it could take calls.
        """
        async with self._spawned() as (process, control):
            await self._greet(process, control)
            task_status.started()
            try:
                await self._talk(process, control)
            except Exception:
                # One worker that talks nonsense costs its own calls, and nobody else's.
                log.exception("%s: lost touch with worker process %d", self._name, self.pid)

    @asynccontextmanager
    async def _spawned(self) -> AsyncIterator[tuple[trio.Process, trio.socket.SocketType]]:
        """The process and the socket to it; on the way out it is killed, reaped and cleared up."""
        with ExitStack() as cleanup:
            cleanup.callback(self.gone.resolve, Done(None))
            ours, theirs = socket.socketpair()
            cleanup.enter_context(ours)
            with theirs:
                tether, held = os.pipe()
                cleanup.callback(os.close, held)
                try:
                    process = await self._start(theirs.fileno(), tether)
                finally:
                    os.close(tether)
            ours.setblocking(False)
            try:
                yield process, trio.socket.from_stdlib_socket(ours)
            finally:
                await self._bury(process)

    async def _start(self, control: int, tether: int) -> trio.Process:
        try:
            process = await trio.lowlevel.open_process(
                _command(control, tether, self._name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[control, tether],
                start_new_session=True,
            )
        except RuntimeError as error:  # it takes a thread, too, which the system may not have
            raise BlockingIOError(errno.EAGAIN, str(error)) from error
        self._process, self.pid = process, process.pid
        return process

    async def _greet(self, process: trio.Process, control: trio.socket.SocketType) -> None:
        """Wait until the worker is there, and tell it what it must know."""
        try:
            with trio.fail_after(self._start_timeout_s):
                hello = await receive_message(control)
                await send_message(control, Setup(tuple(sys.path)))
        except trio.TooSlowError as error:
            await self._hear_out(process)
            raise LoadError(f"{self._name}: no worker process started: {error!r}") from error
        except (OSError, EOFError) as error:
            await self._hear_out(process)
            how = _how_it_ended(process.returncode)
            raise BackendCrashedError(
                f"{self._name}: the worker process {how} before it took its first call"
            ) from error
        if not isinstance(hello, Ready):
            raise LoadError(f"{self._name}: the worker process began with {hello!r}")

    async def _hear_out(self, process: trio.Process) -> None:
        """Kill a worker that did not start, wait until it is gone, and log what it has said."""
        self.kill()
        with trio.move_on_after(REAP_TIMEOUT_S):
            await process.wait()
        with trio.move_on_after(_LAST_WORDS_S):
            await self._forward_output(process)

    async def _bury(self, process: trio.Process) -> None:
        """Kill, reap, and tell everyone who still waits for an answer."""
        self.kill()
        with trio.move_on_after(REAP_TIMEOUT_S, shield=True):
            await process.wait()
        if process.stdout is not None:
            with trio.CancelScope(shield=True):
                await process.stdout.aclose()
        how = _how_it_ended(process.returncode)
        if process.returncode is None:
            log.error("%s: worker process %d %s", self._name, self.pid, how)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.resolve(Failed(BackendCrashedError(f"{call.what}: the worker process {how}")))

    async def _talk(self, process: trio.Process, control: trio.socket.SocketType) -> None:
        """Pass calls, answers and output until the worker closes its end, or is dead."""
        spoken = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._forward_output, process, spoken)
            nursery.start_soon(self._send_all, control)
            with trio.CancelScope() as hearing:
                nursery.start_soon(self._see_death, process, hearing)
                await self._hear(control)
            self._announce_end()
            with trio.move_on_after(_LAST_WORDS_S):
                await spoken.wait()
            nursery.cancel_scope.cancel()

    async def _hear(self, control: trio.socket.SocketType) -> None:
        """Take answers until the worker closes its end, or one cannot be received."""
        try:
            while True:
                self._take(await receive_message(control))
        except (EOFError, ConnectionError):
            pass
        except OSError as error:
            log.warning("%s: worker process %d cannot be heard: %s", self._name, self.pid, error)

    async def _see_death(self, process: trio.Process, hearing: trio.CancelScope) -> None:
        """End the hearing of a worker that is dead, where its end of the socket is still open.

        A process that it has forked has that end, too. Those of its group are killed, and what was
        answered before the death is heard; those that have left the group are not waited for.
        """
        await process.wait()
        self._announce_end()
        await trio.sleep(_LAST_WORDS_S)
        hearing.cancel("the worker is dead")

    def _announce_end(self) -> None:
        if not self.dead:
            log.warning("%s: worker process %d died", self._name, self.pid)
        self.kill()

    def _take(self, message: object) -> None:
        if not isinstance(message, Answer):
            raise TypeError(f"no answer: {message!r}")
        reply = unpacked(message.outcome)  # before the call is taken: what fails here must fail it
        self._calls.pop(message.number).resolve(reply)

    def _pass_stop(self, number: int) -> None:
        if number in self._calls and not self.dead:
            self._outbox.send_nowait(StopAsking(number))

    async def _send_all(self, control: trio.socket.SocketType) -> None:
        async for message in self._to_send:
            try:
                await send_message(control, message)
            except ConnectionError:
                return  # it died; whoever reads will see that
            except OSError as error:
                log.warning("%s: worker process %d cannot be told: %s", self._name, self.pid, error)
                self.kill()  # it may have a part of a call
                return
            except Exception as error:
                call = self._calls.pop(message.number, None)
                if call is not None:
                    call.resolve(Failed(translated(error, call.what, BackendError)))
            del message  # while the next one is waited for, the sound of this one is not kept

    async def _forward_output(
        self, process: trio.Process, spoken: trio.Event | None = None
    ) -> None:
        """Log what the worker and its libraries print, a line at a time."""
        if process.stdout is None:
            return
        rest = b""
        while data := await process.stdout.receive_some(_PIECE):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._log_line(line)
            if len(rest) > _LONGEST_LINE:
                self._log_line(rest)
                rest = b""
        self._log_line(rest)
        if spoken is not None:
            spoken.set()

    def _log_line(self, line: bytes) -> None:
        if line.strip():
            text = _COLOUR.sub("", line.decode(errors="backslashreplace").rstrip())
            text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
            log.info("%s: %s", self._name, text)


def _command(control: int, tether: int, name: str) -> list[str]:
    """The worker's command line; its name is there for whoever looks at a list of processes."""
    return [
        sys.executable,
        "-P",
        "-u",
        "-X",
        "faulthandler",
        "-m",
        "paraudio.engines.worker",
        str(control),
        str(tether),
        name,
    ]


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "was killed and is still not gone"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"
