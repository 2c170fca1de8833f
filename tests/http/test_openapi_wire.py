"""Broken bytes on the wire: whatever comes, the answers are HTTP, no fault is the server's."""

import json
import os
import random
import time
from typing import Final

import trio
from tests.http.conftest import EARS, VOICE, OpenWorld
from tests.http.wire import answers, mutated

from paraudio.transport import Limits, Server, open_tcp

SECONDS: Final = float(os.environ.get("PARAUDIO_FUZZ_S", "0"))
BATCHES: Final = 12
AT_ONCE: Final = 8
LIMITS: Final = Limits(slow_client_timeout_s=0.5, keep_alive_s=0.5, linger_s=0.2, sweep_s=0.05)


async def attack(port: int, data: bytes, pieces: list[int]) -> bytes:
    """Send bytes in pieces, and take what comes until the server ends it."""
    got = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:

        async def send() -> None:
            try:
                for start, end in zip([0, *pieces], [*pieces, len(data)], strict=True):
                    await stream.send_all(data[start:end])
                    await trio.lowlevel.checkpoint()
            except trio.BrokenResourceError:
                return  # it has heard enough

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            try:
                while more := await stream.receive_some(65536):
                    got += more
            except trio.BrokenResourceError:
                pass  # cut off: a request that did not come to its end
            nursery.cancel_scope.cancel()
    return got


def judge(sent: bytes, got: bytes) -> None:
    """Every answer is one, and none says that the server is at fault."""
    for status, head, body in answers(got):
        assert status < 500, (status, sent, got[:2000])
        if status >= 400 and body:
            assert b"application/json" in head, (sent, head)
            error = json.loads(body)["error"]
            assert set(error) == {"message", "type", "code", "param"}


async def test_broken_requests_are_nobodys_fault_but_their_senders(open_world: OpenWorld) -> None:
    dice = random.Random(time.time() if SECONDS else 7)
    until = time.monotonic() + SECONDS
    errors: list[tuple[str, BaseException]] = []
    async with open_world(VOICE, EARS, threads=True) as world, trio.open_nursery() as nursery:
        server = Server(
            world.client.app, LIMITS, on_error=lambda what, error: errors.append((what, error))
        )
        [listener] = await open_tcp("127.0.0.1", 0)
        port: int = listener.socket.getsockname()[1]
        await nursery.start(server.serve, [listener])
        statuses: dict[int, int] = {}

        async def one() -> None:
            sent = mutated(dice)
            cuts = sorted(dice.randrange(len(sent) + 1) for _ in range(dice.choice([0, 0, 2])))
            with trio.fail_after(120):
                got = await attack(port, sent, cuts)
            judge(sent, got)
            for status, _, _ in answers(got):
                statuses[status] = statuses.get(status, 0) + 1

        done = 0
        while done < BATCHES or time.monotonic() < until:
            done += 1
            async with trio.open_nursery() as batch:
                for _ in range(AT_ONCE):
                    batch.start_soon(one)
        await server.wait_idle()
        assert world.idle()
        assert errors == []
        # It reaches what it attacks.
        assert {200, 400} <= statuses.keys()
        server.stop()
