"""A real ``paraudio serve`` process, clients that do to it whatever clients do, and its end.

Whatever a test does, the end of its server is examined: no process of it is left, its folder for
temporary files is empty, its journal keeps every rule, and nothing failed that nobody foresaw.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import trio
from tests.server.clients import Answer, Client, bodies, connected
from tests.server.processes import command_line, marked, stands_still, workers
from tests.server.results import End, Left, measured, note_end, row_now

from paraudio.journal import Event, JournalError, check, read

T = TypeVar("T")

PROGRAM: Final = (sys.executable, "-m", "paraudio", "serve")
PATIENCE_S: Final = 30.0
"""After this a server that does not do what is waited for has failed."""

GONE_WITHIN_S: Final = 2.0
"""How long the system may take to bury what was killed."""

MARK: Final = "TEST_MARK_"
SLACK_S: Final = 1.0


def simulated(name: str = "sim", **options: object) -> dict[str, object]:
    """A simulated model object; each option goes where it belongs."""
    load = {"load_ms", "unload_ms", "capacity", "memory_mb", "fail_loads", "load_ignores_cancel"}
    session = {"run_ms", "chunks", "chunk_ms", "ignore_cancel", "fail_runs"}
    plain = {key: value for key, value in options.items() if key not in load | session}
    return {
        "id": name,
        "family": "simulated",
        "path": "",
        "task": "tts",
        "load_options": {key: value for key, value in options.items() if key in load},
        "session_options": {key: value for key, value in options.items() if key in session},
        **plain,
    }


@dataclass
class Ended:
    """How a server ended.

    Attributes:
        code: Its exit code.
        seconds: From the first signal to its exit.
        bound_s: The promise: what those seconds may be after the signals that came.
        cuts: What its report says that it cut.
        said: Every line that it logged.
        events: What its journal has.
        left: How soon it noticed each client of `Served.gone`.
    """

    code: int
    seconds: float
    bound_s: float
    cuts: list[str]
    said: list[str]
    events: list[Event]
    left: list[Left]


@dataclass
class Served:
    """The server.

    Attributes:
        process: The process.
        folder: Where its files are.
        url: Where it listens, once it does: ``http://…`` or ``unix:PATH``.
        said: What it has logged so far.
        drain_s: Its drain phase.
        cancel_s: Its cancel phase.
        row: What the results call it.
        gone: The clients that left: the names of their models, and when by the wall clock.
        may_fail: Whether a test provokes what the log has tracebacks of.
        may_lose: Whether a test lets the journal lose events, which must show in it.
    """

    process: subprocess.Popen[str]
    folder: Path
    mark: str
    drain_s: float
    cancel_s: float
    max_loaded: int = 0
    row: str = field(default_factory=row_now)
    gone: list[tuple[str, float]] = field(default_factory=list)
    url: str = ""
    said: list[str] = field(default_factory=list)
    may_fail: bool = False
    may_lose: bool = False
    _news: threading.Condition = field(default_factory=threading.Condition)
    _silent: bool = False
    _signals: list[tuple[int, float]] = field(default_factory=list)
    _ended: Ended | None = None
    _reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def bound_s(self) -> float:
        """The promise of its shutdown after one signal."""
        return self.drain_s + self.cancel_s + SLACK_S

    def _promised_s(self) -> float:
        """The promise after the signals that it was sent: each further one skips a phase."""
        (_, first), *_ = self._signals
        phases = (self.bound_s, self.cancel_s + SLACK_S, SLACK_S)
        given = zip(self._signals, phases, strict=False)
        return min(at - first + allowed for (_, at), allowed in given)

    # What it says.

    def read_log(self) -> None:
        """Take its lines, in a thread, until it closes its end."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.said.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()

    def hear(self, word: str, *, since: int = 0) -> str:
        """Wait for a line with a word in it; blocks."""

        def found() -> str | None:
            return next((line for line in self.said[since:] if word in line), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._silent, PATIENCE_S)
            line = found()
        assert line is not None, f"it did not say {word!r}: {self.said}"
        return line

    async def heard(self, word: str, *, since: int = 0) -> str:
        """`hear`, without blocking."""
        return await trio.to_thread.run_sync(lambda: self.hear(word, since=since))

    # What is asked of it.

    async def connect(self, *, receive_buffer: int | None = None) -> Client:
        """Connect to it."""
        return await connected(self.url, receive_buffer=receive_buffer)

    async def begin(self, path: str, body: object = None, **headers: str) -> Client:
        """Send a whole request, and do not wait for its answer."""
        client = await self.connect()
        await client.ask(path, body, **headers)
        return client

    async def get(self, path: str) -> Answer:
        async with await self.begin(path) as client:
            return await client.answer()

    async def post(self, path: str, body: object) -> Answer:
        async with await self.begin(path, body) as client:
            return await client.answer()

    async def run(self, name: str = "sim", **options: object) -> Answer:
        """Run one job whole."""
        return await self.post("/v1/tasks/run", bodies.run(name, **options))

    async def model(self, name: str = "sim") -> Any:
        return (await self.get(f"/v1/models/{name}")).json

    async def until(
        self, condition: Callable[[Any], object], name: str = "sim", *, within_s: float = PATIENCE_S
    ) -> Any:
        """Look at a model until something holds of it."""
        with trio.move_on_after(within_s):
            while not condition(seen := await self.model(name)):  # noqa: ASYNC110 - no event here
                await trio.sleep(0.01)
            return seen
        raise AssertionError(f"it never came to that: {await self.model(name)}")

    # What it holds.

    def workers(self) -> list[int]:
        """Its child processes."""
        return workers(self.pid)

    async def worker(self, name: str) -> int:
        """The one worker process of a model, which may be about to start."""
        with trio.move_on_after(PATIENCE_S):
            while True:
                found = [pid for pid in self.workers() if f"model '{name}'" in command_line(pid)]
                if found:
                    (pid,) = found
                    return pid
                await trio.sleep(0.01)
        raise AssertionError(f"model {name!r} never had a worker")

    async def freeze(self) -> None:
        """Stop it where it stands, as a debugger or a paused container does, until SIGCONT."""
        os.kill(self.pid, signal.SIGSTOP)
        with trio.fail_after(PATIENCE_S):
            while not stands_still(self.pid):  # noqa: ASYNC110 - no event here
                await trio.sleep(0.01)

    # Its end.

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self._signals.append((number, time.monotonic()))
        self.process.send_signal(number)

    def end(self) -> Ended:
        """Wait until it has ended, note how, and examine what is left; blocks."""
        if self._ended is None:
            code = self.process.wait(PATIENCE_S + self.bound_s)
            now = time.monotonic()
            seconds = now - (self._signals[0][1] if self._signals else now)
            bound_s = self._promised_s() if self._signals else self.bound_s
            with self._news:
                self._news.wait_for(lambda: self._silent, GONE_WITHIN_S)
            cuts = [line.partition("cut: ")[2] for line in self.said if "cut: " in line]
            if self._signals:
                names = [signal.Signals(number).name for number, _ in self._signals]
                note_end(End(self.row, names, bound_s, seconds, code, len(cuts)))
            assert seconds < bound_s, f"it took longer than it promises: {self.said}"
            events, left = self._examine()
            self._ended = Ended(code, seconds, bound_s, cuts, self.said, events, left)
        return self._ended

    async def ended(self) -> Ended:
        """`end`, without blocking."""
        return await trio.to_thread.run_sync(self.end)

    async def stopped(self, *signals: int) -> Ended:
        """Send signals, one as soon as the one before it was heeded, and wait for the end."""
        phases = {0: "draining: ", 1: "stopping: "}
        for index, number in enumerate(signals or (signal.SIGTERM,)):
            if index:
                await self.heard(phases[index - 1])
            self.signal(number)
        return await self.ended()

    def _examine(self) -> tuple[list[Event], list[Left]]:
        assert self._silent, "something of it still holds its log open"
        failures = [line for line in self.said if "Traceback" in line]
        assert not failures or self.may_fail, "\n".join(self.said)
        left = marked(self.mark)
        deadline = time.monotonic() + GONE_WITHIN_S
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = marked(self.mark)
        assert not left, f"processes are left: {left}"
        temporary = {path.name for path in (self.folder / "tmp").iterdir()}
        assert not temporary, f"temporary files are left: {temporary}"
        return self._replayed()

    def _replayed(self) -> tuple[list[Event], list[Left]]:
        """What the journal has, held to every rule, and what it tells of clients that left."""
        journal = self.folder / "journal.jsonl"
        try:
            trace = read(journal)
        except (FileNotFoundError, JournalError):
            return [], []
        events = list(trace.events)
        if self.may_lose:
            kept = [event for number, event in enumerate(events, 1) if event.seq == number]
            whole = bool(events) and events[-1].facts.get("phase") == "stopped"
            assert not whole or len(kept) < len(events), "what was lost must show"
            events = kept
        violations = check(events, max_loaded_models=self.max_loaded)
        assert not violations, "\n".join(map(str, violations))
        return events, [measured(trace, name, at) for name, at in self.gone]


def environment(folder: Path, mark: str, more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without settings of ours, and with folders of the test's own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PARAUDIO_")}
    home = {"PARAUDIO_HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    return {**kept, **home, mark: "1", **more}


@contextmanager
def started(
    folder: Path,
    models: Sequence[object] = (),
    *flags: str,
    program: Sequence[str] = PROGRAM,
    environ: Mapping[str, str] = {},
    drain_ms: int = 5000,
    cancel_ms: int = 1000,
    pass_fds: Sequence[int] = (),
    **settings: object,
) -> Iterator[Served]:
    """Start a server, and do not wait for anything; its end is examined on the way out."""
    (folder / "tmp").mkdir()
    config = folder / "server.json"
    shutdown = {"drain_timeout_ms": drain_ms, "cancel_timeout_ms": cancel_ms}
    config.write_text(
        json.dumps({"port": 0, "ui_management": True, "models": models, **shutdown, **settings})
    )
    journal = [] if "journal" in settings else ["--journal", str(folder / "journal.jsonl")]
    mark = MARK + secrets.token_hex(8).upper()
    process = subprocess.Popen(
        [*program, "--config", str(config), *journal, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder, mark, environ),
        pass_fds=pass_fds,
    )
    limit = settings.get("max_loaded_models", 0)
    assert isinstance(limit, int)
    served = Served(process, folder, mark, drain_ms / 1000, cancel_ms / 1000, limit)
    reader = threading.Thread(target=served.read_log)
    reader.start()
    try:
        yield served
        if served.process.poll() is None and not served._signals:
            served.signal()
        served.end()
    finally:
        process.kill()
        process.wait()
        for line in marked(mark):  # only after a failure: the end was examined above
            with suppress(OSError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
        reader.join()
        if process.stderr is not None:
            process.stderr.close()


@asynccontextmanager
async def in_threads(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave what blocks without blocking the loop."""
    value = await trio.to_thread.run_sync(manager.__enter__)
    try:
        yield value
    except BaseException as error:
        # The block's own failure is told; what the end would say against it is not.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(manager.__exit__, type(error), error, None)
        raise
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(manager.__exit__, None, None, None)


@asynccontextmanager
async def serving(
    folder: Path, models: Sequence[object] = (), *flags: str, **more: Any
) -> AsyncIterator[Served]:
    """Start a server and wait until it listens."""
    async with in_threads(started(folder, models, *flags, **more)) as served:
        line = await served.heard("listening on ")
        served.url = line.partition("listening on ")[2].split()[0]
        yield served
