"""A listener of another kind in a real server: it drains, or does not, or stands still."""

import sys
import textwrap
from pathlib import Path

import pytest
import trio
from tests.server.harness import serving, simulated

from paraudio.journal import Kind

pytestmark = pytest.mark.process

LISTENER = textwrap.dedent(
    """
    import os
    import sys
    import time
    from pathlib import Path
    import trio
    from paraudio.config import load
    from paraudio.engines import Job
    from paraudio.server import run
    from paraudio.cli._logging import set_up

    def say(line):
        '''Write a line at once, whole: the log writes to the same place.'''
        os.write(2, f"{line}\\n".encode())

    async def lines(service):
        '''One line in, one line of a result out, over a socket of its own.'''
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        async def talk(stream):
            async for data in stream:
                async with service.runtime.use("sim", request="line") as use:
                    await use.ready()
                    await stream.send_all(b"begun\\n")
                    result = await use.run(Job(task="tts", text=data.decode().strip()))
                    await stream.send_all(result.text.encode() + b"\\n")
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, talk, [listener])
            say(f"lines on {port}")
            await service.wait_draining()
            if "stuck" in sys.argv:
                await trio.sleep(0.02)  # the drain has begun, and is not in the file yet
                time.sleep(60)
            if "stubborn" in sys.argv:
                await trio.sleep_forever()
            await service.runtime.wait_drained()
            nursery.cancel_scope.cancel()

    async def broken(service):
        raise OSError("no such device")

    set_up("info", "text")
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    flags = {"journal": sys.argv[sys.argv.index("--journal") + 1]}
    settings = load(config=config, environ={}, flags=flags).settings
    code = run(
        settings, listeners=[lines, broken],
        ready=lambda url: say(f"listening on {url}"),
    )
    sys.exit(code)
    """
)


@pytest.mark.contract("time/shutdown_custom_listener")
@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_listener_of_another_kind_drains_like_the_others(
    tmp_path: Path, stubborn: bool
) -> None:
    flags = ["stubborn"] if stubborn else []
    async with serving(
        tmp_path,
        [simulated(run_ms=700)],
        *flags,
        program=(sys.executable, "-c", LISTENER),
        drain_ms=1500,
    ) as served:
        served.may_fail = True
        await served.heard("the listener broken failed")
        port = int((await served.heard("lines on ")).rpartition(" ")[2])
        assert (await served.get("/health/live")).status == 200
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"hello\n")
            assert await stream.receive_some() == b"begun\n"
            served.signal()
            assert await stream.receive_some() == b"hello\n"
        ended = await served.ended()
    assert ended.code == (3 if stubborn else 0)
    assert ended.cuts == (["the listener lines was cut off"] if stubborn else [])
    assert ended.seconds < served.bound_s


@pytest.mark.contract("beyond/g05_bounded_shutdown")
async def test_a_loop_that_stands_still_ends_in_time_with_a_report_and_a_journal(
    tmp_path: Path,
) -> None:
    program = (sys.executable, "-c", LISTENER)
    async with serving(
        tmp_path, [simulated()], "stuck", program=program, drain_ms=300, cancel_ms=300
    ) as served:
        served.may_fail = True
        ended = await served.stopped()
    assert ended.code == 3
    assert ended.cuts == ["the event loop, which stood still past every bound"]
    assert [event.facts for event in ended.events if event.kind is Kind.PHASE] == [
        {"phase": "running"},
        {"phase": "draining"},
    ]
    assert [event.facts["what"] for event in ended.events if event.kind is Kind.CUT] == ended.cuts
    assert any("1 thing was cut" in line for line in ended.said)
