"""httpx over HTTP/2: many requests on one connection, each with a life of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
from tests.cases.conftest import SPEECH, WORDS
from tests.clients.conftest import LONG, Seen

pytestmark = [pytest.mark.process, pytest.mark.models]


@asynccontextmanager
async def opened(seen: Seen) -> AsyncIterator[httpx.AsyncClient]:
    """A client with one connection, on which everything happens at once."""
    async with httpx.AsyncClient(
        base_url=seen.served.url,
        http1=False,
        http2=True,
        timeout=60,
        limits=httpx.Limits(max_connections=1),
    ) as client:
        yield client


async def busy(seen: Seen, name: str) -> None:
    await trio.to_thread.run_sync(seen.until_busy, name)


async def idle(seen: Seen, name: str) -> None:
    await trio.to_thread.run_sync(seen.until_idle, name)


async def test_many_requests_share_a_connection_and_get_their_own_answers(
    seen: Seen, speech: bytes
) -> None:
    found: dict[int, bytes] = {}
    async with opened(seen) as client:

        async def speak(seed: int) -> bytes:
            asked = {"model": "voice", "input": "Seven red apples.", "seed": seed}
            answer = await client.post(SPEECH, json=asked)
            assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
            return answer.content

        async def note(seed: int) -> None:
            found[seed] = await speak(seed)

        alone = {seed: await speak(seed) for seed in range(8)}
        async with trio.open_nursery() as nursery:
            for seed in range(8):
                nursery.start_soon(note, seed)
            listened = await client.post(
                WORDS, data={"model": "writer"}, files={"file": ("a.wav", speech)}
            )
    assert found == alone
    assert listened.status_code == 200


async def test_a_stream_that_is_ended_by_its_id_ends_alone(seen: Seen) -> None:
    """httpx keeps it to itself when it leaves a stream; by its ID anybody can end one."""
    some = {"model": "voice", "input": LONG[:500], "stream_format": "sse"}
    named = {"X-Request-Id": "to-be-ended"}
    async with opened(seen) as client:
        async with client.stream("POST", SPEECH, json=some) as other:
            endless = {**some, "model": "one"}
            async with client.stream("POST", SPEECH, json=endless, headers=named) as ended:
                ending = await client.delete("/v1/requests/to-be-ended")
                assert ending.json() == {"id": "to-be-ended", "cancelled": True, "ended": True}
                assert "request_cancelled" in (await ended.aread()).decode()
            await idle(seen, "one")
            assert (await other.aread()).decode().endswith("data: [DONE]\n\n")
        assert (await client.get("/health")).http_version == "HTTP/2"


async def test_a_client_that_closes_its_connection_frees_all_that_it_held(seen: Seen) -> None:
    long = {"model": "one", "text": "x", "options": {"run_ms": 60_000}}
    async with opened(seen) as client, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: client.post("/v1/tasks/run", json=long))
        await busy(seen, "one")
        nursery.start_soon(lambda: client.post("/v1/tasks/run", json=long))
        nursery.start_soon(lambda: client.post(SPEECH, json={"model": "voice", "input": LONG}))
        await busy(seen, "voice")
        nursery.cancel_scope.cancel()
    await idle(seen, "one")
    await idle(seen, "voice")
    asked = {"model": "one", "text": "next", "options": {"run_ms": 1}}
    async with opened(seen) as client:
        answer = await client.post("/v1/tasks/run", json=asked)
        assert (answer.status_code, answer.json()["text"]) == (200, "next")


async def test_an_upload_is_sent_in_pieces_and_errors_come_back(seen: Seen, speech: bytes) -> None:
    async with opened(seen) as client:

        async def pieces() -> AsyncIterator[bytes]:
            head = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwriter\r\n'
            yield head + b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            for start in range(0, len(speech), 10_000):
                yield speech[start : start + 10_000]
            yield b"\r\n--x--\r\n"

        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = await client.post(WORDS, content=pieces(), headers=kind)
        assert answer.status_code == 200, answer.text
        refused = await client.post(SPEECH, json={"model": "nobody", "input": "a"})
        assert (refused.http_version, refused.status_code) == ("HTTP/2", 404)
