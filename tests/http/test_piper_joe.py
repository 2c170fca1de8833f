"""What the voice that comes first says to languages and letters that are not its own."""

import pytest
from tests.http.conftest import OpenWorld, spec

from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.store import Store

pytestmark = pytest.mark.models

SPEECH = "/v1/audio/speech"
CYRILLIC = "\N{CYRILLIC SMALL LETTER EM}\N{CYRILLIC SMALL LETTER I}\N{CYRILLIC SMALL LETTER ER}"


async def test_languages_and_letters_of_an_english_voice(
    open_world: OpenWorld, model_store: Store
) -> None:
    path = model_store.path("piper-joe")
    joe = spec(id="joe", family="piper_tts", path=str(path))
    families = {"piper_tts": PiperTtsFamily()}
    async with open_world(joe, families=families, threads=True) as world:

        async def ask(**fields: object) -> tuple[int, str | None, str]:
            body = {"model": "joe", "input": "Hello.", **fields}
            reply = await world.client.post(SPEECH, body)
            if reply.status == 200:
                assert len(reply.body) > 10_000
                return 200, None, reply.headers.get("x-paraudio-warning", "")
            error = reply.error()
            return reply.status, error["param"], error["message"]

        for language in ("en", "EN", "en-US", "en_US", "en-GB", "en-AU", "", "auto"):
            assert await ask(language=language) == (200, None, ""), language
        for language in ("de", "zh-Hans", "english"):
            status, param, message = await ask(language=language)
            assert (status, param) == (400, "language")
            assert f'one of en-US, not "{language}"' in message
        status, param, message = await ask(input=CYRILLIC)
        assert (status, param) == (400, "input")
        assert "Cyrillic letters" in message
        status, _, told = await ask(input=f"Hello {CYRILLIC}.")
        assert (status, "Cyrillic letters" in told) == (200, True)
        stream = await world.client.post(
            SPEECH, {"model": "joe", "input": CYRILLIC, "stream_format": "sse"}
        )
        assert (stream.status, stream.error()["param"]) == (400, "input")
        assert world.idle()
