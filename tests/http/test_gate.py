"""Keys, other origins, request IDs, and errors that no route raised."""

from typing import Any

import pytest
import trio
from tests.http.conftest import VOICE, OpenWorld, World
from trio.testing import MockClock

from paraudio.errors import InvalidRequestError, LoadError, ServerBusyError
from paraudio.http import ROUTES, Gate, path_of
from paraudio.http._core import Route
from paraudio.store import StoreError

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


async def test_a_wrong_key_reads_otherwise_than_none(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VOICE, settings=KEYS) as world:
        none = await world.client.get("/v1/models")
        wrong = await world.client.get("/v1/models", {"authorization": "Bearer other"})
    assert "needs an API key" in none.error()["message"]
    assert "none of this server's API keys" in wrong.error()["message"]
    assert "other" not in wrong.error()["message"]


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
    assert reply.error()["message"].endswith(f"; it takes {reply.headers['allow']}")


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


@pytest.mark.parametrize(
    ("cause", "whole"),
    [(None, False), (InvalidRequestError("no such path"), False), (ValueError("bits"), True)],
)
async def test_a_load_that_fails_is_one_line_unless_it_is_the_backend_that_failed(
    world: World,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    cause: Exception | None,
    whole: bool,
) -> None:
    async def fail(exchange: object) -> Any:
        raise LoadError("no index answered") from cause

    replace_route(world, "/health", fail)
    reply = await world.client.get("/health", {"x-request-id": "req-1"})
    assert (reply.status, reply.error()["code"]) == (500, "load_failed")
    assert "request req-1 failed" in caplog.text
    assert "no index answered" in caplog.text
    assert ("Traceback" in caplog.text) is whole


async def test_what_keeps_a_model_out_of_the_store_is_one_line(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(exchange: object) -> Any:
        raise StoreError("the store cannot be written") from PermissionError("denied")

    replace_route(world, "/health", fail)
    assert (await world.client.get("/health")).status == 500
    assert "the store cannot be written" in caplog.text
    assert "Traceback" not in caplog.text


async def test_of_several_errors_at_once_the_client_is_told_the_one_with_an_answer(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
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


LISTED = {"cors_origins": ("https://page.example",)}


@pytest.mark.parametrize(
    "origin",
    [
        "https://other.example",
        "https://page.example.evil",
        "https://evil-page.example",
        "http://page.example",
        "https://page.example:8443",
        "https://PAGE.example",
        "https://page.example, https://other.example",
        "https://page.example/",
        "null",
        "*",
        "",
    ],
)
async def test_pages_of_other_origins_are_told_nothing(
    open_world: OpenWorld, autojump_clock: MockClock, origin: str
) -> None:
    asked = {"origin": origin, "access-control-request-method": "POST"}
    async with open_world(VOICE, settings=LISTED) as world:
        for reply in (
            await world.client.get("/health", {"origin": origin}),
            await world.client.get("/nowhere", {"origin": origin}),
            await world.client.call(*SPEAK, {"origin": origin}),
            await world.client.call("OPTIONS", "/v1/audio/speech", None, asked),
        ):
            assert not [name for name in reply.headers if name.startswith("access-control")]
            assert reply.headers["vary"] == "Origin"


async def test_a_cache_is_told_that_answers_differ_by_origin(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VOICE, settings=LISTED) as world:
        assert (await world.client.get("/health")).headers["vary"] == "Origin"
        assert (await world.client.get("/health", ORIGIN)).headers["vary"] == "Origin"
    for settings in ({"cors_origins": "*"}, {}):
        async with open_world(VOICE, settings=settings) as world:
            for headers in (ORIGIN, {}):
                assert "vary" not in (await world.client.get("/health", headers)).headers


@pytest.mark.parametrize("stream", [{}, {"stream_format": "sse"}, {"stream_format": "audio"}])
async def test_a_page_may_read_errors_and_streams_too(
    open_world: OpenWorld, autojump_clock: MockClock, stream: dict[str, str]
) -> None:
    async with open_world(VOICE, settings=LISTED) as world:
        method, path, data = SPEAK
        for body, status in (({**data, **stream}, 200), ({**data, **stream, "seed": -1}, 400)):
            reply = await world.client.call(method, path, body, ORIGIN)
            assert reply.status == status
            assert reply.headers["access-control-allow-origin"] == "https://page.example"
            exposed = reply.headers["access-control-expose-headers"].split(", ")
            assert {"X-Request-Id", "Retry-After", "X-Paraudio-Sample-Rate"} <= set(exposed)
            assert "access-control-allow-credentials" not in reply.headers


async def test_management_is_off_for_every_managing_route_whoever_asks(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    managing = [route for route in ROUTES if route.gate is Gate.MANAGEMENT]
    assert len(managing) >= 8
    key = {"authorization": "Bearer first-key"}
    for settings, status, headers in (
        ({}, 403, {}),
        (KEYS, 403, key),
        (KEYS, 401, {}),
        ({**KEYS, "ui_management": True}, 401, {}),
    ):
        async with open_world(VOICE, settings=settings) as world:
            for route in managing:
                reply = await world.client.call(route.method, route.path, {}, headers)
                assert reply.status == status, route.path
                assert "first-key" not in reply.body.decode()


async def test_every_keyed_route_is_closed_without_a_key(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VOICE, settings={**KEYS, "ui_management": True}) as world:
        for route in ROUTES:
            path = path_of(route).format(model_id="voice", request_id="x")
            reply = await world.client.call(route.method, path, None)
            assert (reply.status == 401) == (route.gate is not Gate.OPEN), path


async def test_every_key_is_compared_whole_whatever_is_given(
    open_world: OpenWorld, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("paraudio.http._gate.hmac.compare_digest", compare)
    async with open_world(VOICE, settings=KEYS) as world:
        for given in ("first-key", "second-key", "f", "", "first-key" * 100):
            compared.clear()
            await world.client.get("/v1/models", {"authorization": f"Bearer {given}"})
            # The first match does not end it, and no length does.
            assert compared == [(given.encode(), key.encode()) for key in KEYS["api_keys"]]


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
