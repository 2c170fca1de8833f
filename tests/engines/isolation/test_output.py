"""What workers print: it is logged, line by line, and nothing of it disturbs anybody."""

import itertools
import logging

import pytest
import trio
from tests.engines.odd_families import say

from paraudio.engines.isolation import SessionHandle

pytestmark = pytest.mark.process


async def test_what_a_worker_prints_is_logged_under_the_model_s_name(
    session: SessionHandle, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paraudio.worker")
    assert (await session.run(say("print"))).text == "printed"
    with trio.fail_after(5):
        while len(caplog.messages) < 3:  # noqa: ASYNC110 - the pipe has its own pace
            await trio.sleep(0.005)
    assert caplog.messages[:2] == ["model 'odd': a word", "model 'odd': to the log"]
    assert caplog.messages[2].startswith("model 'odd': xxx")


async def test_what_is_no_text_is_logged_as_its_bytes(
    session: SessionHandle, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paraudio.worker")
    await session.run(say("print bytes"))
    with trio.fail_after(5):
        while not caplog.messages:  # noqa: ASYNC110 - the pipe has its own pace
            await trio.sleep(0.005)
    assert caplog.messages == ["model 'odd': red \t\\x00\\xff\\x0dlike another line"]


async def test_a_worker_that_floods_its_log_leaves_the_others_their_turns(
    session: SessionHandle, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paraudio.worker")
    logged = [0]

    async def take_turns() -> None:
        with trio.fail_after(20):
            while logged[-1] < 30_000:
                await trio.lowlevel.checkpoint()
                logged.append(len(caplog.records))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        await session.run(say("flood"))
    # Within one pass of the loop the order is by chance, so that two pieces can come in a row.
    assert max(later - sooner for sooner, later in itertools.pairwise(logged)) <= 2 * 1024
