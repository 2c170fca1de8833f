"""The process isolation: workers die, hang and are killed, and the server stays as it was."""

import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from types import MappingProxyType

import numpy as np
import psutil
import pytest
import trio
from tests.engines.isolation.processes import children, pid_of
from tests.engines.odd_families import OddFamily, odd_load, say

from paraudio.engines import Audio, Job, Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import (
    ModelHandle,
    ProcessIsolation,
    SessionHandle,
    open_process_isolation,
)
from paraudio.engines.isolation._handle import Handle
from paraudio.engines.isolation._process_port import ProcessPort
from paraudio.errors import BackendCrashedError, BackendError, InvalidRequestError, LoadError

pytestmark = pytest.mark.process


async def test_a_job_runs_in_a_process_of_its_own(
    model: ModelHandle, session: SessionHandle
) -> None:
    assert (model.capacity, model.voices) == (4, ("this", "that"))
    result = await session.run(say("hello"))
    assert result.text == "1: hello"
    assert result.artifacts["pid"] == pid_of(session) != os.getpid()


async def test_every_session_has_a_worker_and_its_end_ends_the_worker(
    isolation: ProcessIsolation,
) -> None:
    model = await isolation.load(OddFamily(), odd_load())
    assert len(children()) == 1
    first, second = await model.session(), await model.session()
    assert len(children()) == 2
    assert pid_of(first) != pid_of(second)
    await second.close()
    assert len(children()) == 1
    await first.close()
    assert len(children()) == 1
    again = await model.session()
    assert pid_of(again) == pid_of(first)
    await again.close()
    await model.close()
    assert children() == []


async def test_what_a_family_raises_comes_back_and_the_worker_lives(
    session: SessionHandle,
) -> None:
    pid = pid_of(session)
    for deed, kind, said in (
        ("refuse", InvalidRequestError, "not this"),
        ("raise", BackendError, "run failed: ValueError: the deed itself"),
        ("raise odd", BackendError, "odd, 3 times"),
        ("leave", BackendError, "SystemExit: 4"),
        ("wrong", BackendError, "the family gave int, not Result"),
        ("unpicklable", BackendError, "sending the result of run failed"),
    ):
        with pytest.raises(kind) as failed:
            await session.run(say(deed))
        assert said in failed.value.message
        assert (await session.run(say("hello"))).artifacts["pid"] == pid


async def test_a_job_that_cannot_be_sent_fails_and_the_worker_lives(
    session: SessionHandle,
) -> None:
    job = Job(task="asr", options={"f": lambda: None})  # type: ignore[dict-item]
    with pytest.raises(BackendError, match=r"pickle|get local object"):
        await session.run(job)
    assert (await session.run(say("hello"))).text == "1: hello"


async def test_the_cause_of_a_failure_is_the_trace_in_the_worker(session: SessionHandle) -> None:
    with pytest.raises(BackendError) as failed:
        await session.run(say("raise"))
    assert "in _raise" in str(failed.value.__cause__)


@pytest.mark.parametrize(
    ("deed", "how"), [("die", "ended with code 3"), ("crash", "was killed by SIGSEGV")]
)
async def test_a_worker_that_dies_fails_its_own_run_and_comes_back(
    model: ModelHandle, session: SessionHandle, deed: str, how: str
) -> None:
    other = await model.session()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.run, say("sleep"))
        with pytest.raises(BackendCrashedError, match=how):
            await session.run(say(deed))
    await session.restore()
    assert (await session.run(say("hello"))).text == "1: hello"
    await other.close()


async def test_a_death_between_two_jobs_fails_neither(session: SessionHandle) -> None:
    first = pid_of(session)
    os.kill(first, signal.SIGKILL)
    assert isinstance(session, Handle)
    while not session._port.lost:  # noqa: ASYNC110 - it is the kernel that we wait for
        await trio.sleep(0.005)
    assert (await session.run(say("hello"))).text == "1: hello"
    assert pid_of(session) != first


async def test_a_call_that_holds_the_interpreter_is_killed_and_the_session_comes_back(
    isolation: ProcessIsolation, session: SessionHandle
) -> None:
    with trio.move_on_after(0.1):
        await session.run(say("hold"))
    assert session.busy
    assert len(isolation.abandoned()) == 1
    with trio.fail_after(5):
        assert await session.kill()
    assert isolation.abandoned() == []
    await session.wait_idle()
    await session.restore()
    assert (await session.run(say("hello"))).text == "1: hello"


async def test_closing_a_session_that_hangs_kills_its_worker(isolation: ProcessIsolation) -> None:
    model = await isolation.load(OddFamily(), odd_load())
    session = await model.session()
    with trio.move_on_after(0.1):
        await session.run(say("hold"))
    await session.close()
    with trio.fail_after(5):
        await session.wait_idle()
        await model.close()
    assert children() == []


async def test_a_cancelled_load_leaves_no_process(isolation: ProcessIsolation) -> None:
    for after_s in (0.0, 0.05, 0.4, 1.0):
        with trio.move_on_after(after_s) as scope:
            await isolation.load(OddFamily(deaf_load=True), odd_load())
        assert scope.cancelled_caught
        assert children() == []
    assert isolation.abandoned() == []


async def test_a_cancelled_session_leaves_no_process(isolation: ProcessIsolation) -> None:
    model = await isolation.load(OddFamily(slow_session=True), odd_load())
    with trio.move_on_after(0.1) as scope:
        await model.session()
    assert scope.cancelled_caught
    assert children() == []
    await model.close()


@pytest.mark.parametrize(
    ("family", "said"),
    [
        (OddFamily(exit_in_load=True), "ended with code 7"),
        (OddFamily(capacity=0), "0 sessions may exist"),
    ],
)
async def test_a_load_that_fails_leaves_no_process(
    isolation: ProcessIsolation, family: OddFamily, said: str
) -> None:
    with pytest.raises(BackendError, match=said):
        await isolation.load(family, odd_load())
    assert children() == []


async def test_a_session_that_fails_leaves_the_load(isolation: ProcessIsolation) -> None:
    model = await isolation.load(OddFamily(no_session=True), odd_load())
    for _ in range(2):
        with pytest.raises(LoadError, match="built no session"):
            await model.session()
    assert len(children()) == 1
    await model.close()
    assert children() == []


async def test_leaving_the_isolation_kills_whatever_still_runs() -> None:
    async with open_process_isolation(hang_timeout_s=0.1) as isolation:
        model = await isolation.load(OddFamily(), odd_load())
        session, _ = await model.session(), await model.session()
        with trio.move_on_after(0.1):
            await session.run(say("hold"))
        began = trio.current_time()
    assert trio.current_time() - began < 3
    assert children() == []


async def test_no_worker_survives_the_server_whatever_it_is_doing(tmp_path: Path) -> None:
    """The server is killed while one worker idles and one holds its interpreter's lock."""
    program = tmp_path / "server.py"
    program.write_text(_SERVER, encoding="utf-8")
    server = await trio.lowlevel.open_process(
        [sys.executable, str(program)], stdout=subprocess.PIPE, env={**os.environ, **_PATH}
    )
    assert server.stdout is not None
    told = b""
    while told.count(b"\n") < 2:
        told += await server.stdout.receive_some()
    pids = [int(line) for line in told.split()]
    assert all(psutil.pid_exists(pid) for pid in pids)
    server.kill()
    await server.wait()
    with trio.fail_after(10):
        while any(map(_is_alive, pids)):  # noqa: ASYNC110 - it is the kernel that we wait for
            await trio.sleep(0.01)
    await server.stdout.aclose()


async def test_signals_for_everyone_do_not_end_a_worker(session: SessionHandle) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid_of(session), number)
    first = pid_of(session)
    assert (await session.run(say("hello"))).artifacts["pid"] == first
    assert os.getpgid(first) == first


async def test_long_sound_and_read_only_options_reach_the_worker(
    isolation: ProcessIsolation,
) -> None:
    load = Load("/m", "asr", "offline", None, None, MappingProxyType({}), {}, model_id="m")
    model = await isolation.load(SimulatedFamily(), load)
    session = await model.session()
    samples = np.random.default_rng(1).standard_normal(1_500_000).astype(np.float32)
    job = Job(task="asr", audio=Audio(samples, 16_000), options=MappingProxyType({"run_ms": 1}))
    async with open_process_isolation() as other:
        twin = await (await other.load(SimulatedFamily(), load)).session()
        one, two = await session.run(job), await twin.run(job)
    assert one.artifacts["checksum"] == two.artifacts["checksum"]
    assert one.artifacts["frames"] == 1_500_000
    await session.close()
    await model.close()


@pytest.mark.parametrize("kind", ["run", "stream", "batch"])
async def test_whatever_came_to_its_end_shows_that_a_worker_is_well_again(
    isolation: ProcessIsolation, kind: str
) -> None:
    load = Load("/m", "tts", "offline", None, None, {}, {}, model_id="m")
    model = await isolation.load(SimulatedFamily(), load)
    session = await model.session()
    assert isinstance(session, Handle)
    assert isinstance(session._port, ProcessPort)
    job = Job(task="tts", text="well", options={"run_ms": 1})
    kill_and_see_it_die(pid_of(session))
    if kind == "run":
        await session.run(job)
    elif kind == "stream":
        async with session.stream(job) as events:
            assert [event.result is not None async for event in events][-1]
    else:
        async with session.run_batch([job, job]) as results:
            assert {index async for index, _ in results} == {0, 1}
    assert session._port._delay_s() == 0
    await session.close()
    await model.close()


async def test_what_the_simulated_family_counts_is_counted_across_workers(
    isolation: ProcessIsolation,
) -> None:
    family = SimulatedFamily()
    load = Load(
        "/m", "asr", "offline", None, None, {"fail_loads": 1, "fail_clone": 3}, {}, model_id="m"
    )
    with pytest.raises(LoadError, match="failure of load 1"):
        await isolation.load(family, load)
    model = await isolation.load(family, load)
    first = await model.session()
    with pytest.raises(LoadError, match="failure of session 3"):
        await model.session()
    third = await model.session()
    job = Job(task="asr", audio=Audio(np.zeros(1, np.float32), 8_000))
    assert [(await each.run(job)).artifacts["session"] for each in (first, third)] == [1, 3]
    await third.close()
    await first.close()
    await model.close()


def kill_and_see_it_die(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_a_job_that_comes_before_a_death_is_noticed_does_not_pay_for_it(
    session: SessionHandle,
) -> None:
    pid = pid_of(session)
    kill_and_see_it_die(pid)  # and no task has run since
    assert (await session.run(say("hello"))).artifacts["pid"] == pid_of(session) != pid


async def test_a_session_that_is_closed_while_it_comes_back_leaves_no_worker(
    isolation: ProcessIsolation,
) -> None:
    model = await isolation.load(OddFamily(), odd_load())
    first, second = await model.session(), await model.session()
    with pytest.raises(BackendCrashedError):
        await second.run(say("die"))

    async def come_back() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await second.restore()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(come_back)
        await trio.testing.wait_all_tasks_blocked()
        await second.close()
    assert len(children()) == 1
    await first.close()
    await model.close()
    assert children() == []


def test_a_worker_imports_nothing_of_the_server() -> None:
    program = (
        "import sys, paraudio.engines.worker._serve\n"
        "unwanted = {'trio', 'quart', 'hypercorn', 'pydantic', 'onnxruntime', 'click', 'psutil'}\n"
        "sys.exit(', '.join(sorted(unwanted & set(sys.modules))) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == 0


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


_PATH = {"PYTHONPATH": str(Path(__file__).parents[3])}
_SERVER = """
import trio
from tests.engines.odd_families import OddFamily, odd_load, say
from paraudio.engines.isolation import open_process_isolation

async def main():
    async with open_process_isolation() as isolation, trio.open_nursery() as nursery:
        model = await isolation.load(OddFamily(), odd_load())
        one, two = await model.session(), await model.session()
        nursery.start_soon(two.run, say("hold"))
        await trio.sleep(0.2)
        print(one.pid, two.pid, sep="\\n", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("seconds", [10, 200], ids=["by the socket", "by a memory file"])
async def test_a_waiting_session_holds_no_sound_of_the_last_job(
    session: SessionHandle, seconds: int
) -> None:
    samples = np.zeros(seconds * 16_000, np.float32)
    held = weakref.ref(samples)
    await session.run(Job(task="tts", text="say x", audio=Audio(samples, 16_000)))
    del samples
    assert held() is None
