"""Hostile forms: whatever is written into one, the answer is as documented, and nothing is left."""

import json
import os
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.http.conftest import EARS, OpenWorld, World
from tests.http.openapi import SOUND, Document

SECONDS: Final = float(os.environ.get("PARAUDIO_FUZZ_S", "0"))
TURN_S: Final = 15
DOCUMENT: Final = Document({"parallel_jobs": True})
ROUTES: Final = (
    "/v1/audio/transcriptions",
    "/v1/audio/transcriptions/details",
    "/v1/audio/translations",
    "/v1/audio/alignments",
    "/v1/batches/transcriptions",
)
NAMES: Final = (
    b"model",
    b"file",
    b"file[]",
    b"audio",
    b"language",
    b"prompt",
    b"options",
    b"seed",
    b"stream",
    b"text",
    b"temperature",
    b"response_format",
    b"timestamp_granularities[]",
    b"busy_timeout_ms",
    b"",
    b"\xff\xfe",
    b'a\\"b',
    b"\x00",
)
TEXTS: Final = (
    b"ears",
    b"",
    b"true",
    b"-1",
    b"1e400",
    b"\xff",
    b"\xed\xa0\x80",
    b"{",
    b'{"a":' * 50,
    b"[" * 2000,
    b"\x00" * 10,
    b"srt",
    b"word",
    b"--b",
    b"\r\n--b",
    b"9" * 5000,
)
FILES: Final = (SOUND, SOUND[:50], SOUND[:-100], b"", b"RIFF" + b"\xff" * 60, b"ID3" + bytes(40))
DISPOSITIONS: Final = (
    b'form-data; name="%s"',
    b'form-data; name="%s"; filename="a.wav"',
    b'form-data; name="%s"; filename=""',
    b"form-data; name=%s; filename=a.wav",
    b"form-data; name=\"%s\"; filename*=UTF-8''%%e2%%82%%ac.wav",
    b"form-data; name*=UTF-8''%s",
    b'form-data; name="%s"; name="model"',
    b'form-data; name="%s"; filename="../../etc/passwd"',
    b'form-data; name="%s"; filename="a\\"b\x00.wav"',
    b'form-data; name="%s',
    b'attachment; name="%s"',
    b'FORM-DATA; NAME="%s"',
    b";;;=;%s",
    b"%s",
)
HEADERS: Final = (
    b"",
    b"Content-Type: text/plain; charset=utf-16\r\n",
    b"Content-Type: audio/wav; charset=\xff\r\n",
    b"Content-Type: multipart/mixed; boundary=c\r\n",
    b"Content-Type: application/json\r\n",
    b"Content-Transfer-Encoding: base64\r\n",
    b"Content-Transfer-Encoding: binary\r\n",
    b"Content-Length: 99999999\r\n",
    b"Content-Disposition: form-data; name=model\r\n",
    b"X: " + b"y" * 20_000 + b"\r\n",
    b"X: y\r\n" * 50,
    b"X: y\r\n folded: z\r\n",
    b"X\x00: y\r\n",
    b"no colon\r\n",
    b": nothing\r\n",
)
TYPES: Final = (
    "multipart/form-data; boundary=b",
    'multipart/form-data; boundary="b"',
    "multipart/form-data; charset=utf-16; boundary=b",
    "multipart/form-data",
    "multipart/form-data; boundary=",
    "multipart/form-data; boundary=" + "b" * 300,
    "multipart/form-data; boundary=other",
    "multipart/form-data; boundary=b; boundary=c",
    "multipart/form-data; boundary=\xff",
    "multipart/mixed; boundary=b",
    "multipart/form-data;;;boundary=b",
    "MULTIPART/FORM-DATA; BOUNDARY=b",
)
ENDS: Final = (b"--b--\r\n", b"--b--", b"--b\r\n", b"", b"--b--\r\nepilogue", b"--b-", b"--c--\r\n")


@st.composite
def parts(draw: st.DrawFn) -> bytes:
    name = draw(st.sampled_from(NAMES))
    disposition = (
        draw(st.sampled_from([*DISPOSITIONS[:2] * 8, *DISPOSITIONS]))
        .replace(b"%%", b"%")
        .replace(b"%s", name)
    )
    more = b"".join(draw(st.lists(st.sampled_from([b""] * 12 + [*HEADERS]), max_size=2)))
    value = draw(st.sampled_from((*TEXTS, *FILES)) | st.binary(max_size=40))
    newline = draw(st.sampled_from([b"\r\n"] * 30 + [b"\n"]))
    head = b"--b" + newline + b"Content-Disposition: " + disposition + newline + more
    return head + newline + value + newline


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A form, broken in some way or not at all."""
    fine = [
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nears\r\n',
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        + SOUND
        + b"\r\n",
    ]
    given_parts = draw(st.permutations([*fine, *draw(st.lists(parts(), max_size=4))]))
    many = draw(st.sampled_from([1] * 20 + [300]))
    preamble = draw(st.sampled_from([b"", b"", b"", b"preamble\r\n", b"\r\n", b"\r\n\r\n"]))
    whole = preamble + b"".join(given_parts) * many + draw(st.sampled_from(ENDS))
    cut = draw(st.sampled_from([None, None, None, draw(st.integers(0, len(whole)))]))
    return whole[:cut]


CASES: Final = st.tuples(
    st.sampled_from(ROUTES),
    st.sampled_from([TYPES[0]] * 12 + [*TYPES]),
    bodies(),
    st.integers(1, 9),
)
HOW: Final[dict[str, Any]] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
}


async def attack(world: World, path: str, kind: str, body: bytes, pieces: int) -> int:
    """Send a form, and hold its answer to the document."""
    chunk = max(1, len(body) // pieces)
    headers = {"content-type": kind}
    reply = await world.client.call("POST", path, body, headers, chunk=chunk)
    DOCUMENT.check(f"POST {path}", reply)
    assert reply.status < 500, reply.body
    if reply.status >= 400:
        assert len(json.dumps(reply.error())) < 8000
    assert world.idle()
    return reply.status


# Many examples stand for a long time, some fifty milliseconds each, and Hypothesis remembers a
# megabyte of each: a long time is many turns.
@pytest.mark.parametrize("turn", range(1 + int(SECONDS / TURN_S)))
@settings(max_examples=int(20 * TURN_S) if SECONDS else 40, derandomize=not SECONDS, **HOW)
@given(cases=st.lists(CASES, min_size=5, max_size=10))
async def test_a_hostile_form_is_a_form_or_a_refusal(
    open_world: OpenWorld, turn: int, cases: list[tuple[str, str, bytes, int]]
) -> None:
    del turn
    async with open_world(EARS, threads=True) as world:
        for path, kind, body, pieces in cases:
            await attack(world, path, kind, body, pieces)


FINE: Final = (
    (TYPES[0], b"", b"--b--\r\n"),
    (TYPES[1], b"", b"--b--\r\n"),
    (TYPES[0], b"\r\n", b"--b--\r\n"),
    (TYPES[0], b"", b"--b--"),
    (TYPES[0], b"", b"--b--\r\nepilogue"),
    (TYPES[-1], b"", b"--b--\r\n"),
    (TYPES[2], b"", b"--b--\r\n"),
)


@pytest.mark.parametrize(("kind", "before", "after"), FINE)
async def test_an_odd_form_that_is_right_is_taken(
    open_world: OpenWorld, kind: str, before: bytes, after: bytes
) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    body = before + part % (b"model", b"ears") + part % (b"file", SOUND) + after
    async with open_world(EARS, threads=True) as world:
        assert await attack(world, ROUTES[0], kind, body, 3) == 200
