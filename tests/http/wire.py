"""Requests broken on the wire, and the answers in what comes back."""

import json
import random
import re
from collections.abc import Iterator
from typing import Final

from tests.http.client import form
from tests.http.openapi import SOUND

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
