"""A family of blocking code that misbehaves on demand, and tells what was done to it."""

import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat

from paraudio.engines import Job, Load, LoadedModel, Option, Result, Session, Stop, StreamEvent
from paraudio.errors import BackendError, InvalidRequestError
from paraudio.spec import IsolationName, Json, Task


class Log(list[str]):
    """What happened, in order; a thread can wait for a word to appear."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def append(self, word: str) -> None:
        with self._changed:
            super().append(word)
            self._changed.notify_all()

    def wait_for(self, word: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: word in self, timeout=10), f"no {word} in {self}"


class OddFamily:
    """Does what the text of a job says, by name of one of the functions below.

    Attributes:
        log: What was called, in order, as far as it happened in this process.
        release: Ends the jobs ``wait`` and the loads and builds that ignore their stop.
    """

    name: str = "odd"
    tasks: Mapping[Task, frozenset[str]] = {"asr": frozenset({"offline"})}
    load_options: tuple[Option, ...] = ()
    session_options: tuple[Option, ...] = ()
    request_options: tuple[Option, ...] = ()
    isolation: IsolationName | None = None
    imitates: bool = False
    advertises: str = "nothing"

    def __init__(
        self,
        *,
        capacity: int = 4,
        slow_load: bool = False,
        deaf_load: bool = False,
        slow_session: bool = False,
        no_reset: bool = False,
        no_session: bool = False,
        fail_inspect: bool = False,
        exit_in_load: bool = False,
    ) -> None:
        self.capacity = capacity
        self.slow_load = slow_load
        self.deaf_load = deaf_load
        self.slow_session = slow_session
        self.no_reset = no_reset
        self.no_session = no_session
        self.fail_inspect = fail_inspect
        self.exit_in_load = exit_in_load
        self.log = Log()
        self.release = threading.Event()

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (
            {name: value for name, value in vars(self).items() if name not in {"log", "release"}},
        )

    def inspect(self, load: Load) -> Mapping[str, Json]:
        if self.fail_inspect:
            raise RuntimeError("no idea")
        if not load.path:
            raise InvalidRequestError("there is no path", param="path")
        return {"odd": True}

    def estimate(self, load: Load) -> int:
        return 1_000 if load.path else 0

    def load(self, load: Load, stop: Stop) -> LoadedModel:
        self.log.append(f"load {load.path}")
        if self.exit_in_load:
            os._exit(7)
        if self.slow_load:
            stop.wait(60)
        if self.deaf_load:
            self.release.wait(60)
        return OddModel(self)


def _again(options: dict[str, object]) -> OddFamily:
    family = OddFamily()
    vars(family).update(options)
    return family


class OddModel:
    def __init__(self, family: OddFamily) -> None:
        self.family = family
        self.sessions = 0

    def capacity(self) -> int:
        return self.family.capacity

    def voices(self) -> tuple[str, ...]:
        return ("this", "that")

    def session(self) -> Session | None:
        if self.family.no_session:
            return None
        self.sessions += 1
        self.family.log.append(f"session {self.sessions}")
        if self.family.slow_session:
            self.family.release.wait(60)
        return OddSession(self.family, self.sessions)

    def close(self) -> None:
        self.family.log.append("close model")


class OddSession:
    def __init__(self, family: OddFamily, number: int) -> None:
        self.family = family
        self.number = number

    def prepare(self, job: Job) -> object:
        if job.text == "refuse":
            raise InvalidRequestError("not this", param="text")
        if job.text == "break in prepare":
            raise RuntimeError("unprepared")
        return job

    def run(self, prepared: object, stop: Stop) -> Result:
        assert isinstance(prepared, Job)
        said = prepared.text or ""
        deed = _DEEDS.get(said)
        if deed is not None:
            return deed(self.family, stop)
        return Result(text=f"{self.number}: {said}", artifacts={"pid": os.getpid()})

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        try:
            yield StreamEvent(text="one ")
            self.run(prepared, stop)
            yield StreamEvent(text="two")
            yield StreamEvent(result=Result(text="one two"))
        finally:
            self.family.log.append("stream closed")

    def reset(self) -> None:
        if self.family.no_reset:
            raise RuntimeError("broken")
        self.family.log.append("reset")

    def close(self) -> None:
        self.family.log.append(f"close session {self.number}")


def _raise(family: OddFamily, stop: Stop) -> Result:
    raise ValueError("the deed itself")


def _raise_ours(family: OddFamily, stop: Stop) -> Result:
    raise BackendError("said by the family")


class OddError(BackendError):
    """One of a family's own, which is made of other things than ours."""

    def __init__(self, deed: str, number: int) -> None:
        super().__init__(f"{deed}, {number} times")


def _raise_odd(family: OddFamily, stop: Stop) -> Result:
    raise OddError("odd", 3)


def _leave(family: OddFamily, stop: Stop) -> Result:
    raise SystemExit(4)


def _wait(family: OddFamily, stop: Stop) -> Result:
    """Wait deaf to the stop, until released."""
    family.log.append("waiting")
    family.release.wait(60)
    return Result(text="waited")


def _heed(family: OddFamily, stop: Stop) -> Result:
    family.log.append("heeding")
    stop.wait(60)
    return Result(text="waited in vain")


def _hold(family: OddFamily, stop: Stop) -> Result:
    """Hold the interpreter's lock for ever: no thread of the process runs again."""
    deque(repeat(None), maxlen=0)
    return Result()


def _print(family: OddFamily, stop: Stop) -> Result:
    print("a word\nto the log", flush=True)  # noqa: T201 - what libraries do
    sys.stderr.write("x" * 100_000 + "\n")
    return Result(text="printed")


def _print_bytes(family: OddFamily, stop: Stop) -> Result:
    os.write(1, b"\x1b[0;93mred\x1b[m \t\x00\xff\rlike another line\n")
    return Result(text="printed")


def _flood(family: OddFamily, stop: Stop) -> Result:
    os.write(1, b"a\n" * 30_000)
    return Result(text="flooded")


def _wrong(family: OddFamily, stop: Stop) -> Result:
    return 5  # type: ignore[return-value]


def _unpicklable(family: OddFamily, stop: Stop) -> Result:
    return Result(artifacts={"f": lambda: None})  # type: ignore[dict-item]


def _die(family: OddFamily, stop: Stop) -> Result:
    os._exit(3)


def _crash(family: OddFamily, stop: Stop) -> Result:
    ctypes.string_at(0)
    return Result()


def _fork(family: OddFamily, stop: Stop) -> Result:
    """Leave a process behind that has all that the worker has, and never ends by itself."""
    child = os.fork()
    while not child:
        time.sleep(60)
    return Result(text=str(child))


def _fork_and_die(family: OddFamily, stop: Stop) -> Result:
    _fork(family, stop)
    os._exit(3)


def _sleep(family: OddFamily, stop: Stop) -> Result:
    time.sleep(0.3)
    return Result(text="slept")


_DEEDS: dict[str, Callable[[OddFamily, Stop], Result]] = {
    "raise": _raise,
    "raise ours": _raise_ours,
    "raise odd": _raise_odd,
    "leave": _leave,
    "wait": _wait,
    "heed": _heed,
    "hold": _hold,
    "print": _print,
    "print bytes": _print_bytes,
    "flood": _flood,
    "wrong": _wrong,
    "unpicklable": _unpicklable,
    "die": _die,
    "crash": _crash,
    "fork": _fork,
    "fork and die": _fork_and_die,
    "sleep": _sleep,
}


def say(text: str) -> Job:
    """A job that says what to do."""
    return Job(task="asr", text=text)


def odd_load(path: str = "/odd") -> Load:
    """A load for the odd family."""
    return Load(path, "asr", "offline", None, None, {}, {}, model_id="odd")
