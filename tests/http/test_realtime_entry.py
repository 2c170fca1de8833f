"""How a realtime session is opened, and who may not open one."""

from typing import Any

import pytest
from tests.http.conftest import OpenWorld
from tests.http.realtime_sessions import session
from trio.testing import MockClock


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/nowhere", 404, "not_found"),
        ("/v1/audio/speech", 405, "method_not_allowed"),
        ("/health", 400, "invalid_request_error"),
        ("/v1/realtime?model=nobody", 404, "model_not_found"),
        ("/v1/realtime?model=vad", 400, "invalid_request_error"),
        ("/v1/realtime?model=ears&intent=conversation", 400, "invalid_request_error"),
        ("/v1/realtime?model=ears&busy_timeout_ms=-1", 400, "invalid_request_error"),
    ],
)
async def test_a_websocket_that_cannot_be_is_refused_as_a_request_is(
    open_world: OpenWorld, autojump_clock: MockClock, path: str, status: int, code: str
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket(path)
        await socket.ended.wait()
        assert (socket.status, socket.error()["code"]) == (status, code)
        assert not socket.accepted


async def test_a_plain_request_is_told_what_would_do(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, _):
        reply = await world.client.get("/v1/realtime?model=ears")
        assert (reply.status, reply.headers["upgrade"]) == (426, "websocket")
        assert "ws://" in reply.error()["message"]


KEY = "a-key"
AS_PROTOCOL = ("realtime", f"openai-insecure-api-key.{KEY}")


@pytest.mark.parametrize(
    ("headers", "protocols", "status"),
    [
        ({}, (), 401),
        ({"authorization": f"Bearer {KEY}"}, (), 0),
        ({"authorization": "Bearer other"}, (), 401),
        ({}, AS_PROTOCOL, 0),
        ({}, (*AS_PROTOCOL, "openai-organization.o", "openai-project.p", "openai-beta.x"), 0),
        ({}, AS_PROTOCOL[::-1], 0),
        ({}, ("realtime", "openai-insecure-api-key.other"), 401),
        ({}, ("realtime", KEY), 401),
        ({"authorization": "Bearer other"}, AS_PROTOCOL, 401),
    ],
)
async def test_keys_are_asked_for_in_a_header_or_in_a_subprotocol(
    open_world: OpenWorld,
    autojump_clock: MockClock,
    headers: dict[str, str],
    protocols: tuple[str, ...],
    status: int,
) -> None:
    async with session(open_world, settings={"api_keys": (KEY,)}) as (_, open_socket):
        socket = await open_socket(headers=headers, protocols=protocols)
        assert socket.status == status
        if not status:
            assert socket.accepted["subprotocol"] == ("realtime" if protocols else None)


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ("", None, True),
        ("", "http://test", True),
        ("", "http://test:8080", False),
        ("", "https://evil.example", False),
        ("", "null", False),
        ("*", "https://evil.example", True),
        (("https://good.example",), "https://good.example", True),
        (("https://good.example",), "https://evil.example", False),
        (("https://good.example",), "http://test", True),
    ],
)
async def test_a_page_of_another_origin_needs_to_be_let_in(
    open_world: OpenWorld,
    autojump_clock: MockClock,
    origins: Any,
    origin: str | None,
    allowed: bool,
) -> None:
    async with session(open_world, settings={"cors_origins": origins}) as (_, open_socket):
        socket = await open_socket(headers={} if origin is None else {"origin": origin})
        assert bool(socket.accepted) == allowed
        assert socket.status == (0 if allowed else 403)
