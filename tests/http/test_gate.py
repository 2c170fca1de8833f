"""Keys, other origins, request IDs, and errors that no route raised."""

from typing import Any

import pytest
import trio
from tests.http.conftest import VOICE, OpenWorld, World
from trio.testing import MockClock

from paraudio.http._core import Route

KEYS = {"api_keys": ("first-key", "second-key")}
SPEAK = ("POST", "/v1/audio/speech", {"model": "voice", "input": "a"})


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic first-key",
        "first-key",
        "Bearer first-key x",
        "Bearer first-ke\xff",
    ],
)
async def test_without_a_key_every_route_but_the_probes_is_closed(
    open_world: OpenWorld, autojump_clock: MockClock, header: str | None
) -> None:
    headers = {} if header is None else {"authorization": header}
    async with open_world(VOICE, settings=KEYS) as world:
        for method, path, data in (
            SPEAK,
            ("GET", "/v1/models", None),
            ("POST", "/v1/models/load", {}),
            ("POST", "/v1/tasks/unload_all_models", None),
        ):
            reply = await world.client.call(method, path, data, headers)
            assert (reply.status, reply.error()["type"]) == (401, "unauthorized")
            assert reply.headers["www-authenticate"] == "Bearer"
        for path in ("/health", "/health/live", "/health/ready"):
            assert (await world.client.get(path, headers)).status == 200
        assert not world.model().loaded


@pytest.mark.parametrize("header", ["Bearer first-key", "bearer second-key", "BEARER  first-key "])
async def test_any_of_the_keys_opens(
    open_world: OpenWorld, autojump_clock: MockClock, header: str
) -> None:
    async with open_world(VOICE, settings=KEYS) as world:
        reply = await world.client.call(*SPEAK, {"authorization": header})
        assert reply.status == 200
        forbidden = await world.client.post("/v1/models/load", {}, {"authorization": header})
        assert forbidden.status == 403


async def test_the_clients_own_id_comes_back(world: World, autojump_clock: MockClock) -> None:
    for given in ("abc-123", "a.b_c:d/e", "x" * 128):
        reply = await world.client.call(*SPEAK, {"x-request-id": given})
        assert reply.headers["x-request-id"] == given
    assert [e.facts["request"] for e in world.events if e.kind == "bound"] == [
        "abc-123",
        "a.b_c:d/e",
        "x" * 128,
    ]


@pytest.mark.parametrize("given", [None, "", " ", "x" * 129, "a b", "ü", "a\tb", "<script>"])
async def test_an_id_that_cannot_be_logged_is_replaced(
    world: World, autojump_clock: MockClock, given: str | None
) -> None:
    headers = {} if given is None else {"x-request-id": given}
    first = await world.client.get("/health", headers)
    second = await world.client.get("/nowhere", headers)
    ids = {first.headers["x-request-id"], second.headers["x-request-id"]}
    assert len(ids) == 2
    assert given not in ids


async def test_an_id_that_is_in_use_is_made_another(
    world: World, autojump_clock: MockClock
) -> None:
    gate = world.gates.hold("run")
    headers = {"x-request-id": "same"}
    first = world.client.start(*SPEAK, headers)
    await gate.wait_held()
    second = await world.client.get("/health", headers)
    assert second.headers["x-request-id"].startswith("same-")
    gate.open()
    await first.ended.wait()
    assert first.reply.headers["x-request-id"] == "same"
    again = await world.client.get("/health", headers)
    assert again.headers["x-request-id"] == "same"


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/audio/speach", "/v1//models", "/health/x"])
async def test_an_unknown_route_is_404(world: World, autojump_clock: MockClock, path: str) -> None:
    reply = await world.client.get(path)
    assert (reply.status, reply.error()["type"], reply.error()["code"]) == (
        404,
        "not_found",
        "not_found",
    )


async def test_a_closing_slash_is_forgiven(world: World, autojump_clock: MockClock) -> None:
    assert (await world.client.get("/v1/models/")).status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_another_method_is_405_and_says_which_there_are(
    world: World, autojump_clock: MockClock, method: str
) -> None:
    reply = await world.client.call(method, "/v1/audio/speech")
    assert reply.status == 405
    assert reply.error()["code"] == "method_not_allowed"
    assert "POST" in reply.headers["allow"]


async def test_an_unforeseen_error_is_logged_and_tells_nothing(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(exchange: object) -> Any:
        raise ZeroDivisionError("secret detail")

    replace_route(world, "/health", fail)
    reply = await world.client.get("/health", {"x-request-id": "req-1"})
    assert (reply.status, reply.error()["type"]) == (500, "server_error")
    assert "secret" not in reply.body.decode()
    assert "req-1" in reply.error()["message"]
    assert "secret detail" in caplog.text
    assert "req-1" in caplog.text


async def test_of_several_errors_at_once_the_client_is_told_the_one_with_an_answer(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    from paraudio.errors import ServerBusyError

    async def fail(exchange: object) -> Any:
        raise ExceptionGroup("both", [ValueError("hidden"), ServerBusyError("too busy")])

    replace_route(world, "/health", fail)
    reply = await world.client.get("/health")
    assert (reply.status, reply.error()["code"]) == (503, "server_busy")
    assert reply.headers["retry-after"] == "1"
    assert "hidden" in caplog.text


def replace_route(world: World, path: str, handler: Any) -> None:
    table = world.client.app._table
    for endpoint, route in table.items():
        if route.path == path:
            table[endpoint] = Route(route.method, path, handler, route.gate)


ORIGIN = {"origin": "https://page.example"}


@pytest.mark.parametrize("origins", ["*", ("https://page.example", "https://other.example")])
async def test_a_page_of_another_origin_may_ask_and_read(
    open_world: OpenWorld, autojump_clock: MockClock, origins: str | tuple[str, ...]
) -> None:
    asked = {
        **ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-extra",
    }
    allowed = "*" if origins == "*" else "https://page.example"
    async with open_world(VOICE, settings={"cors_origins": origins, **KEYS}) as world:
        for path in ("/v1/audio/speech", "/v1/models", "/nowhere"):
            reply = await world.client.call("OPTIONS", path, None, asked)
            assert reply.status == 204
            assert reply.body == b""
            assert "content-length" not in reply.headers
            assert "POST" in reply.headers["access-control-allow-methods"]
            assert reply.headers["access-control-allow-headers"] == "authorization, x-extra"
            assert reply.headers["access-control-allow-origin"] == allowed
        refused = await world.client.get("/v1/models", ORIGIN)
        assert refused.status == 401
        assert refused.headers["access-control-allow-origin"] == allowed
        key = {"authorization": "Bearer first-key"}
        reply = await world.client.call(*SPEAK, {**ORIGIN, **key})
        assert reply.headers["access-control-allow-origin"] == allowed
        assert "X-Paraudio-RTF" in reply.headers["access-control-expose-headers"]


async def test_other_origins_are_not_allowed(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VOICE, settings={"cors_origins": ("https://other.example",)}) as world:
        reply = await world.client.get("/health", ORIGIN)
        assert "access-control-allow-origin" not in reply.headers
        assert reply.headers["vary"] == "Origin"


async def test_without_cors_options_says_which_methods_there_are(
    world: World, autojump_clock: MockClock
) -> None:
    asked = {**ORIGIN, "access-control-request-method": "POST"}
    reply = await world.client.call("OPTIONS", "/v1/audio/speech", None, asked)
    assert reply.status == 200
    assert "POST" in reply.headers["allow"]
    assert "access-control-allow-origin" not in reply.headers


async def test_bodies_are_logged_where_that_is_asked_for(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_world(VOICE) as world:
        await world.client.call(*SPEAK)
        assert "body" not in caplog.text
    async with open_world(VOICE, settings={"log_request_body": True}) as world:
        await world.client.call(*SPEAK)
        assert '"input":"a"' in caplog.text


async def test_no_request_leaves_a_trace(world: World, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(world.client.call, *SPEAK)
            nursery.start_soon(world.client.get, "/nowhere")
    assert world.idle()
