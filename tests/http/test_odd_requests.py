"""Odd heads, queries and paths on every route: whatever comes of them, it is no fault of ours."""

from typing import Final

import pytest
from tests.http.conftest import EARS, VOICE, OpenWorld, World
from trio.testing import MockClock

from paraudio.http import ROUTES, path_of

SETTINGS: Final = {"ui_management": True, "cors_origins": "*", "log_request_body": True}
ASKED: Final = [
    (route.method, path_of(route).format(model_id="voice", request_id="none"))
    for route in ROUTES
    if route.path != "/v1/events"  # goes on for ever
]
BODY: Final = b'{"model": "voice", "input": "a", "text": "a"}'


async def ask(world: World, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
    """Ask, and hold the answer to what every answer is held to."""
    given = headers if method != "POST" else {"content-type": "application/json", **headers}
    reply = await world.client.call(method, path, body if method == "POST" else None, given)
    assert 200 <= reply.status < 500, (method, path, headers, reply.body)
    assert reply.headers["x-request-id"]
    if reply.status >= 400 and method != "HEAD":
        assert reply.error()["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer \xff"},
        {"origin": "\xff", "access-control-request-headers": "\xff"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": 'multipart/form-data; boundary="a\\"b"'},
        {"content-type": "multipart/form-data; boundary=\xff"},
        {"content-type": "multipart/form-data; boundary*=utf-8''x"},
        {"content-type": "; x", "content-encoding": "identity"},
        {"content-encoding": "br, gzip"},
        {"user-agent": "aiohttp/\xff", "cookie": "session=\xff; a", "accept": "\xff"},
        {"host": "", "range": "bytes=0-", "if-none-match": "*", "x-request-id": "\xff"},
    ],
)
async def test_odd_headers_are_taken_or_refused(
    open_world: OpenWorld, autojump_clock: MockClock, headers: dict[str, str]
) -> None:
    async with open_world(VOICE, EARS, settings=SETTINGS) as world:
        for method, path in ASKED:
            await ask(world, method, path, headers, BODY)
        assert world.idle()


@pytest.mark.parametrize(
    "query",
    [
        "%ff=%00&model=%ff%fe",
        "model=voice&model=ears&model[]=voice",
        "a=1&" * 2000,
        ";;;&&&==",
        "objects=%00",
        'model=voice&options={"a":1e999}',
        "model=voice&sample_rate=\N{ARABIC-INDIC DIGIT THREE}&speed=nan&seed=1e5",
    ],
)
async def test_odd_queries_are_taken_or_refused(
    open_world: OpenWorld, autojump_clock: MockClock, query: str
) -> None:
    async with open_world(VOICE, EARS, settings=SETTINGS) as world:
        for method, path in ASKED:
            await ask(world, method, f"{path}?{query}", {}, BODY)
        assert world.idle()


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"a"', b"1e999", b"9" * 5000, b"\xff\xfe{"])
@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data; boundary=x", "a" * 5000]
)
async def test_odd_bodies_are_refused(
    open_world: OpenWorld, autojump_clock: MockClock, kind: str, body: bytes
) -> None:
    async with open_world(VOICE, EARS, settings=SETTINGS) as world:
        for method, path in ASKED:
            if method == "POST":
                await ask(world, method, path, {"content-type": kind}, body)
        assert world.idle()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "TRACE", "FOO"])
async def test_odd_paths_are_found_or_not(
    world: World, autojump_clock: MockClock, method: str
) -> None:
    for path in (
        "/v1/models/%00",
        "/v1/models/..%2f..",
        "/v1/models/" + "a" * 5000,
        "/v1/requests/%ff",
        "//v1/models",
        "/v1/models//",
        "/%",
        "/v1/audio/speech/",
        "/v1/audio/voices/x",
        "/\xff",
    ):
        await ask(world, method, path, {}, b"{}")
    assert world.idle()
