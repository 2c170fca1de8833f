"""A log whose reader has stopped, and signals that come when all is over: neither changes the end.

The harness reads the log of its servers, so these servers are started without it.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from tests.server.clients import Client, bodies, connected
from tests.server.harness import PATIENCE_S, PROGRAM, environment, simulated

from paraudio.journal import check, read

pytestmark = pytest.mark.process

DRAIN_S, CANCEL_S = 1.0, 1.0
PIPE_BYTES = 4096


@contextmanager
def unheard(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server that logs every request into a small pipe that nobody reads."""
    (folder / "tmp").mkdir()
    place = f"unix:{folder / 'socket'}"
    config = folder / "server.json"
    shutdown = {"drain_timeout_ms": DRAIN_S * 1000, "cancel_timeout_ms": CANCEL_S * 1000}
    config.write_text(json.dumps({"bind": [place], "models": [simulated()], **shutdown}))
    reads, writes = os.pipe()
    try:
        fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        process = subprocess.Popen(
            [*PROGRAM, "--config", str(config), "--journal", str(folder / "journal.jsonl")],
            stdin=subprocess.DEVNULL,
            stdout=writes,
            stderr=writes,
            cwd=folder,
            env=environment(folder, "TEST_UNHEARD", {}),
        )
        try:
            yield process, place
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(writes)
        os.close(reads)


async def reached(process: subprocess.Popen[bytes], place: str) -> Client:
    """A connection to a server that is about to listen."""
    with trio.fail_after(PATIENCE_S):
        while True:
            try:
                return await connected(place)
            except OSError:
                assert process.poll() is None
                await trio.sleep(0.02)


@pytest.mark.contract("beyond/g05_bounded_shutdown")
@pytest.mark.parametrize("busy", [False, True])
async def test_a_log_that_nobody_reads_holds_up_neither_requests_nor_the_end(
    tmp_path: Path, busy: bool
) -> None:
    with unheard(tmp_path) as (process, place):
        async with await reached(process, place) as client:
            for number in range(2 * PIPE_BYTES // 64):
                await client.ask("/v1/tasks/run", bodies.run(), X_Request_Id=f"{number}" * 8)
                with trio.fail_after(PATIENCE_S):
                    assert (await client.answer()).status == 200
        async with await reached(process, place) as client:
            if busy:
                await client.ask("/v1/tasks/run", bodies.run(run_ms=60_000))
                await trio.sleep(0.2)  # whether it has begun to run does not matter
            began = time.monotonic()
            process.terminate()
            code = await trio.to_thread.run_sync(process.wait, PATIENCE_S)
        assert time.monotonic() - began < DRAIN_S + CANCEL_S + 1
        assert code == (3 if busy else 0)
    events = list(read(tmp_path / "journal.jsonl").events)
    assert check(events) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_interpreter_ends_does_not_change_the_code(
    tmp_path: Path, number: int
) -> None:
    # The interpreter gives a signal that has a handler back to the system before its very end.
    (tmp_path / "tmp").mkdir()
    program = f"""
import os, signal, sys
from paraudio.cli import main
class Last:
    def __del__(self, say=os.write, send=signal.raise_signal):
        say(1, b"the end")
        send({number})
sys.last_of_all = Last()
main(["serve", "--port", "0"])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path, "TEST_LATE", {}),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "listening on" in line:
            break
    process.terminate()
    said, rest = process.communicate(timeout=PATIENCE_S)
    assert (said, process.returncode) == ("the end", 0), rest
