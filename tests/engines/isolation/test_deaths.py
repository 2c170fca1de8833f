"""Workers that die in odd ways: with children, deaf, before they could say why, or not at all."""

import errno
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import trio
from tests.engines.odd_families import OddFamily, odd_load, say

from paraudio.engines import Job, Load, Stop
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import ProcessIsolation, SessionHandle, open_process_isolation
from paraudio.engines.isolation._handle import Handle
from paraudio.engines.worker._messages import StopAsking
from paraudio.engines.worker._serve import Worker
from paraudio.engines.worker._wire import Ancillary
from paraudio.errors import BackendCrashedError, LoadError

pytestmark = pytest.mark.process


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(true: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not true():  # noqa: ASYNC110 - it is the kernel that we wait for
            await trio.sleep(0.01)


async def test_what_a_worker_has_started_ends_with_it_however_it_ends(
    session: SessionHandle,
) -> None:
    helper = int((await session.run(say("fork"))).text or "")
    assert is_alive(helper)
    with trio.fail_after(20), pytest.raises(BackendCrashedError, match="ended with code 3"):
        await session.run(say("die"))
    await until(lambda: not is_alive(helper))


async def test_a_death_is_noticed_although_a_child_keeps_the_worker_s_socket(
    session: SessionHandle,
) -> None:
    with trio.fail_after(20), pytest.raises(BackendCrashedError, match="ended with code 3"):
        await session.run(say("fork and die"))
    assert (await session.run(say("hello"))).text == "1: hello"


class Unreadable:
    """Is sent well, and cannot be received."""

    def __reduce__(self) -> tuple[object, ...]:
        return _no_room, ()


def _no_room() -> None:
    raise MemoryError("no room for a call")


async def test_a_worker_that_cannot_read_a_call_dies_of_it_and_says_why(
    session: SessionHandle, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paraudio.worker")
    job = Job(task="asr", options={"sound": Unreadable()})  # type: ignore[dict-item]
    with trio.fail_after(20), pytest.raises(BackendCrashedError, match="ended with code 1"):
        await session.run(job)
    assert "model 'odd': MemoryError: no room for a call" in caplog.messages
    assert (await session.run(say("hello"))).text == "1: hello"


async def test_a_server_without_descriptors_says_why_a_worker_is_given_up(
    isolation: ProcessIsolation, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Load("/m", "tts", "offline", None, None, {}, {}, model_id="m")
    model = await isolation.load(SimulatedFamily(), load)
    session = await model.session()
    long = Job(task="tts", text="word " * 6000)  # minutes of sound, in a memory file
    with monkeypatch.context() as patched, trio.fail_after(20):
        # As `recvmsg` does where the system has no number for a descriptor that came.
        patched.setattr("paraudio.engines.isolation._frames.descriptor_in", close_descriptor)
        with pytest.raises(BackendCrashedError):
            await session.run(long)
    assert any("cannot be heard: [Errno 24] Too many open files" in m for m in caplog.messages)
    assert (await session.run(long)).audio is not None
    await session.close()
    await model.close()


async def test_an_answer_that_makes_no_sense_fails_its_call(
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise TypeError("no sense")

    with monkeypatch.context() as patched, trio.fail_after(20):
        patched.setattr("paraudio.engines.isolation._child.unpacked", refuse)
        with pytest.raises(BackendCrashedError):
            await session.run(say("hello"))
    assert (await session.run(say("hello"))).text == "1: hello"


async def test_a_worker_that_cannot_be_called_is_given_up(
    session: SessionHandle, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    with monkeypatch.context() as patched, trio.fail_after(20):
        patched.setattr("paraudio.engines.isolation._child.send_message", refuse)
        with pytest.raises(BackendCrashedError):
            await session.run(say("hello"))
    assert any("cannot be told: [Errno 105]" in line for line in caplog.messages)
    assert (await session.run(say("hello"))).text == "1: hello"


def close_descriptor(ancillary: Ancillary) -> None:
    for _, _, data in ancillary:
        os.close(int.from_bytes(data[:4], sys.byteorder))


@pytest.mark.parametrize(
    ("then", "kind"),
    [("raise SystemExit(9)", BackendCrashedError), ("time.sleep(60)", LoadError)],
    ids=["it dies", "it hangs"],
)
async def test_what_a_worker_says_before_it_fails_to_start_is_logged(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    then: str,
    kind: type[Exception],
) -> None:
    caplog.set_level(logging.INFO, "paraudio.worker")
    program = f"import time; print('a library is missing', flush=True); {then}"
    monkeypatch.setattr(
        "paraudio.engines.isolation._child._command", lambda *_: [sys.executable, "-c", program]
    )
    async with open_process_isolation(start_timeout_s=2.0) as isolation:
        with pytest.raises(kind):
            await isolation.load(OddFamily(), odd_load())
    assert caplog.messages == ["model 'odd': a library is missing"]


async def test_a_session_that_does_not_close_costs_its_worker_and_leaves_none(
    isolation: ProcessIsolation,
) -> None:
    model = await isolation.load(OddFamily(), odd_load())
    sessions = [await model.session(), await model.session()]
    pids = []
    for each in sessions:
        assert isinstance(each, Handle)
        assert each.pid is not None
        pids.append(each.pid)
        os.kill(each.pid, signal.SIGSTOP)
    for each in sessions:
        await each.close()
    await model.close()
    assert not any(map(is_alive, pids))
    assert isolation.abandoned() == []


async def test_what_a_worker_has_started_does_not_survive_the_server(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(_SERVER, encoding="utf-8")
    path = {"PYTHONPATH": str(Path(__file__).parents[3])}
    server = await trio.lowlevel.open_process(
        [sys.executable, str(program)], stdout=subprocess.PIPE, env={**os.environ, **path}
    )
    assert server.stdout is not None
    helper = int(await server.stdout.receive_some())
    assert is_alive(helper)
    server.kill()
    await server.wait()
    await until(lambda: not is_alive(helper))
    await server.stdout.aclose()


_SERVER = """
import trio
from tests.engines.odd_families import OddFamily, odd_load, say
from paraudio.engines.isolation import open_process_isolation

async def main():
    async with open_process_isolation() as isolation:
        session = await (await isolation.load(OddFamily(), odd_load())).session()
        print((await session.run(say("fork"))).text, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


class Fleeting(dict[int, Stop]):
    """The stops of a worker whose main thread ends a call in the very moment of a look at it."""

    def __contains__(self, number: object) -> bool:
        found = super().__contains__(number)
        self.clear()
        return found


def test_a_stop_that_comes_as_its_call_ends_does_not_deafen_the_worker() -> None:
    one, other = socket.socketpair()
    with one, other:
        worker = Worker(other)
        stop = Stop()
        worker._stops = Fleeting({1: stop})
        worker._take(StopAsking(1))
        worker._take(StopAsking(2))
    assert stop.is_set()
