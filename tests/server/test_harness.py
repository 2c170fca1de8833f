"""The harness sees what it is for: it must fail a server that leaves something behind."""

import sys
import textwrap
from pathlib import Path

import pytest
from tests.server.harness import serving, simulated, started

pytestmark = pytest.mark.process


async def test_an_idle_server_ends_at_once_with_0(tmp_path: Path) -> None:
    async with serving(tmp_path, [simulated()]) as served:
        assert (await served.get("/health")).json["status"] == "ok"
        assert (await served.run()).status == 200
        ended = await served.stopped()
    assert ended.code == 0
    assert ended.cuts == []
    assert ended.seconds < served.drain_s


def test_a_process_that_is_left_is_noticed(tmp_path: Path) -> None:
    script = "import subprocess; subprocess.Popen(['sleep', '60'], stderr=subprocess.DEVNULL)"
    with (
        pytest.raises(AssertionError, match="processes are left"),
        started(tmp_path, program=(sys.executable, "-c", script)) as served,
    ):
        served.end()


def test_a_temporary_file_that_is_left_is_noticed(tmp_path: Path) -> None:
    script = "import tempfile; tempfile.mkstemp()"
    with (
        pytest.raises(AssertionError, match="temporary files are left"),
        started(tmp_path, program=(sys.executable, "-c", script)) as served,
    ):
        served.end()


def test_a_broken_rule_is_noticed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import trio
        from paraudio.journal import Journal, Kind
        async def main():
            async with Journal("journal.jsonl") as journal:
                journal(Kind.RELEASED, "m", ticket=1, slots=[0])
        trio.run(main)
        """
    )
    with (
        pytest.raises(AssertionError, match="never queued"),
        started(tmp_path, program=(sys.executable, "-c", script)) as served,
    ):
        served.end()


@pytest.mark.parametrize("signals", [1, 2])
def test_an_end_that_takes_longer_than_promised_is_noticed(tmp_path: Path, signals: int) -> None:
    script = textwrap.dedent(
        """
        import signal, sys, time
        left = int(sys.argv[1])
        def hear(*_):
            global left
            left -= 1
        signal.signal(signal.SIGTERM, hear)
        print("here", file=sys.stderr, flush=True)
        while left:
            time.sleep(0.01)
            print("left", left, file=sys.stderr, flush=True)
        time.sleep(1.2)
        """
    )
    drain_ms = 0 if signals == 1 else 60_000
    program = (sys.executable, "-c", script, str(signals))

    def end_late() -> None:
        with started(tmp_path, program=program, drain_ms=drain_ms, cancel_ms=0) as served:
            served.hear("here")
            served.signal()
            if signals == 2:
                served.hear("left 1")
                served.signal()

    with pytest.raises(AssertionError, match="longer than it promises"):
        end_late()
