"""A server to measure: ``paraudio serve`` as a process, and clients of raw sockets.

Clients that leave at a chosen moment, and servers that leave them, want no library between them.
"""

import contextlib
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import trio

from paraudio.journal import Trace, check, read

RESET: Final = struct.pack("ii", 1, 0)

Body = Mapping[str, object]


class Server:
    """A ``paraudio serve`` process; its log is read and dropped."""

    def __init__(self, process: subprocess.Popen[str], journal: Path) -> None:
        self.process = process
        self.port = 0
        self._journal = journal
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._listening.wait()
        if not self.port:
            raise RuntimeError("the server did not start")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "listening on " in line:
                self.port = int(line.partition("listening on ")[2].split()[0].rpartition(":")[2])
                self._listening.set()
        self._listening.set()

    def stop(self) -> tuple[int, float]:
        """End it with SIGTERM; returns its exit code and how many seconds that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        seconds = time.monotonic() - began
        self._reader.join()
        return code, seconds

    def trace(self) -> Trace:
        """Its journal, held to the rules."""
        trace = read(self._journal)
        violations = check(trace.events)
        assert not violations, violations[:3]
        return trace

    async def send(self, body: Body, name: str = "") -> trio.SocketStream:
        """Connect and send a request, whose answer nobody waits for yet."""
        data = json.dumps(body).encode()
        head = "POST /v1/tasks/run HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        named = f"X-Request-Id: {name}\r\n" if name else ""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        await stream.send_all(f"{head}{named}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return stream

    async def model(self, name: str) -> Any:
        """A model's picture."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            head = f"GET /v1/models/{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            await stream.send_all(head.encode())
            data = b"".join([bytes(piece) async for piece in stream])
        return json.loads(data.partition(b"\r\n\r\n")[2])

    async def until(self, name: str, condition: Callable[[Any], bool]) -> None:
        """Wait until something holds of a model."""
        while not condition(await self.model(name)):  # noqa: ASYNC110 - another process, no event
            await trio.sleep(0.02)


@contextlib.contextmanager
def serving(*models: Body, **settings: object) -> Iterator[Server]:
    """Serve models on a free port."""
    with tempfile.TemporaryDirectory() as folder:
        config, journal = Path(folder, "server.json"), Path(folder, "journal.jsonl")
        config.write_text(json.dumps({"port": 0, "models": models, **settings}))
        command = [sys.executable, "-m", "paraudio", "serve", "--config", str(config)]
        process = subprocess.Popen(
            [*command, "--journal", str(journal), "--parallel-jobs"],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield Server(process, journal)
        finally:
            process.kill()
            process.wait()


def simulated(**more: object) -> Body:
    """A simulated model object."""
    return {"id": "sim", "family": "simulated", "path": "", "task": "tts", **more}


def job(model: str, text: str = "hello", **options: object) -> Body:
    """The body of one job."""
    return {"model": model, "request": {"text": text, "options": options}}


async def whole(stream: trio.SocketStream) -> bool:
    """Wait for an answer; whether it was whole and good."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := await stream.receive_some()):
            return False
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    left = int(fields[b"content-length"]) - len(body)
    while left > 0:
        if not (piece := await stream.receive_some()):
            return False
        left -= len(piece)
    return head.startswith(b"HTTP/1.1 200")


def leave(stream: trio.SocketStream, *, reset: bool) -> float:
    """Close a connection; returns when, in seconds of the wall clock."""
    if reset:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    at = time.time()
    stream.socket.close()
    return at
