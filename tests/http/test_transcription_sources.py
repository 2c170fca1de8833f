"""Where the sound of a transcription comes from: forms, paths of the server, base64."""

import base64
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.http.client import Reply, form
from tests.http.conftest import EARS, OpenWorld, World
from tests.http.sounds import RATE, sound_file, tone
from tests.http.transcribing import TRANSCRIBE, send
from trio.testing import MockClock


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("mp3 under a wav's name", sound_file(container="MP3")),
        ("flac", sound_file(container="FLAC")),
        ("ogg", sound_file(container="OGG")),
        ("opus", sound_file(container="OGG", subtype="OPUS")),
        ("24 bit", sound_file(subtype="PCM_24")),
        ("float", sound_file(subtype="FLOAT")),
        ("stereo", sound_file(np.stack([tone(), tone()], 1))),
    ],
)
async def test_sound_is_recognised_by_its_content(
    world: World, autojump_clock: MockClock, name: str, data: bytes
) -> None:
    reply = await send(world, data)
    assert reply.status == 200, (name, reply.body)
    assert "heard" in reply.json()["text"]


@pytest.mark.parametrize("quoted", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("filename", ["Ünïcode 音.wav", "", "noextension", None])
async def test_forms_of_every_shape_are_read(
    world: World, autojump_clock: MockClock, quoted: bool, first: bool, filename: str | None
) -> None:
    parts = [("file", filename, sound_file()), ("model", None, b"ears")]
    body, headers = form(*(parts if first else parts[::-1]), quoted=quoted)
    reply = await world.client.post(TRANSCRIBE, body, headers)
    assert reply.status == 200, reply.body


async def test_a_large_form_is_parsed_off_the_loop(world: World, autojump_clock: MockClock) -> None:
    samples = np.tile(tone(1.0), 90)
    reply = await send(world, sound_file(samples))
    assert f"heard {90 * RATE} samples" in reply.json()["text"]


@pytest.mark.parametrize(
    "data",
    [
        random.Random(7).randbytes(2**20),
        sound_file()[:60],
        b"just a text\n" * 50,
        sound_file(np.zeros(0, np.float32)),
        b"RIFF",
        b"",
    ],
    ids=["random", "truncated", "text", "header", "four bytes", "empty"],
)
async def test_what_is_no_sound_is_a_400_without_a_load(
    world: World, autojump_clock: MockClock, data: bytes
) -> None:
    reply = await send(world, data)
    assert (reply.status, reply.error()["param"]) == (400, "file")
    assert not world.model("ears").loaded
    assert world.idle()


async def test_a_form_without_or_with_two_files_is_refused(
    world: World, autojump_clock: MockClock
) -> None:
    for parts in (
        [("model", None, b"ears")],
        [("model", None, b"ears"), ("file", "a", b"x"), ("file", "b", b"x")],
    ):
        body, headers = form(*parts)
        reply = await world.client.post(TRANSCRIBE, body, headers)
        assert (reply.status, reply.error()["param"]) == (400, "file")


@pytest.mark.parametrize("route", ["", "/details"])
async def test_a_route_that_takes_forms_and_json_names_both(
    world: World, autojump_clock: MockClock, route: str
) -> None:
    headers = {"content-type": "audio/wav"}
    reply = await world.client.post(TRANSCRIBE + route, sound_file(), headers)
    assert reply.status == 415
    assert reply.error()["message"] == (
        "this route takes multipart/form-data or application/json, not 'audio/wav'"
    )


async def test_no_body_at_all_is_told_as_that(world: World, autojump_clock: MockClock) -> None:
    reply = await world.client.call("POST", TRANSCRIBE)
    assert reply.status == 400
    assert reply.error()["message"] == (
        "the body is empty; it must be a form with a file, or a JSON object"
    )
    reply = await world.client.call("POST", "/v1/audio/speech", b" \r\n")
    assert reply.error()["message"] == "the body is empty; it must be a JSON object"


async def test_a_name_in_the_place_of_a_file_is_known_for_what_it_is(
    world: World, autojump_clock: MockClock
) -> None:
    body, headers = form(("model", None, b"ears"), ("file", None, b"talks/a.wav"))
    reply = await world.client.post(TRANSCRIBE, body, headers)
    assert (reply.status, reply.error()["param"]) == (400, "file")
    assert "without a file" in reply.error()["message"]
    assert "curl: -F file=@talks/a.wav" in reply.error()["message"]


@pytest.mark.parametrize(
    ("filename", "content"),
    [("a.wav", b"a.wav"), (None, b""), (None, b"\xff\x00"), (None, b"a" * 300), (None, b"a\nb")],
    ids=["a file", "nothing", "bytes", "long", "lines"],
)
async def test_nothing_else_that_is_no_sound_is_taken_for_a_name(
    world: World, autojump_clock: MockClock, filename: str | None, content: bytes
) -> None:
    body, headers = form(("model", None, b"ears"), ("file", filename, content))
    reply = await world.client.post(TRANSCRIBE, body, headers)
    assert (reply.status, reply.error()["param"]) == (400, "file")
    assert "curl" not in reply.error()["message"]


async def test_a_broken_form_is_a_400(world: World, autojump_clock: MockClock) -> None:
    body, headers = form(("model", None, b"ears"), ("file", "a", sound_file()))
    reply = await world.client.post(TRANSCRIBE, body[:-40], headers)
    assert reply.status == 400
    reply = await world.client.post(TRANSCRIBE, body, {"content-type": "multipart/form-data"})
    assert reply.status == 400
    reply = await world.client.post(TRANSCRIBE, body, {"content-type": "audio/wav"})
    assert reply.status == 415


async def test_a_path_of_the_server_is_read_inside_the_allowed_folders(
    open_world: OpenWorld, autojump_clock: MockClock, tmp_path: Path
) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "a.wav").write_bytes(sound_file())
    (allowed / "link.wav").symlink_to(other / "a.wav")
    async with open_world(EARS, settings={"allowed_paths": (str(allowed),)}) as world:

        async def ask(path: object) -> Reply:
            return await world.client.post(TRANSCRIBE, {"model": "ears", "audio": path})

        good = await ask(str(allowed / "a.wav"))
        assert good.status == 200
        same = await ask({"type": "path", "path": str(allowed / "a.wav")})
        assert same.json()["text"] == good.json()["text"].replace("session 1", "session 1")
        for bad in (
            other / "a.wav",
            allowed / "link.wav",
            allowed / ".." / "other" / "a.wav",
            "/etc/passwd",
            allowed / "none.wav",
            allowed,
            "a.wav",
            "../a.wav",
            "/dev/zero",
            "a\0b",
        ):
            reply = await ask(str(bad))
            assert reply.status == 400, bad
            message = reply.error()["message"]
            assert reply.error()["param"] == "audio"
            assert str(tmp_path) not in message
            assert "passwd" not in message
        assert world.idle()


async def test_without_allowed_folders_no_path_is_read(
    world: World, autojump_clock: MockClock, tmp_path: Path
) -> None:
    (tmp_path / "a.wav").write_bytes(sound_file())
    reply = await world.client.post(TRANSCRIBE, {"model": "ears", "audio": str(tmp_path / "a.wav")})
    assert (reply.status, reply.error()["param"]) == (400, "audio")


@pytest.mark.parametrize(
    "prefix",
    ["", "data:audio/wav;base64,", "Data:;BASE64,", "data:video/webm;codecs=vp8,opus;base64,"],
)
async def test_base64_is_sound_too(world: World, autojump_clock: MockClock, prefix: str) -> None:
    text = prefix + base64.b64encode(sound_file()).decode()
    body: dict[str, Any] = {"model": "ears", "audio_base64": text}
    assert (await world.client.post(TRANSCRIBE, body)).status == 200
    body = {"model": "ears", "audio": {"type": "base64", "data": text}}
    assert (await world.client.post(TRANSCRIBE, body)).status == 200


@pytest.mark.parametrize(
    ("audio", "param"),
    [
        ({"type": "base64", "data": "%%%"}, "audio.data"),
        ({"type": "base64", "data": ""}, "audio.data"),
        ({"type": "url", "url": "http://x"}, "audio.type"),
        ({"type": "path"}, "audio.path"),
        ({}, "audio.type"),
        (5, "audio"),
        ("", "audio"),
        ("data:audio/wav,plain", "audio"),
        (None, "audio"),
    ],
)
async def test_a_source_that_is_none_names_its_field(
    world: World, autojump_clock: MockClock, audio: object, param: str
) -> None:
    reply = await world.client.post(TRANSCRIBE, {"model": "ears", "audio": audio})
    assert (reply.status, reply.error()["param"]) == (400, param)


async def test_a_source_that_is_none_is_told_what_would_do(
    world: World, autojump_clock: MockClock
) -> None:
    reply = await world.client.post(TRANSCRIBE, {"model": "ears", "audio": [1]})
    assert reply.error()["message"] == (
        "audio must be a path, a data URI or an object with type, not a list"
    )
