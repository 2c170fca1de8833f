"""Broken bytes on the wire: whatever comes, the answers are HTTP, no fault is the server's."""

import json
import os
import random
import re
import time
from collections.abc import Iterator
from typing import Final

import trio
from tests.http.client import form
from tests.http.conftest import EARS, VOICE, OpenWorld
from tests.http.openapi import SOUND

from paraudio.transport import Limits, Server, open_tcp

SECONDS: Final = float(os.environ.get("PARAUDIO_FUZZ_S", "0"))
BATCHES: Final = 12
AT_ONCE: Final = 8
LIMITS: Final = Limits(slow_client_timeout_s=0.5, keep_alive_s=0.5, linger_s=0.2, sweep_s=0.05)

_STATUS: Final = re.compile(rb"HTTP/1\.1 ([0-9]{3})")


def request(line: str, body: bytes = b"", *headers: str) -> bytes:
    head = [line + " HTTP/1.1", "Host: x", *headers]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def chunked(line: str, body: bytes, kind: str) -> bytes:
    head = request(line, b"", "Transfer-Encoding: chunked", f"Content-Type: {kind}")
    pieces = [body[at : at + 100] for at in range(0, len(body), 100)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"


def json_request(path: str, **fields: object) -> bytes:
    return request(f"POST {path}", json.dumps(fields).encode(), "Content-Type: application/json")


def form_request(path: str) -> bytes:
    body, headers = form(("model", None, b"ears"), ("file", "a.wav", SOUND))
    return request(f"POST {path}", body, f"Content-Type: {headers['content-type']}")


SEEDS: Final = (
    request("GET /v1/models?include_params=true"),
    request("GET /health", b"", "Connection: close"),
    request("GET http://[::1]:8080/v1/models?include_params=1"),
    request("HEAD /v1/models/voice"),
    request("OPTIONS /v1/audio/speech", b"", "Origin: https://x", "Expect: 100-continue"),
    request("DELETE /v1/requests/abc"),
    json_request("/v1/audio/speech", model="voice", input="Good morning.", seed=1),
    json_request("/v1/audio/speech", model="voice", input="Good morning.", stream_format="sse"),
    json_request("/v1/tasks/batch", model="voice", requests=[{"text": "one"}, {"text": "two"}]),
    json_request("/v1/tasks/unload_models", model_ids=["voice"], fence=False),
    form_request("/v1/audio/transcriptions"),
    form_request("/v1/batches/transcriptions"),
    chunked("POST /v1/audio/speech/live?model=voice", b"One. Two. Three. " * 20, "text/plain"),
    chunked("POST /v1/audio/transcriptions/live?model=ears", bytes(900), "audio/pcm"),
    request(
        "GET /v1/realtime?model=ears",
        b"",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: realtime, other",
    )
    + b"\x81\x85abcd\x09\x07\x0f\x08\x0e",
)
SPLICES: Final = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b":",
    b"\xff",
    b"%00",
    b"%ff",
    b"..",
    b"{",
    b'"',
    b"0",
    b"-1",
    b"99999999999",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Connection: close\r\n",
    b"X: " + b"y" * 1000 + b"\r\n",
    b"\r\n\r\n",
)


def mutated(dice: random.Random) -> bytes:
    """One request or two, broken in a few places or in none."""
    data = bytearray(b"".join(dice.choices(SEEDS, k=dice.choice([1, 1, 2]))))
    for _ in range(dice.choice([0, 1, 1, 2, 3, 6])):
        # Heads are worth more than bodies.
        at = dice.randrange(min(len(data), dice.choice([200, 200, len(data)])) or 1)
        match dice.randrange(5):
            case 0:
                data[at : at + dice.choice([1, 3, 40])] = b""
            case 1:
                data[at:at] = dice.choice(SPLICES)
            case 2:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case 3:
                size = dice.choice([5, 30, 100])
                data[at:at] = data[at : at + size]
            case _:
                lines = bytes(data).split(b"\r\n")
                one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
                lines[one], lines[other] = lines[other], lines[one]
                data = bytearray(b"\r\n".join(lines))
    return bytes(data)


def answers(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The heads of the answers in what came, and the bodies of those that have a length."""
    while found := _STATUS.match(data):
        head, mark, rest = data.partition(b"\r\n\r\n")
        if not mark:
            return
        length = re.search(rb"\r\ncontent-length: ([0-9]+)", head, re.IGNORECASE)
        size = 0 if length is None else int(length[1])
        body = rest[:size]
        if body.startswith(b"HTTP/1.1 "):
            body, size = b"", 0  # of a HEAD
        yield int(found[1]), head, body
        if length is None and not found[1].startswith(b"1"):
            return
        data = rest[size:]


async def attack(port: int, data: bytes, pieces: list[int]) -> bytes:
    """Send bytes in pieces, and take what comes until the server ends it."""
    got = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:

        async def send() -> None:
            try:
                for start, end in zip([0, *pieces], [*pieces, len(data)], strict=True):
                    await stream.send_all(data[start:end])
                    await trio.lowlevel.checkpoint()
            except trio.BrokenResourceError:
                return  # it has heard enough

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            try:
                while more := await stream.receive_some(65536):
                    got += more
            except trio.BrokenResourceError:
                pass  # cut off: a request that did not come to its end
            nursery.cancel_scope.cancel()
    return got


def judge(sent: bytes, got: bytes) -> None:
    """Every answer is one, and none says that the server is at fault."""
    for status, head, body in answers(got):
        assert status < 500, (status, sent, got[:2000])
        if status >= 400 and body:
            assert b"application/json" in head, (sent, head)
            error = json.loads(body)["error"]
            assert set(error) == {"message", "type", "code", "param"}


async def test_broken_requests_are_nobodys_fault_but_their_senders(open_world: OpenWorld) -> None:
    dice = random.Random(time.time() if SECONDS else 7)
    until = time.monotonic() + SECONDS
    errors: list[tuple[str, BaseException]] = []
    async with open_world(VOICE, EARS, threads=True) as world, trio.open_nursery() as nursery:
        server = Server(
            world.client.app, LIMITS, on_error=lambda what, error: errors.append((what, error))
        )
        [listener] = await open_tcp("127.0.0.1", 0)
        port: int = listener.socket.getsockname()[1]
        await nursery.start(server.serve, [listener])
        statuses: dict[int, int] = {}

        async def one() -> None:
            sent = mutated(dice)
            cuts = sorted(dice.randrange(len(sent) + 1) for _ in range(dice.choice([0, 0, 2])))
            with trio.fail_after(120):
                got = await attack(port, sent, cuts)
            judge(sent, got)
            for status, _, _ in answers(got):
                statuses[status] = statuses.get(status, 0) + 1

        done = 0
        while done < BATCHES or time.monotonic() < until:
            done += 1
            async with trio.open_nursery() as batch:
                for _ in range(AT_ONCE):
                    batch.start_soon(one)
        await server.wait_idle()
        assert world.idle()
        assert errors == []
        # It reaches what it attacks.
        assert {200, 400} <= statuses.keys()
        server.stop()
