"""The main program of a worker process: one model, one session, one call at a time.

The main thread runs the calls. A second thread reads: it queues calls, sets stops, and ends the
process at once when the server's end of the socket is gone. Where a family's library holds the
interpreter's lock for a whole call, that thread cannot run; then the server kills the process, or,
if the server itself is gone, the kernel does (see `tether`).
"""

import fcntl
import os
import pickle
import queue
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from paraudio.engines._protocols import Family
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.worker._host import ModelHost, SessionHost, load_host
from paraudio.engines.worker._messages import (
    Abilities,
    Answer,
    Ask,
    Loaded,
    Ready,
    Setup,
    StopAsking,
    Verb,
    packed,
)
from paraudio.engines.worker._reply import Done, Failed, Reply, attempt, translated
from paraudio.engines.worker._wire import receive, send
from paraudio.errors import BackendError, LoadError

# Signals that a terminal or a supervisor sends to everyone; whether a worker ends, and when, is
# for the server to say.
_NOT_OURS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(control: int, tether_end: int) -> NoReturn:
    """Serve the server at the other end of the socket ``control`` until it is gone."""
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    tether(tether_end)
    os.set_inheritable(control, False)
    worker = Worker(socket.socket(fileno=control))
    threading.Thread(target=worker.read, name="reader", daemon=True).start()
    try:
        worker.work()
    except OSError:
        end_group()  # the server is gone, and with it everyone who could be told
    finally:
        # Threads inside a native library make an orderly end of the interpreter crash.
        os._exit(0)


def tether(end: int) -> None:
    """Ask the kernel to kill this process group when the other end of a pipe is closed.

    Only the server holds that end, so this happens at the server's death, however it dies and
    whatever this process is doing. (The kernel's own "signal at the parent's death" is none: it
    means the death of the *thread* that started the process.)
    """
    os.set_inheritable(end, False)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    if sys.platform == "linux":
        # Where the signal can be chosen, one that also ends what a debugger has stopped.
        fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(end, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    if poll.poll(0):  # closed before the kernel was asked
        os._exit(0)


def end_group() -> NoReturn:
    """End this process and all that it started, whoever is left of its group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


class Worker:
    """What one process does."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._asked: queue.SimpleQueue[Ask] = queue.SimpleQueue()
        self._stops: dict[int, Stop] = {}
        self._open_stop = Stop()
        self._model: ModelHost | None = None
        self._session: SessionHost | None = None

    def read(self) -> None:
        """Take messages until the server is gone, then end the process."""
        try:
            while True:
                self._take(receive(self._control))
        except (EOFError, ConnectionError):
            end_group()
        except BaseException:
            # No room for what was sent, say. A worker that listens no more cannot be called.
            traceback.print_exc()
        finally:
            os._exit(1)

    def work(self) -> NoReturn:
        """Answer calls for ever."""
        send(self._control, Ready(os.getpid()))
        while True:
            asked = self._asked.get()
            reply = self._perform(asked)
            del self._stops[asked.number]
            self._answer(asked, reply)
            del asked, reply  # a worker that waits holds no sound of the last job

    def _take(self, message: object) -> None:
        match message:
            case Setup(paths):
                sys.path[:] = paths
            case Ask(number, verb):
                self._stops[number] = self._stop_for(verb)
                self._asked.put(message)
            case StopAsking(number):
                # One look: the call may end, and its stop go, between two.
                stop = self._stops.get(number)
                if stop is not None:
                    stop.set()
            case _:
                pass

    def _stop_for(self, verb: Verb) -> Stop:
        """A stop for a call; the pulls of a stream or a batch share that of its opening."""
        if verb in {"next_event", "next_result"}:
            return self._open_stop
        stop = Stop()
        if verb in {"open_stream", "open_batch"}:
            self._open_stop = stop
        return stop

    def _answer(self, asked: Ask, reply: Reply[object]) -> None:
        try:
            send(self._control, Answer(asked.number, packed(reply)))
        except OSError:
            raise
        except Exception as error:
            failed = Failed(translated(error, f"sending the result of {asked.verb}"))
            send(self._control, Answer(asked.number, packed(failed)))

    def _perform(self, asked: Ask) -> Reply[object]:
        work = self._verbs()[asked.verb]
        arguments = asked.arguments
        if asked.stoppable:
            arguments = (*arguments, self._stops[asked.number])
        try:
            return work(*arguments)
        except BaseException as error:
            return Failed(translated(error, asked.verb))

    def _verbs(self) -> dict[str, Callable[..., Reply[object]]]:
        if self._session is None:
            return {"load": self._load, "session": self._build, "unload": self._unload}
        return {
            "run": self._session.run,
            "open_stream": self._session.open_stream,
            "open_batch": self._session.open_batch,
            "next_event": self._session.next_event,
            "next_result": self._session.next_result,
            "begin": self._session.begin,
            "feed": self._session.feed,
            "finish": self._session.finish,
            "leave": self._session.leave,
            "restore": self._session.restore,
            "close": self._close,
        }

    def _load(self, family: bytes, load: Load, stop: Stop) -> Reply[Loaded]:
        opened = attempt(lambda: _family(family), f"model {load.model_id!r}: load", kind=LoadError)
        if isinstance(opened, Failed):
            return opened
        reply = load_host(opened.value, load, stop)
        if isinstance(reply, Failed):
            return reply
        self._model = reply.value
        return Done(Loaded(reply.value.capacity, reply.value.voices))

    def _build(self) -> Reply[Abilities]:
        if self._model is None:
            raise BackendError("nothing is loaded")
        reply = self._model.session()
        if isinstance(reply, Failed):
            return reply
        self._session = reply.value
        session = self._session
        return Done(Abilities(session.can_stream, session.can_batch, session.can_live))

    def _close(self) -> Reply[None]:
        session, self._session = self._session, None
        return session.close() if session is not None else Done(None)

    def _unload(self) -> Reply[None]:
        model, self._model = self._model, None
        return model.close() if model is not None else Done(None)


def _family(pickled: bytes) -> Family:
    family: Family = pickle.loads(pickled)  # noqa: S301 - from our own server
    return family
