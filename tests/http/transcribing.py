"""A recording sent to be transcribed, and a family that says what a test wants to hear."""

from typing import Any

from tests.http.client import Reply, form
from tests.http.conftest import World
from tests.http.family import ScriptedFamily
from tests.http.sounds import RATE

from paraudio.engines import Result, Segment, Word

TRANSCRIBE = "/v1/audio/transcriptions"
SPOKEN = Result(
    text=" Hello there. General <Kenobi> & co ",
    language="en",
    sample_rate=RATE,
    segments=(
        Segment(0, 8000, "Hello there.", 0.5),
        Segment(8000, 24_000, " General <Kenobi> & co", None),
    ),
    words=(
        Word("Hello", 0, 4000, 0.9),
        Word("there.", 4000, 8000, 0.8),
        Word("General", 9600, 16_000),
    ),
)


async def send(world: World, data: bytes, path: str = TRANSCRIBE, **fields: str) -> Reply:
    parts = [("model", None, b"ears"), ("file", "a.wav", data)]
    body, headers = form(*parts, *[(n, None, v.encode()) for n, v in fields.items()])
    return await world.client.post(path, body, headers)


def saying(result: Result, **facts: Any) -> ScriptedFamily:
    return ScriptedFamily(lambda _: result, facts=facts)
