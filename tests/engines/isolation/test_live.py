"""Live input through the isolations: pieces in, events out, and nothing left of a job."""

import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
from tests.engines.odd_families import OddFamily, OddModel, OddSession, odd_load, say

from paraudio.engines import (
    Audio,
    Job,
    Load,
    LoadedModel,
    Piece,
    Result,
    Session,
    Stop,
    StreamEvent,
)
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import (
    SessionHandle,
    open_process_isolation,
    open_thread_isolation,
)
from paraudio.errors import BackendError, BackendHungError, InvalidRequestError
from paraudio.spec import Task

WHOLE = StreamEvent(result=Result(text="all"))
BLANK = Job(task="asr")


class LiveOddFamily(OddFamily):
    """An odd family whose sessions take pieces that say what to do."""

    def load(self, load: Load, stop: Stop) -> LoadedModel:
        super().load(load, stop)
        return LiveOddModel(self)


class LiveOddModel(OddModel):
    def session(self) -> Session | None:
        super().session()
        return LiveOddSession(self.family, self.sessions)


class LiveOddSession(OddSession):
    ending: Sequence[object] = (WHOLE,)

    def begin(self, job: Job, stop: Stop) -> None:
        stop.check()
        self.prepare(job)
        self.ending = (WHOLE,)
        self.family.log.append("begin")

    def feed(self, piece: Piece, stop: Stop) -> Sequence[StreamEvent]:
        stop.check()
        self.family.log.append(f"feed {piece}")
        if piece == "wait":
            self.family.release.wait(60)
        if piece == "raise":
            raise ValueError("a bad piece")
        if piece == "refuse":
            raise InvalidRequestError("not this piece", param="input")
        endings = _ENDINGS.get(str(piece))
        if endings is not None:
            self.ending = endings
        return _GIFTS.get(str(piece), [StreamEvent(text=str(piece))])  # type: ignore[return-value]

    def finish(self, stop: Stop) -> Sequence[StreamEvent]:
        stop.check()
        return self.ending  # type: ignore[return-value]


_GIFTS: Mapping[str, Sequence[object]] = {"too much": [WHOLE], "no event": ["text"], "none": []}
_ENDINGS: Mapping[str, Sequence[object]] = {
    "end empty": [],
    "end early": [WHOLE, StreamEvent(text="more")],
    "end twice": [WHOLE, WHOLE],
    "end odd": [5],
}


@asynccontextmanager
async def opened(family: OddFamily) -> AsyncIterator[SessionHandle]:
    async with open_thread_isolation(hang_timeout_s=0.05) as isolation:
        model = await isolation.load(family, odd_load())
        session = await model.session()
        yield session
        await session.close()
        await model.close()


async def until(family: OddFamily, word: str) -> None:
    await trio.to_thread.run_sync(family.log.wait_for, word)


async def fed(session: SessionHandle, *pieces: Piece, job: Job = BLANK) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    async with session.live(job) as live:
        for piece in pieces:
            events += await live.feed(piece)
        events += await live.finish()
    return events


async def test_pieces_are_answered_one_by_one_and_the_end_by_the_whole() -> None:
    family = LiveOddFamily()
    async with opened(family) as session:
        assert session.can_live
        for _ in range(2):
            assert await fed(session, "a", "none", "b") == [
                StreamEvent(text="a"),
                StreamEvent(text="b"),
                WHOLE,
            ]
        assert family.log.count("reset") == 1
        assert (await session.run(say("hello"))).text == "1: hello"
        assert family.log.count("reset") == 2


async def test_a_session_that_takes_no_pieces_says_so_and_is_untouched() -> None:
    family = OddFamily()
    async with opened(family) as session:
        assert not session.can_live
        with pytest.raises(BackendError, match="takes no live input"):
            await fed(session)
        await session.run(say("hello"))
        assert "reset" not in family.log


async def test_a_live_job_that_is_refused_leaves_the_session_untouched() -> None:
    family = LiveOddFamily()
    async with opened(family) as session:
        with pytest.raises(InvalidRequestError, match="not this"):
            await fed(session, "a", job=say("refuse"))
        await session.run(say("hello"))
        assert "reset" not in family.log


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        ("raise", "live failed: ValueError: a bad piece"),
        ("too much", "a result although its input has not ended"),
        ("no event", "the family gave str, not StreamEvent"),
        ("end empty", "not one result at the end"),
        ("end early", "not one result at the end"),
        ("end twice", "not one result at the end"),
        ("end odd", "the family gave int, not StreamEvent"),
    ],
)
async def test_what_a_family_does_wrong_is_an_error_and_the_end_of_the_job(
    piece: str, said: str
) -> None:
    family = LiveOddFamily()
    async with opened(family) as session:
        with pytest.raises(BackendError, match=said):
            await fed(session, "a", piece)
        assert await fed(session, "b") == [StreamEvent(text="b"), WHOLE]
        assert family.log.count("reset") == 1


async def test_a_refused_piece_ends_the_job() -> None:
    family = LiveOddFamily()
    async with opened(family) as session, session.live(BLANK) as live:
        with pytest.raises(InvalidRequestError, match="not this piece"):
            await live.feed("refuse")
        with pytest.raises(trio.ClosedResourceError):
            await live.feed("a")
        with pytest.raises(trio.ClosedResourceError):
            await live.finish()
        assert "feed a" not in family.log


async def test_pieces_are_given_one_at_a_time() -> None:
    family = LiveOddFamily()
    async with (
        opened(family) as session,
        session.live(BLANK) as live,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(live.feed, "wait")
        await until(family, "feed wait")
        with pytest.raises(trio.ClosedResourceError):
            await live.feed("a")
        family.release.set()


async def test_a_piece_that_is_deaf_keeps_its_session_until_it_ends() -> None:
    family = LiveOddFamily()
    async with opened(family) as session:
        with trio.CancelScope() as scope:
            async with session.live(BLANK) as live, trio.open_nursery() as nursery:
                nursery.start_soon(live.feed, "wait")
                await until(family, "feed wait")
                scope.cancel()
        assert session.busy
        with pytest.raises(BackendHungError):
            await session.run(say("hello"))
        family.release.set()
        await session.wait_idle()
        assert (await session.run(say("hello"))).text == "1: hello"
        assert family.log[-1] == "reset"


async def test_between_two_pieces_no_thread_is_kept() -> None:
    family = LiveOddFamily()
    async with opened(family) as session, session.live(BLANK) as live:
        await live.feed("a")
        assert not session.busy
        assert not any("live" in thread.name for thread in threading.enumerate())


def loud(seconds: float) -> Audio:
    return Audio(np.full(round(seconds * 8_000), 0.5, np.float32), 8_000)


@pytest.mark.process
@pytest.mark.parametrize(
    ("task", "pieces"),
    [
        ("asr", (loud(1.5), loud(0.7))),
        ("vad", (loud(0.5), Audio(np.zeros(8_000, np.float32), 8_000), loud(0.5))),
        ("diar", (loud(2.5), loud(0.2))),
        ("tts", ("one ", "two")),
    ],
)
async def test_events_come_out_of_a_process_as_they_come_out_of_a_thread(
    task: Task, pieces: tuple[Piece, ...]
) -> None:
    load = Load("", task, "offline", None, None, {}, {}, model_id="sim")
    seen = []
    async with open_thread_isolation() as threads, open_process_isolation() as processes:
        for isolation in (threads, processes):
            model = await isolation.load(SimulatedFamily(), load)
            session = await model.session()
            *events, last = await fed(session, *pieces, job=Job(task=task))
            assert events
            assert last.result is not None
            shown = [repr(event) for event in events]
            sounds = [event.audio.samples.tolist() for event in events if event.audio is not None]
            seen.append((shown, sounds, last.result.text, last.result.segments))
            await session.close()
            await model.close()
    assert seen[0] == seen[1]
