"""What was seen to go wrong with servers of this kind, by the numbers of the field cases.

Here: who waits, leaves, loads and ends. What comes in and goes out: `test_field_inputs` (texts),
`test_field_sounds` (recordings).
"""

import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from tests.cases.conftest import RUN, SENTENCE, SPEECH, WORDS
from tests.http.sounds import sound_file
from tests.server.clients import Answer, Client, bodies
from tests.server.harness import Served, serving, simulated

pytestmark = [pytest.mark.process, pytest.mark.models]

SERVERS = ["parallel", "processes", "serial"]
LONG_MS = 60_000
WORK_S = 2.0
"""What a load and four runs at once take on two cores with nothing else to do."""


@pytest.fixture(params=SERVERS)
def served(request: pytest.FixtureRequest) -> Served:
    """Each kind of server."""
    server = request.getfixturevalue(request.param)
    assert isinstance(server, Served)
    return server


OPENING = (
    b"GET /v1/realtime?model=listener HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
"""A websocket that then only stays."""


async def heard_of(client: Client, word: bytes) -> bool:
    """Read until a word comes, or nothing more."""
    data = b""
    while word not in data:
        piece = await client.stream.receive_some()
        if not piece:
            return False
        data += piece
    return data.startswith(b"HTTP/1.1 101 ")


def idle(model: Any) -> bool:
    return not (model["active_slots"] or model["queued_requests"] or model["queued_managers"])


def stream_of(model: str, text: str = SENTENCE, **more: object) -> dict[str, object]:
    return {"model": model, "input": text, "stream_format": "sse", **more}


@pytest.mark.parametrize("model", ["voice", "one"])
async def test_c01_a_stream_that_is_closed_midway_frees_its_slot(
    served: Served, model: str
) -> None:
    client = await served.begin(SPEECH, stream_of(model, SENTENCE * 20))
    assert await client.piece()
    neighbour = await served.begin(SPEECH, stream_of("sim", "neighbour"))
    client.leave()
    await served.until(idle, model, within_s=5)
    async with neighbour:
        assert (await neighbour.answer()).events[-1] == "[DONE]"


@pytest.mark.parametrize("how", ["leave", "reset"])
async def test_c02_a_client_that_hangs_up_before_any_answer_stops_its_run(
    served: Served, how: str
) -> None:
    client = await served.begin(RUN, bodies.run("one", run_ms=LONG_MS))
    await served.until(lambda seen: seen["active_slots"] == 1, "one")
    getattr(client, how)()
    await served.until(idle, "one", within_s=5)
    spoken = await served.begin(SPEECH, {"model": "voice", "input": SENTENCE * 50})
    await served.until(lambda seen: seen["active_slots"] == 1, "voice")
    getattr(spoken, how)()
    await served.until(idle, "voice", within_s=5)


async def test_c03_only_the_client_that_hangs_up_leaves_the_queue(served: Served) -> None:
    holder = await served.begin(RUN, bodies.run("one", run_ms=LONG_MS))
    await served.until(lambda seen: seen["active_slots"] == 1, "one")
    line: list[Client] = []
    for word in ("first", "second", "third"):
        body = {"model": "one", "text": word, "options": {"run_ms": 1}}
        line.append(await served.begin(RUN, body))
        await served.until(lambda seen: seen["queued_requests"] == len(line), "one")
    line[1].leave()
    await served.until(lambda seen: seen["queued_requests"] == 2, "one", within_s=2)
    holder.leave()
    for client, word in ((line[0], "first"), (line[2], "third")):
        async with client:
            assert (await client.answer()).json["text"] == word


async def test_c04_no_word_of_an_abandoned_stream_reaches_the_next_one(served: Served) -> None:
    for index in range(5):
        client = await served.begin(SPEECH, stream_of("one", f"abandoned {index}"))
        await client.piece()
        client.leave()
        body = {"model": "one", "text": f"mine {index}", "options": {"run_ms": 1}}
        answer = await served.post(RUN, body)
        assert (answer.status, answer.json["text"]) == (200, f"mine {index}")


async def test_c04_a_voice_speaks_the_same_after_an_abandoned_stream(serial: Served) -> None:
    asked = {"model": "voice", "input": "Good morning.", "seed": 7}
    alone = await serial.post(SPEECH, asked)
    client = await serial.begin(SPEECH, stream_of("voice", SENTENCE * 20, seed=3))
    await client.piece()
    client.leave()
    assert (await serial.post(SPEECH, asked)).body == alone.body


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_c05_a_second_model_waits_for_the_first_to_load_and_run(
    tmp_path: Path, isolation: str
) -> None:
    pair = [simulated("a", load_ms=600, run_ms=50), simulated("b", load_ms=50, run_ms=50)]
    async with serving(tmp_path, pair, isolation=isolation, max_loaded_models=1) as served:
        for _ in range(2):
            async with await served.begin(RUN, bodies.run("a")) as first:
                await served.until(lambda seen: seen["state"] == "loading", "a")
                async with await served.begin(RUN, bodies.run("b")) as second:
                    assert (await second.answer()).status == 200
                assert (await first.answer()).status == 200


async def test_c06_a_request_at_the_moment_of_idle_retirement(tmp_path: Path) -> None:
    model = simulated(load_ms=2, unload_ms=2)
    async with serving(tmp_path, [model], idle_unload_ms=40) as served:
        loads = set()
        for index in range(60):
            with trio.fail_after(10):
                answer = await served.run(run_ms=1)
            assert answer.status == 200, answer.body
            seen = await served.model()
            loads.add(seen["generation"])
            # Around the time of retirement, a little sooner and a little later.
            await trio.sleep(0.03 + index % 20 / 1000)
        assert len(loads) > 1, "no retirement was ever met"


@pytest.mark.parametrize("model", ["voice", "sim"])
async def test_c07_sixteen_at_once_sound_like_sixteen_in_a_row(served: Served, model: str) -> None:
    """Of "sim" the sound depends on the name of the voice too."""
    texts = ["Good morning.", "Where is the station?", "I like rain.", "Seven red apples."]
    asked = [
        {
            "model": model,
            "input": texts[n % 4],
            "voice": f"speaker {n % 5}",
            "seed": 2**60 + n,
            "speed": 1 + n % 3 / 10,
        }
        for n in range(16)
    ]
    alone = [await served.post(SPEECH, body) for body in asked]
    together: dict[int, Answer] = {}

    async def ask(number: int) -> None:
        together[number] = await served.post(SPEECH, asked[number])

    async with trio.open_nursery() as nursery:
        for number in range(16):
            nursery.start_soon(ask, number)
    assert all(answer.status == 200 for answer in alone)
    assert len({answer.body for answer in alone}) == 16
    assert [together[n].body == alone[n].body for n in range(16)] == [True] * 16


def is_failed_load(status: int, kind: str, body: bytes) -> None:
    assert (status, kind) == (500, "application/json"), body
    error = json.loads(body)["error"]
    assert (error["type"], error["code"]) == ("server_error", "load_failed")


@pytest.mark.parametrize("kind", ["sse", "audio"])
async def test_c11_a_load_that_fails_is_an_error_before_any_header(
    served: Served, kind: str
) -> None:
    answer = await served.post(SPEECH, {**stream_of("broken"), "stream_format": kind})
    is_failed_load(answer.status, answer.headers["content-type"], answer.body)


@pytest.mark.parametrize("way", ["file", "task"])
async def test_c11_nor_do_streamed_words_begin_where_the_load_fails(
    served: Served, way: str
) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        if way == "file":
            file, data = {"file": sound_file()}, {"model": "broken ears", "stream": "true"}
            answer = await client.post(WORDS, files=file, data=data)
        else:
            answer = await client.post("/v1/tasks/stream", json={"model": "broken", "text": "a"})
    is_failed_load(answer.status_code, answer.headers["content-type"], answer.content)


LIVE = (
    f"POST {WORDS}/live?model=broken%20ears&sample_rate=16000 HTTP/1.1\r\nHost: a\r\n"
    "Transfer-Encoding: chunked\r\n\r\n8\r\n\0\0\0\0\0\0\0\0\r\n"
).encode()
"""Sound of which more would come."""


async def test_c11_nor_does_a_live_answer_while_sound_still_comes(served: Served) -> None:
    async with await served.connect() as client:
        await client.send(LIVE)
        data = b""
        with trio.fail_after(30):
            while b"load_failed" not in data:
                piece = await client.stream.receive_some()
                assert piece, data
                data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body)["error"]["type"] == "server_error"


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_c17_a_server_ends_in_time_whatever_its_clients_do(
    tmp_path: Path, isolation: str
) -> None:
    stubborn = simulated("stubborn", run_ms=LONG_MS, ignore_cancel=True)
    pool = [
        simulated(run_ms=LONG_MS, chunks=1000, chunk_ms=20),
        simulated("cold", load_ms=LONG_MS),
        simulated("large", chunks=1000, chunk_ms=0),
        stubborn,
        simulated("listener") | {"task": "asr"},
    ]
    settings = {"isolation": isolation, "drain_ms": 500, "cancel_ms": 500}
    async with serving(tmp_path, pool, **settings) as served, AsyncExitStack() as stack:
        stream = await stack.enter_async_context(await served.begin(SPEECH, stream_of("sim")))
        assert await stream.piece()
        queued = await stack.enter_async_context(await served.begin(RUN, bodies.run()))
        await served.until(lambda seen: seen["queued_requests"] == 1)
        await stack.enter_async_context(await served.begin(RUN, bodies.run("cold")))
        await stack.enter_async_context(await served.begin(RUN, bodies.run("stubborn")))
        await served.until(lambda seen: seen["active_slots"] == 1, "stubborn")
        half = await stack.enter_async_context(await served.connect())
        await half.send(b"POST /v1/tasks/run HTTP/1.1\r\nHost: a\r\nContent-Le")
        deaf = await stack.enter_async_context(await served.connect(receive_buffer=4096))
        await deaf.ask(SPEECH, stream_of("large", "x" * 2000))
        socket = await stack.enter_async_context(await served.connect())
        await socket.send(OPENING)
        assert await heard_of(socket, b"session.created")
        ended = await served.stopped()
        assert (await queued.answer()).code == "shutting_down"
    assert ended.code == 3
    assert ended.seconds <= served.bound_s
    assert ended.cuts


async def test_c18_health_answers_while_a_model_loads_and_four_run(parallel: Served) -> None:
    await parallel.post("/v1/tasks/unload_all_models", {})
    times: list[float] = []
    done = trio.Event()

    async def poll() -> None:
        async with httpx.AsyncClient(base_url=parallel.url, timeout=10) as client:
            while not done.is_set():
                began = time.perf_counter()
                assert (await client.get("/health")).status_code == 200
                times.append(time.perf_counter() - began)
                await trio.sleep(0.1)

    async def speak() -> None:
        assert (await parallel.post(SPEECH, {"model": "voice", "input": SENTENCE})).status == 200

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll)
        async with trio.open_nursery() as speaking:
            for _ in range(4):
                speaking.start_soon(speak)
        done.set()
    # The bound is for a machine with nothing else to do, and grows with what the work itself takes
    # on this one; one answer in ten may meet its business.
    slowness = max(1.0, (time.perf_counter() - began) / WORK_S)
    late = [seconds for seconds in times if seconds > 0.05 * slowness]
    assert len(late) <= 1 + len(times) // 10, (slowness, times)
    assert max(times) < 0.5 * slowness, (slowness, times)


async def test_c22_two_registrations_of_one_id_make_one_entry(parallel: Served) -> None:
    model = simulated("twice", load_ms=200)
    answers: list[Answer] = []

    async def register() -> None:
        answers.append(await parallel.post("/v1/models/load", model))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(register)
    assert [answer.status for answer in answers] == [200, 200]
    assert [answer.json["reconfigured"] for answer in answers] == [False, False]
    listed = (await parallel.get("/v1/models")).json["data"]
    assert [one["id"] for one in listed].count("twice") == 1
    assert (await parallel.model("twice"))["generation"] == 1, "loaded once"


async def test_c22_a_registration_while_a_bulk_unload_drains(parallel: Served) -> None:
    slow = {"model": "old", "text": "x", "options": {"run_ms": LONG_MS}}
    assert (await parallel.post("/v1/models/load", simulated("old"))).status == 200
    holder = await parallel.begin(RUN, slow)
    await parallel.until(lambda seen: seen["active_slots"] == 1, "old")
    async with await parallel.begin("/v1/tasks/unload_models", {"model_ids": ["old"]}) as bulk:
        await parallel.until(lambda seen: seen["queued_managers"] == 1, "old")
        # Another model is registered at once; the same one stands behind the bulk.
        assert (await parallel.post("/v1/models/load", simulated("new"))).status == 200
        async with await parallel.begin("/v1/models/load", simulated("old", run_ms=5)) as again:
            await parallel.until(lambda seen: seen["queued_managers"] == 2, "old")
            holder.leave()
            assert (await bulk.answer()).json == {"unloaded": ["old"], "not_found": []}
            assert (await again.answer()).json["loaded"] is True
    seen = await parallel.model("old")
    assert (seen["state"], seen["loaded"]) == ("ready", True)
