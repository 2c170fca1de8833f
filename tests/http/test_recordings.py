"""Recordings of browsers and phones, and files made to hurt, as a client sends them."""

import threading
from collections.abc import Callable

import pytest
import trio
from tests.audio.containers import box, container, film, words
from tests.audio.sounds import tone
from tests.http.client import form
from tests.http.conftest import World
from trio.testing import MockClock

from paraudio.audio import decode
from paraudio.engines import Audio
from paraudio.http import _sources

TRANSCRIPTIONS = "/v1/audio/transcriptions"


def recording(kind: str, codec: str, *, piped: bool = False) -> bytes:
    return container(kind, codec, tone(1.0, 48_000), rate=48_000, piped=piped)


def upload(data: bytes, name: str = "recording") -> tuple[bytes, dict[str, str]]:
    return form(("model", None, b"ears"), ("response_format", None, b"json"), ("file", name, data))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (recording("webm", "libopus", piped=True), "blob"),
        (recording("ipod", "aac"), "New Recording 7.m4a"),
        (recording("ipod", "aac"), "wrong.wav"),
        (recording("adts", "aac"), "a.aac"),
        (recording("mov", "pcm_s16le"), "a.mov"),
    ],
)
async def test_what_browsers_and_phones_record_is_transcribed(
    world: World, autojump_clock: MockClock, data: bytes, name: str
) -> None:
    reply = await world.client.post(TRANSCRIPTIONS, *upload(data, name))
    assert reply.status == 200
    assert reply.json()["timing"]["audio_duration_ms"] == pytest.approx(1000, abs=50)
    assert world.idle()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (film(), "it holds no sound"),
        (recording("ipod", "aac")[:-700], "cut off"),
        (box(b"ftyp", b"isom", words(0)) + box(b"moov", box(b"cmov")), "compressed"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", "it is text"),
        (bytes(5000), "no audio format"),
    ],
)
async def test_what_holds_no_sound_is_a_400_that_names_the_field(
    world: World, autojump_clock: MockClock, data: bytes, why: str
) -> None:
    reply = await world.client.post(TRANSCRIPTIONS, *upload(data))
    error = reply.error()
    assert (reply.status, error["type"], error["param"]) == (400, "invalid_request_error", "file")
    assert why in error["message"]
    assert not world.model("ears").loaded
    assert world.idle()


async def test_a_client_that_leaves_ends_the_decoding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, left = trio.Event(), threading.Event()
    ended = []

    def slow(data: memoryview, *, check: Callable[[], None], **rest: object) -> Audio:
        def look() -> None:
            trio.from_thread.run_sync(begun.set)
            left.wait(60)
            check()

        try:
            return decode(data, check=look)
        except trio.Cancelled:
            ended.append("cancelled")
            raise

    monkeypatch.setattr(_sources, "decode", slow)
    call = world.client.start("POST", TRANSCRIPTIONS, *upload(recording("ipod", "aac")))
    with trio.fail_after(60):
        await begun.wait()
        call.hang_up()
        left.set()
        await call.ended.wait()
    assert ended == ["cancelled"]
    assert world.idle()
