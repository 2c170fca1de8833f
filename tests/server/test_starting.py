"""Where the server listens, whom it tells, and signals that come before it serves."""

import errno
import os
import signal
import socket
import time
from pathlib import Path

import pytest
import trio
from tests.server.clients import connected
from tests.server.harness import in_threads, serving, simulated, started

from paraudio.config import Settings
from paraudio.errors import ConfigError
from paraudio.server._bind import open_listeners

pytestmark = pytest.mark.process


def caught(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.8])
def test_a_signal_during_startup_ends_it_with_0(
    tmp_path: Path, number: int, after_s: float
) -> None:
    # Before the handler is there, the interpreter itself is starting. SIGINT has one from the
    # beginning, so SIGTERM's tells.
    with started(tmp_path, [simulated()]) as served:
        while not caught(served.pid, signal.SIGTERM):
            assert served.process.poll() is None
        time.sleep(after_s)  # where in its startup it is hit does not matter
        served.signal(number)
        ended = served.end()
    assert ended.code == 0
    assert ended.seconds < served.bound_s


@pytest.mark.contract("beyond/g05_bounded_shutdown")
def test_a_signal_ends_a_start_that_hangs_without_a_drain(tmp_path: Path) -> None:
    pipe, place = tmp_path / "journal", tmp_path / "socket"
    os.mkfifo(pipe)  # opening it waits for a reader, for ever
    bind = [f"unix:{place}"]
    with started(tmp_path, [], drain_ms=60_000, journal=str(pipe), bind=bind) as served:
        while not place.exists():  # by then its own handling of signals has begun
            assert served.process.poll() is None
            time.sleep(0.02)
        served.signal()
        ended = served.end()
    assert ended.code == 3
    assert ended.cuts == ["the start, which did not end"]
    assert ended.seconds < 30, "there is nothing to drain, and so nothing to wait for"


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_facts_of_a_model_are_known_before_its_first_load(
    tmp_path: Path, isolation: str
) -> None:
    models = [simulated(), {"id": "far", "family": "piper_tts", "path": "store:piper-joe"}]
    async with serving(tmp_path, models, isolation=isolation) as served:
        seen = await served.until(lambda seen: "sample_rate" in seen)
        assert (seen["state"], seen["generation"]) == ("unloaded", 0)
        far = await served.model("far")
        assert "sample_rate" not in far, "nothing is fetched for it"
        ended = await served.stopped()
    assert ended.code == 0
    assert not [line for line in ended.said if "fetching" in line]


async def test_a_unix_socket_is_served_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "paraudio.sock"
    async with serving(tmp_path, [simulated()], "--bind", f"unix:{path}") as served:
        assert served.url == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        assert (await served.run()).status == 200
        ended = await served.stopped()
    assert ended.code == 0
    assert not path.exists()


async def test_each_place_of_bind_is_served(tmp_path: Path) -> None:
    path = tmp_path / "paraudio.sock"
    places = ["127.0.0.1:0", f"unix:{path}"]
    async with serving(tmp_path, [simulated()], bind=places) as served:
        assert served.url.startswith("http://127.0.0.1:")
        assert (await served.get("/health/live")).status == 200
        async with await connected(f"unix:{path}") as client:
            await client.ask("/health/live")
            assert (await client.answer()).status == 200
        await served.heard(f"listening on unix:{path}")
        told = [line.partition("listening on ")[2] for line in served.said]
    assert list(filter(None, told)) == [f"{served.url} (stop with Ctrl-C)", f"unix:{path}"]


@pytest.mark.parametrize(
    ("place", "word"),
    [
        ("inherited", "no socket was inherited"),
        ("unix:/nowhere/there.sock", "No such file"),
        (f"unix:/tmp/{'long' * 30}", "AF_UNIX path too long"),
        ("unix:here", "absolute path"),
        ("::1:80", "brackets"),
        ("127.0.0.1:x", "port"),
    ],
)
def test_a_place_that_cannot_be_had_ends_with_2_and_one_line(
    tmp_path: Path, place: str, word: str
) -> None:
    with started(tmp_path, [simulated()], "--bind", place, "--log-level", "error") as served:
        ended = served.end()
    assert ended.code == 2
    (line,) = ended.said
    assert word in line


def test_a_port_that_another_program_has_is_said_to_be_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with started(tmp_path, [simulated()], "--port", str(port)) as served:
            ended = served.end()
    assert ended.code == 2
    assert ended.said[-1] == (
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "another program listens there; --port takes another one, and with 0 any that is free"
    )


async def test_a_port_that_needs_a_privilege_is_said_to_need_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(host: str, port: int) -> list[trio.SocketListener]:
        raise PermissionError(errno.EACCES, f"no {port} of {host}")

    monkeypatch.setattr("paraudio.server._bind.open_tcp", refuse)
    with pytest.raises(ConfigError, match="no 80 of ::1; ports below 1024 need a privilege"):
        async with open_listeners(Settings(host="::1", port=80)):
            pass


def test_a_server_that_cannot_listen_leaves_the_journal_of_the_one_before(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    text = '{"format": "paraudio-journal", "version": 1}\n'
    journal.write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        with started(tmp_path, [simulated()], "--port", port, journal=str(journal)) as served:
            ended = served.end()
    assert ended.code == 2
    assert journal.read_text() == text
    assert not list(tmp_path.glob("run.jsonl.*"))


def test_a_journal_that_is_none_is_refused_and_left(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("bread\n")
    with started(tmp_path, [simulated()], journal=str(notes)) as served:
        ended = served.end()
    assert ended.code == 2
    assert ended.said[-1].startswith(f"error: the file '{notes}' is no journal")
    assert notes.read_text() == "bread\n"
    assert not list(tmp_path.glob("notes.txt.*"))


async def test_a_journal_that_another_server_writes_is_refused_and_goes_on(tmp_path: Path) -> None:
    second = tmp_path / "second"
    await trio.Path(second).mkdir()
    async with serving(tmp_path, [simulated()]) as served:
        journal = str(tmp_path / "journal.jsonl")
        async with in_threads(started(second, [simulated()], journal=journal)) as refused:
            ended = await refused.ended()
        assert ended.code == 2
        assert ended.said[-1].startswith(f"error: the journal '{journal}' is in use")
        assert (await served.run()).status == 200
        ended = await served.stopped()
    assert "run_ended" in [event.kind for event in ended.events]
    assert not await trio.Path(f"{journal}.1").exists()
