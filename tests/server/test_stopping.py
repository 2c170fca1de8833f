import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import trio
import trio.testing

from paraudio.server._stopping import (
    EXIT_CUT,
    Phase,
    Shutdown,
    follow_signals,
    watchdog,
)


async def test_reaching_a_phase_reaches_each_phase_before_it() -> None:
    shutdown = Shutdown()
    shutdown.advance(Phase.STOPPING, "the test")
    with trio.fail_after(1):
        await shutdown.wait(Phase.DRAINING)
        await shutdown.wait(Phase.STOPPING)
    assert shutdown.phase is Phase.STOPPING


async def test_a_phase_never_goes_back() -> None:
    shutdown = Shutdown()
    shutdown.advance(Phase.LEAVING, "the test")
    shutdown.advance(Phase.DRAINING, "the test")
    assert shutdown.phase is Phase.LEAVING


async def test_a_phase_that_was_not_reached_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shutdown = Shutdown()
    shutdown.advance(Phase.DRAINING, "the test")
    with trio.move_on_after(60) as scope:
        await shutdown.wait(Phase.STOPPING)
    assert scope.cancelled_caught


async def test_each_signal_pushes_one_phase_on() -> None:
    shutdown = Shutdown()
    send, receive = trio.open_memory_channel[int](0)
    seen: list[Phase] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow_signals, shutdown, receive)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
            await send.send(number)
            await trio.testing.wait_all_tasks_blocked()
            seen.append(shutdown.phase)
        send.close()
    assert seen == [Phase.DRAINING, Phase.STOPPING, Phase.LEAVING, Phase.LEAVING]


def test_a_watchdog_that_is_left_in_time_does_nothing() -> None:
    reported: list[str] = []
    with watchdog(60, lambda: reported.append("cut")):
        pass
    assert reported == []


def test_without_a_thread_to_watch_the_end_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with watchdog(60, lambda: None):
            pass


def test_a_watchdog_ends_a_process_whose_loop_is_stuck() -> None:
    script = textwrap.dedent(
        """
        import time
        from paraudio.server._stopping import watchdog
        with watchdog(-0.7, lambda: print("cut: the loop", flush=True)):
            while True:
                time.sleep(1)
        """
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == EXIT_CUT
    assert done.stdout == "cut: the loop\n"
    assert time.monotonic() - start < 30


def test_code_that_keeps_the_lock_of_the_interpreter_does_not_keep_the_process() -> None:
    script = textwrap.dedent(
        """
        import ctypes
        from paraudio.server._stopping import watchdog
        with watchdog(-0.7, lambda: print("never")):
            ctypes.PyDLL(None).sleep(60)
        """
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert done.stdout == ""
    assert time.monotonic() - start < 30


def test_a_report_that_fails_does_not_keep_the_process() -> None:
    script = textwrap.dedent(
        """
        import time
        from paraudio.server._stopping import watchdog
        with watchdog(-0.7, lambda: 1 / 0):
            while True:
                time.sleep(1)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == EXIT_CUT


@pytest.mark.parametrize(
    "closed",
    [
        "sys.stdout = sys.stderr = None",
        "os.close(1); os.close(2)",
        "reads, writes = os.pipe(); os.close(reads); sys.stdout = open(writes, 'w'); print('x')",
    ],
    ids=["none", "closed", "unheard"],
)
def test_output_that_goes_nowhere_does_not_change_the_end(closed: str) -> None:
    script = textwrap.dedent(
        f"""
        import os, sys, time
        from paraudio.server._stopping import watchdog
        {closed}
        with watchdog(-0.7, lambda: None):
            while True:
                time.sleep(1)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == EXIT_CUT
