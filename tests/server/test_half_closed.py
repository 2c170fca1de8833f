"""Clients that close their sending side and still wait for the answer."""

from pathlib import Path

import pytest
from tests.server.harness import serving, simulated

pytestmark = pytest.mark.process

ASKED = {"model": "sim", "input": "hello", "options": {"run_ms": 300}}


@pytest.mark.parametrize("grace_ms", [0, 60_000])
async def test_a_client_that_closed_its_sending_side_gets_the_grace_that_was_set(
    tmp_path: Path, grace_ms: int
) -> None:
    async with serving(tmp_path, [simulated()], half_close_grace_ms=grace_ms) as served:
        async with await served.begin("/v1/audio/speech", ASKED) as client:
            await client.stream.send_eof()
            said = await client.rest()
        assert said.startswith(b"HTTP/1.1 200 ") if grace_ms else said == b""
