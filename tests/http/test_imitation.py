"""Recordings of voices where the family imitates none: refused by name, never ignored."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.sounds import sound_file, tone
from tests.http.test_voices import PRESETS, speak, speaking

from paraudio.errors import ConfigError
from paraudio.spec import VoicePreset

SOUND = {"type": "base64", "data": base64.b64encode(sound_file(tone(0.2))).decode()}


async def test_a_recording_that_cannot_be_imitated_is_refused_before_anything_is_loaded(
    open_scripted: OpenWorld,
) -> None:
    family = speaking()
    family.imitates = False
    async with open_scripted(family, spec()) as world:
        reply = await speak(world, voice_ref=SOUND)
        assert (reply.status, reply.error()["param"]) == (400, "voice_ref")
        assert "imitates no recording" in reply.error()["message"]
        assert world.model().generation == 0
        assert (await speak(world)).status == 200
    assert len(family.jobs) == 1


async def test_a_recording_in_the_folder_is_no_voice_of_a_model_that_imitates_none(
    open_scripted: OpenWorld, tmp_path: Path
) -> None:
    (tmp_path / "bob.wav").write_bytes(sound_file(tone(0.2)))
    family = speaking(voices=("v1",))
    family.imitates = False
    async with open_scripted(family, spec(), voice_dir=str(tmp_path)) as world:
        reply = await speak(world, voice="bob")
        assert (reply.status, reply.error()["param"]) == (400, "voice")
        assert "one of v1" in reply.error()["message"]
        listed = await world.client.get("/v1/audio/voices?model=voice")
        assert listed.json() == {"voices": []}


@pytest.mark.parametrize("default", [False, True])
async def test_a_preset_that_is_a_recording_is_refused_with_its_model(
    open_scripted: OpenWorld, default: bool
) -> None:
    family = speaking()
    family.imitates = False
    recorded = VoicePreset(voice_ref="/srv/bob.wav")
    if default:
        model = spec(voice_presets=PRESETS, default_voice_preset=recorded)
        param = "default_voice_preset.voice_ref"
    else:
        model = spec(voice_presets={**PRESETS, "bob": recorded})
        param = "voice_presets.bob.voice_ref"
    refused: list[ConfigError] = []
    try:
        async with open_scripted(family, model):
            pass
    except* ConfigError as group:
        refused.extend(leaves(group))
    assert [error.param for error in refused] == [param]


async def test_a_model_that_hears_imitates_nobody(open_world: OpenWorld) -> None:
    async with open_world(VOICE, EARS) as world:
        heard = {"audio": SOUND, "voice_ref": SOUND}
        reply = await world.client.post("/v1/tasks/run", {"model": "ears", "request": heard})
        assert (reply.status, reply.error()["param"]) == (400, "request.voice_ref")


async def test_the_simulated_family_imitates(open_world: OpenWorld) -> None:
    async with open_world(VOICE) as world:
        first, second, again = [await imitated(world, seconds) for seconds in (0.2, 0.3, 0.2)]
        assert first != second
        assert first == again


async def imitated(world: World, seconds: float) -> bytes:
    data = base64.b64encode(sound_file(tone(seconds))).decode()
    reply = await speak(world, seed=1, voice_ref={"type": "base64", "data": data})
    assert reply.status == 200
    return reply.body


def leaves(group: BaseExceptionGroup[ConfigError]) -> Iterator[ConfigError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error
