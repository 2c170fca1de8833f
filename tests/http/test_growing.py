"""Sound that is sent in a file while it is made: in every format, and its encoder never stays."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import trio
from tests.http.client import Call
from tests.http.conftest import OpenWorld, World, spec
from trio.testing import MockClock

from paraudio.audio import FORMATS, Growing, content_type, decode, open_growing
from paraudio.engines import Audio
from paraudio.http import _speech

SPEECH = "/v1/audio/speech"
TEXT = "a text that is long enough for some frames of any codec " * 4
CHUNKED = {"run_ms": 1000, "chunks": 4}


class Spy:
    """Counts the files that were begun and not yet closed."""

    def __init__(self) -> None:
        self.begun = 0
        self.open: set[Growing] = set()
        self.fails = False
        self.leaves: Callable[[], None] | None = None
        self.cut = False

    def __call__(self, container: str, rate: int) -> Growing:
        self.begun += 1
        spied = Spied(open_growing(container, rate), self)
        self.open.add(spied)
        return spied


class Spied:
    """A file that says when it is closed."""

    def __init__(self, file: Growing, spy: Spy) -> None:
        self._file = file
        self._spy = spy

    def push(self, audio: Audio, **rest: Any) -> bytes:
        if self._spy.fails:
            raise OSError("the encoder broke")
        if self._spy.leaves is not None:
            trio.from_thread.run_sync(self._spy.leaves)
        try:
            return self._file.push(audio, **rest)
        except trio.Cancelled:
            self._spy.cut = True
            raise

    def end(self) -> bytes:
        return self._file.end()

    def close(self) -> None:
        self._spy.open.discard(self)
        self._file.close()


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    """Watches every file that grows; none may be open when the test ends."""
    watching = Spy()
    monkeypatch.setattr(_speech, "open_growing", watching)
    yield watching
    assert watching.begun
    assert not watching.open


def start(world: World, kind: str, **fields: Any) -> Call:
    body = {"model": "voice", "input": TEXT, "stream_format": "audio", "response_format": kind}
    return world.client.start("POST", SPEECH, body | fields)


@pytest.mark.parametrize("kind", FORMATS)
async def test_every_format_grows_into_a_whole_file(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy, kind: str
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, kind)
        await call.ended.wait()
        whole = (await world.client.post(SPEECH, {"model": "voice", "input": TEXT})).body
        assert world.idle()
    assert call.reply.headers["content-type"] == content_type(kind)
    assert "content-length" not in call.reply.headers
    assert call.reply.complete
    wanted = decode(whole)
    if kind == "pcm":
        assert call.reply.body == whole[44:]
        return
    audio = decode(call.reply.body, rate=wanted.rate)
    assert audio.seconds == pytest.approx(wanted.seconds, abs=0.15)
    power = [float(np.sqrt(np.mean(sound.samples**2))) for sound in (audio, wanted)]
    assert power[0] == pytest.approx(power[1], rel=0.1)


@pytest.mark.parametrize("kind", FORMATS)
async def test_the_first_piece_goes_out_while_the_second_is_made(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy, kind: str
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        gate = world.gates.hold("chunk")
        call = start(world, kind)
        await gate.wait_held()
        gate.release()
        await gate.wait_held()
        await call.wait_bytes(1000)
        assert not call.ended.is_set()
        if kind != "pcm":
            assert decode(call.reply.body).seconds > 0.5
        gate.open()
        await call.ended.wait()
        assert call.reply.complete


@pytest.mark.parametrize("kind", ["wav", "mp3", "aac", "flac", "opus"])
async def test_a_client_that_leaves_takes_the_encoder_along(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy, kind: str
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, kind)
        await call.wait_bytes()
        assert len(spy.open) == 1
        call.hang_up()
        await call.ended.wait()
        assert not spy.open
        assert world.idle()


async def test_leaving_while_a_long_sound_is_compressed_ends_that(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy
) -> None:
    async with open_world(spec()) as world:
        call = start(world, "mp3", input=TEXT * 5)
        spy.leaves = call.hang_up
        await call.ended.wait()
        assert spy.cut
        assert not call.reply.status
        assert world.idle()


async def test_a_failure_of_the_model_frees_the_encoder(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, "mp3", options={"fail": True})
        await call.ended.wait()
        assert call.reply.status == 200
        assert not call.reply.complete
        assert world.idle()


async def test_a_failure_of_the_encoder_cuts_the_stream_off_and_frees_it(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        spy.fails = True
        call = start(world, "opus")
        await call.ended.wait()
        assert not call.reply.complete
        assert world.idle()
        spy.fails = False
        again = start(world, "opus")
        await again.ended.wait()
        assert again.reply.complete


async def test_stopping_the_server_frees_the_encoder(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, "flac")
        await call.wait_bytes()
        world.runtime.stop()
        await call.ended.wait()
        assert not call.reply.complete


async def test_an_answer_that_is_never_begun_has_no_encoder_left(
    open_world: OpenWorld, autojump_clock: MockClock, spy: Spy
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, "aac")
        call.refuse_start = True
        await call.ended.wait()
        assert call.reply.status == 0
        assert world.idle()
        again = start(world, "aac")
        await again.ended.wait()
        assert again.reply.complete
