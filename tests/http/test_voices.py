"""Voices: the lookup order, bare names, and the list."""

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.http.client import Reply
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.sounds import RATE, sound_file, tone
from trio.testing import MockClock

from paraudio.engines import Audio, Result
from paraudio.spec import VoicePreset

PRESETS = {"anna": VoicePreset(voice_id="v1"), "both": VoicePreset(voice_id="v2")}


def speaking(**more: Any) -> ScriptedFamily:
    return ScriptedFamily(lambda _: Result(audio=Audio(tone(0.1), RATE)), **more)


async def speak(world: World, **fields: Any) -> Reply:
    return await world.client.post(
        "/v1/audio/speech", {"model": "voice", "input": "hello", **fields}
    )


@pytest.fixture
def voice_dir(tmp_path: Path) -> Path:
    (tmp_path / "bob.wav").write_bytes(sound_file(tone(0.2)))
    (tmp_path / "both.wav").write_bytes(sound_file(tone(0.2)))
    (tmp_path / "broken.wav").write_bytes(b"nothing")
    (tmp_path / "notes.txt").write_text("no voice")
    (tmp_path / "prompt_text").write_text("bob|what Bob says\nanna\n|\nbroken|x\n")
    return tmp_path


async def test_the_first_that_fits_is_the_voice(open_scripted: OpenWorld, voice_dir: Path) -> None:
    family = speaking(voices=("v1", "v2", "v3"))
    model = spec(voice_presets=PRESETS, default_voice_preset="both")
    async with open_scripted(family, model, voice_dir=str(voice_dir)) as world:
        for fields in (
            {},
            {"voice": ""},
            {"voice": "anna"},
            {"voice": {"id": "anna"}},
            {"voice": "both"},
            {"voice": "bob"},
            {"voice": "v3"},
            {
                "voice": "anna",
                "voice_ref": {
                    "type": "base64",
                    "data": base64.b64encode(sound_file(tone(0.3))).decode(),
                },
                "reference_text": "said",
            },
        ):
            reply = await speak(world, **fields)
            assert reply.status == 200, reply.body
    voices = [job.voice for job in family.jobs]
    assert [voice.name for voice in voices] == ["v2", "v2", "v1", "v1", "v2", None, "v3", None]
    assert voices[5].reference is not None
    assert voices[5].reference.seconds == pytest.approx(0.2)
    assert voices[5].reference_text == "what Bob says"
    assert voices[7].reference is not None
    assert voices[7].reference.seconds == pytest.approx(0.3)
    assert voices[7].reference_text == "said"


async def test_a_preset_may_be_a_recording_of_the_operators(
    open_scripted: OpenWorld, voice_dir: Path
) -> None:
    family = speaking()
    preset = VoicePreset(voice_ref=str(voice_dir / "bob.wav"), reference_text="from the preset")
    async with open_scripted(family, spec(default_voice_preset=preset)) as world:
        assert (await speak(world)).status == 200
    [job] = family.jobs
    assert job.voice.reference is not None
    assert job.voice.reference_text == "from the preset"


@pytest.mark.parametrize(
    "preset", [VoicePreset(voice_id="gone"), VoicePreset(voice_ref="/nowhere/bob.wav")]
)
async def test_a_preset_that_cannot_be_used_is_the_callers_only_where_they_named_it(
    open_scripted: OpenWorld, preset: VoicePreset
) -> None:
    model = spec(voice_presets={"anna": preset}, default_voice_preset="anna")
    async with open_scripted(speaking(voices=("v1", "v2")), model) as world:
        reply = await speak(world, voice="anna")
        assert (reply.status, reply.error()["param"]) == (400, "voice")
        assert "voice names a preset of model 'voice' that" in reply.error()["message"]
        reply = await speak(world)
        assert (reply.status, reply.error()["param"]) == (500, None)
        assert "the default voice preset of model 'voice'" in reply.error()["message"]
        assert "nowhere" not in reply.error()["message"]
        assert (await speak(world, voice="v2")).status == 200
        assert world.idle()


async def test_a_voice_that_nothing_knows_is_refused_where_the_family_lists_its_voices(
    open_scripted: OpenWorld,
) -> None:
    async with open_scripted(speaking(voices=("v1", "v2")), VOICE) as world:
        reply = await speak(world, voice="alloy")
        assert (reply.status, reply.error()["param"]) == (400, "voice")
        assert "v1, v2" in reply.error()["message"]
        assert "alloy" in reply.error()["message"]
        assert world.idle()


async def test_any_name_goes_where_the_family_has_but_one_voice(
    world: World, autojump_clock: MockClock
) -> None:
    assert (await speak(world, voice="alloy")).status == 200


async def test_a_name_that_is_too_long_for_the_folder_is_in_it_nowhere(
    open_scripted: OpenWorld, voice_dir: Path
) -> None:
    family = speaking(voices=("v1",))
    async with open_scripted(family, spec(), voice_dir=str(voice_dir)) as world:
        reply = await speak(world, voice="ä" * 200)
        assert (reply.status, reply.error()["param"]) == (400, "voice")


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..\\x",
        "a/b",
        "a\\b",
        "C:x",
        "a\0b",
        "..",
        ".hidden",
        "a\nb",
        "x" * 300,
    ],
)
@pytest.mark.parametrize("folder", [True, False])
async def test_names_that_lead_somewhere_are_refused_without_a_word_about_files(
    open_world: OpenWorld, autojump_clock: MockClock, name: str, folder: bool, voice_dir: Path
) -> None:
    settings = {"voice_dir": str(voice_dir)} if folder else {}
    async with open_world(VOICE, settings=settings) as world:
        for voice, param in ((name, "voice"), ({"id": name}, "voice.id")):
            reply = await speak(world, voice=voice)
            assert (reply.status, reply.error()["param"]) == (400, param)
            message = reply.error()["message"]
            assert "passwd" not in message
            assert str(voice_dir) not in message
        assert not world.model().loaded


@pytest.mark.parametrize("value", [5, ["a"], {"id": 5}, True])
async def test_a_voice_of_the_wrong_kind_names_the_field(
    world: World, autojump_clock: MockClock, value: object
) -> None:
    reply = await speak(world, voice=value)
    assert reply.status == 400
    assert str(reply.error()["param"]).startswith("voice")


@pytest.mark.parametrize(
    ("reference", "param"),
    [
        ({"type": "base64", "data": "%"}, "voice_ref.data"),
        ({"type": "base64", "data": "A" * (7 * 2**20)}, "voice_ref.data"),
        ({"type": "base64", "data": base64.b64encode(b"no sound").decode()}, "voice_ref.data"),
        ({"type": "path", "path": "/etc/passwd"}, "voice_ref.path"),
        ("/etc/passwd", "voice_ref"),
        ({"type": "magic"}, "voice_ref.type"),
        (5, "voice_ref"),
    ],
)
async def test_a_recording_that_cannot_be_used_is_refused_without_a_load(
    world: World, autojump_clock: MockClock, reference: object, param: str
) -> None:
    reply = await speak(world, voice_ref=reference)
    assert (reply.status, reply.error()["param"]) == (400, param)
    assert "passwd" not in reply.error()["message"]
    assert not world.model().loaded
    assert world.idle()


async def test_a_broken_recording_in_the_voice_folder_is_a_400(
    open_world: OpenWorld, autojump_clock: MockClock, voice_dir: Path
) -> None:
    async with open_world(VOICE, settings={"voice_dir": str(voice_dir)}) as world:
        reply = await speak(world, voice="broken")
        assert (reply.status, reply.error()["param"]) == (400, "voice")
        assert str(voice_dir) not in reply.error()["message"]


async def test_the_list_is_sorted_and_names_each_voice_once(
    open_scripted: OpenWorld, voice_dir: Path
) -> None:
    family = speaking(voices=("v1", "anna"), facts={"voices": ["v1", "anna"]})
    models = (
        spec(voice_presets=PRESETS),
        spec(id="plain"),
        EARS,
    )
    async with open_scripted(family, *models, voice_dir=str(voice_dir)) as world:
        for model in ("voice", "plain"):
            await world.client.post("/v1/audio/speech", {"model": model, "input": "a"})
        everything = (await world.client.get("/v1/audio/voices")).json()
        assert everything == {"voices": ["anna", "bob", "both", "broken", "v1"]}
        one = (await world.client.get("/v1/audio/voices?model=plain")).json()
        assert one == {"voices": ["anna", "bob", "both", "broken", "v1"]}
        reply = await world.client.get("/v1/audio/voices?model=nobody")
        assert (reply.status, reply.error()["code"]) == (404, "model_not_found")


async def test_only_what_a_request_can_ask_for_is_listed(
    open_scripted: OpenWorld, voice_dir: Path
) -> None:
    for name in (".hidden", "a:b", "a..b", "back\\slash", " blank", "tab\t"):
        (voice_dir / f"{name}.wav").write_bytes(sound_file(tone(0.2)))
    for name in ("README.txt", ".DS_Store", "notes.json", "wav", "loud.mp3"):
        (voice_dir / name).write_bytes(sound_file(tone(0.2)))
    (voice_dir / "folder.wav").mkdir()
    async with open_scripted(speaking(), spec(), voice_dir=str(voice_dir)) as world:
        voices = (await world.client.get("/v1/audio/voices")).json()["voices"]
        assert voices == ["bob", "both", "broken"]


async def test_a_recording_that_cannot_be_looked_at_is_left_out_of_the_list(
    open_scripted: OpenWorld, voice_dir: Path
) -> None:
    (voice_dir / "gone.wav").symlink_to("/nowhere/gone.wav")
    (voice_dir / "far.wav").symlink_to("x" * 300)  # fails as a folder of somebody else's does
    async with open_scripted(speaking(voices=("v1",)), spec(), voice_dir=str(voice_dir)) as world:
        reply = await world.client.get("/v1/audio/voices")
        assert (reply.status, reply.json()) == (200, {"voices": ["bob", "both", "broken"]})
        for name in ("gone", "far", "notes", "notes.txt"):
            reply = await speak(world, voice=name)
            assert (reply.status, reply.error()["param"]) == (400, "voice")


async def test_without_a_folder_there_are_presets_and_the_familys_voices(
    open_scripted: OpenWorld,
) -> None:
    async with open_scripted(speaking(), spec(voice_presets=PRESETS)) as world:
        assert (await world.client.get("/v1/audio/voices")).json() == {"voices": ["anna", "both"]}


AIOHTTP = {"user-agent": "Python/3.11 aiohttp/3.12.15"}
"""Whom Open WebUI says that it is; it sends no more than that, not even a key."""


async def test_open_webui_gets_the_objects_that_it_reads(open_scripted: OpenWorld) -> None:
    models = (spec(voice_presets=PRESETS), EARS, spec(id="plain"))
    async with open_scripted(speaking(), *models) as world:
        voices = (await world.client.get("/v1/audio/voices", AIOHTTP)).json()
        assert {voice["id"]: voice["name"] for voice in voices["voices"]} == {
            "anna": "anna",
            "both": "both",
        }
        told = (await world.client.get("/v1/audio/models", AIOHTTP)).json()
        assert {model["id"]: model["name"] for model in told["models"]} == {
            "voice": "voice",
            "plain": "plain",
        }


@pytest.mark.parametrize(
    ("query", "headers", "objects"),
    [
        ("", {}, False),
        ("", {"user-agent": "python-requests/2.32.4"}, False),
        ("?objects=true", {}, True),
        ("?objects=false", AIOHTTP, False),
        ("?objects=", AIOHTTP, True),
        ("?model=voice", AIOHTTP, True),
    ],
)
async def test_whoever_says_it_chooses_between_names_and_objects(
    open_scripted: OpenWorld, query: str, headers: dict[str, str], *, objects: bool
) -> None:
    async with open_scripted(speaking(), spec(voice_presets={"anna": PRESETS["anna"]})) as world:
        reply = await world.client.get(f"/v1/audio/voices{query}", headers)
        expected = {"id": "anna", "name": "anna"} if objects else "anna"
        assert reply.json() == {"voices": [expected]}
        assert reply.headers["vary"] == "User-Agent"


async def test_a_cache_is_told_all_that_the_voices_differ_by(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    settings = {"cors_origins": ("https://a.example",)}
    async with open_world(VOICE, settings=settings) as world:
        reply = await world.client.get("/v1/audio/voices", {"origin": "https://a.example"})
        names = {name.strip() for name in reply.headers["vary"].split(",")}
        assert names == {"User-Agent", "Origin"}


async def test_objects_is_true_or_false(world: World, autojump_clock: MockClock) -> None:
    reply = await world.client.get("/v1/audio/voices?objects=perhaps")
    assert (reply.status, reply.error()["param"]) == (400, "objects")
