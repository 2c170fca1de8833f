import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from tests.cli.programs import environment

from paraudio.cli._signals import Interrupted, until_signal


def until(work: Callable[[trio.CancelScope], Awaitable[int | None]]) -> int:
    return trio.run(until_signal, work)


def test_work_that_ends_gives_its_result() -> None:
    async def work(scope: trio.CancelScope) -> int:
        with scope:
            await trio.lowlevel.checkpoint()
        return 5

    assert until(work) == 5


def test_a_failure_comes_out_as_it_is() -> None:
    async def work(scope: trio.CancelScope) -> int:
        await trio.lowlevel.checkpoint()
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        until(work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_scope_and_the_work_cleans_up(number: signal.Signals) -> None:
    cleaned = []

    async def work(scope: trio.CancelScope) -> int | None:
        with scope:
            os.kill(os.getpid(), number)
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        cleaned.append(True)
        return None

    with pytest.raises(Interrupted) as caught:
        until(work)
    assert caught.value.code == 128 + number
    assert cleaned == [True]


def test_work_that_ends_in_spite_of_a_signal_has_ended() -> None:
    async def work(scope: trio.CancelScope) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()
        assert scope.cancel_called
        return 6

    assert until(work) == 6


@pytest.mark.process
def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    program = """
import os, signal, trio
from paraudio.cli._signals import until_signal
async def work(scope):
    with scope:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()
    print("cleaning up", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
trio.run(until_signal, work)
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        timeout=30,
        env=environment(tmp_path),
    )
    assert found.stdout == b"cleaning up\n"
    assert found.returncode == 143
