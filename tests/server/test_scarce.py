"""A server that may open no more files, and is asked for a worker process."""

import resource
from pathlib import Path

import pytest
from tests.server.clients import bodies
from tests.server.harness import serving, simulated
from tests.server.leaks import assert_nothing_left, held
from tests.server.processes import descriptors

pytestmark = pytest.mark.process


async def test_a_load_without_descriptors_is_503_and_the_model_loads_when_there_are_some(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, [simulated()], isolation="process") as served:
        assert (await served.run()).status == 200
        assert (await served.post("/v1/models/unload", {"id": "sim"})).status == 200
        async with await served.begin("/health/live") as client:
            await client.answer()
            before, count = held(served.pid), descriptors(served.pid)
            _, most = resource.prlimit(served.pid, resource.RLIMIT_NOFILE)
            # A worker takes several of them, and any may be the first that is not there.
            for spare in (0, 1, 2, 3, 4, 6):
                resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (count + spare, most))
                await client.ask("/v1/tasks/run", bodies.run())
                answer = await client.answer()
                assert (answer.status, answer.code) == (503, "server_busy"), answer.body
                assert answer.headers["retry-after"] == "1"
                assert "Too many open files" in answer.json["error"]["message"]
                await assert_nothing_left(served, before)
            resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (1024, most))
            await client.ask("/v1/tasks/run", bodies.run())
            assert (await client.answer()).status == 200
        ended = await served.stopped()
    assert (ended.code, ended.cuts) == (0, [])
