"""Under a service manager: what it is told and when, and the sockets that it passes."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trio
from tests.server.clients import bodies, connected
from tests.server.harness import PATIENCE_S, in_threads, serving, simulated, started

pytestmark = pytest.mark.process

LONG_MS: Final = 60_000


@dataclass
class Manager:
    """A socket that takes states, as systemd's does."""

    socket: socket.socket

    def hear(self) -> dict[str, str]:
        """Wait for the next datagram; blocks."""
        lines = self.socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    async def heard(self) -> dict[str, str]:
        """`hear`, without blocking; the watchdog's are passed over."""
        while "WATCHDOG" in (states := await trio.to_thread.run_sync(self.hear)):
            pass
        return states

    def silent_for(self, seconds: float) -> bool:
        """Whether nothing comes for so long, once what has come is heard."""
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self.hear()
        self.socket.settimeout(seconds)
        try:
            self.hear()
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE_S)
        return False


@contextmanager
def managing(address: str) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(address)
        bound.settimeout(PATIENCE_S)
        yield Manager(bound)


@pytest.mark.parametrize("drained", [True, False])
async def test_the_manager_is_told_that_it_serves_that_it_ends_and_how_long_that_may_take(
    tmp_path: Path, drained: bool
) -> None:
    place = str(tmp_path / "notify")
    model = simulated(run_ms=1000 if drained else LONG_MS)
    with managing(place) as manager:
        environ = {"NOTIFY_SOCKET": place}
        async with in_threads(
            started(
                tmp_path,
                [model],
                environ=environ,
                drain_ms=20_000 if drained else 300,
                cancel_ms=1500,
            )
        ) as served:
            ready = await manager.heard()
            served.url = ready["STATUS"].removeprefix("serving on ")
            assert ready == {"READY": "1", "STATUS": f"serving on {served.url}"}
            # Connections are taken from that moment on.
            async with await served.begin("/v1/tasks/run", bodies.run()):
                await served.until(lambda seen: seen["active_slots"] and seen["loaded"])
                served.signal()
                stopping = await manager.heard()
            ended = await served.ended()
    assert stopping["STOPPING"] == "1"
    assert stopping["STATUS"].startswith("draining: 1 running; the oldest: POST /v1/tasks/run of")
    asked_s = int(stopping["EXTEND_TIMEOUT_USEC"]) / 1_000_000
    assert asked_s == pytest.approx(served.bound_s + 1), "its promise, and time to be buried"
    assert set(stopping) == {"STOPPING", "STATUS", "EXTEND_TIMEOUT_USEC"}
    assert ended.seconds < asked_s


async def test_the_watchdog_is_fed_from_the_loop_until_the_end(tmp_path: Path) -> None:
    place = str(tmp_path / "notify")
    environ = {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "200000"}
    with managing(place) as manager:
        async with in_threads(
            started(tmp_path, [simulated(run_ms=LONG_MS)], environ=environ, drain_ms=LONG_MS)
        ) as served:
            served.url = (await manager.heard())["STATUS"].removeprefix("serving on ")
            for _ in range(3):
                assert await trio.to_thread.run_sync(manager.hear) == {"WATCHDOG": "1"}
            async with await served.begin("/v1/tasks/run", bodies.run()):
                await served.until(lambda seen: seen["active_slots"] and seen["loaded"])
                served.signal()
                assert (await manager.heard())["STOPPING"] == "1"
                for _ in range(3):
                    assert await trio.to_thread.run_sync(manager.hear) == {"WATCHDOG": "1"}
                await served.freeze()
                assert manager.silent_for(1), "who stands still is found out"
                os.kill(served.pid, signal.SIGCONT)
                await served.stopped()


@pytest.mark.parametrize(
    ("usec", "pid", "period_s"),
    [
        ("30000000", "", 30.0),
        ("30000000", str(os.getpid()), 30.0),
        ("30000000", "1", None),
        ("", "", None),
        ("0", "", None),
        ("soon", "", None),
    ],
)
def test_the_watchdog_is_fed_only_where_the_manager_waits_for_this_process(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str, period_s: float | None
) -> None:
    from paraudio.server._notify import watchdog_s

    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    assert watchdog_s() == period_s


def test_an_abstract_socket_and_a_deaf_manager_are_no_trouble(tmp_path: Path) -> None:
    script = "from paraudio.server._notify import *; notify(READY); notify(STOPPING)"
    name = f"paraudio-test-{os.getpid()}"
    with managing(f"\0{name}") as manager:
        for address in (f"@{name}", str(tmp_path / "nobody")):
            environ = {**os.environ, "NOTIFY_SOCKET": address}
            subprocess.run([sys.executable, "-c", script], env=environ, check=True, timeout=60)
        assert manager.hear() == {"READY": "1"}
        assert manager.hear() == {"STOPPING": "1"}


def passing(descriptors: list[int]) -> tuple[str, ...]:
    """A program that hands sockets on as a service manager does: from 3 on, for this process."""
    script = textwrap.dedent(
        f"""
        import fcntl, os, sys
        given = {descriptors}
        kept = [fcntl.fcntl(each, fcntl.F_DUPFD, 100) for each in given]  # out of the way
        for number, each in enumerate(kept, 3):
            os.dup2(each, number)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)))
        os.execv(sys.executable, [sys.executable, "-m", "paraudio", "serve", *sys.argv[1:]])
        """
    )
    return (sys.executable, "-c", script)


async def test_the_sockets_of_the_sample_are_served_both(tmp_path: Path) -> None:
    place = str(tmp_path / "paraudio.sock")
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        unix.bind(place)
        unix.listen()
        numbers = [tcp.fileno(), unix.fileno()]
        async with serving(
            tmp_path, [simulated()], program=passing(numbers), pass_fds=numbers
        ) as served:
            assert served.url == f"http://127.0.0.1:{tcp.getsockname()[1]}"
            assert (await served.run()).status == 200
            async with await connected(f"unix:{place}") as client:
                await client.ask("/health/live")
                assert (await client.answer()).status == 200
            ended = await served.stopped()
        assert ended.code == 0
        assert await trio.Path(place).is_socket(), "the manager's own, for the next start"
        # Who connects while nobody serves waits for the next server, as the sample promises.
        async with await connected(f"unix:{place}") as client:
            await client.ask("/health/live")
            again = tmp_path / "again"
            await trio.Path(again).mkdir()
            async with serving(again, [simulated()], program=passing(numbers), pass_fds=numbers):
                assert (await client.answer()).status == 200
