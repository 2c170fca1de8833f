"""What serving a small request costs, beside hypercorn's own server, measured in the same run.

Run with ``python -m benchmarks.transport``. Each server runs in a process of its own and answers 16
clients that keep their connections; the servers take turns, and the best round counts, so that a
busy machine disturbs little. Trust the ratios, and of the two figures the processor time.
"""

import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as stock_serve
from quart_trio import QuartTrio

from paraudio.transport import ASGIApp, HttpConnection, PullRequest, Server

ROUNDS: Final = 3
CLIENTS: Final = 16
REQUESTS: Final = 4_000
REQUEST: Final = b"GET / HTTP/1.1\r\nHost: bench\r\nAccept: */*\r\n\r\n"
ANSWER: Final = b'{"hello":"world","n":1}'
HEADERS: Final = [(b"content-type", b"application/json"), (b"content-length", b"23")]
SERVERS: Final = ("hypercorn", "paraudio")
APPS: Final = ("raw", "quart")


async def raw(_scope: object, _receive: object, send: Any) -> None:
    """The smallest application."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def quart_app(*, ours: bool) -> ASGIApp:
    """The same in quart, with the connection class that belongs to the server."""
    app = QuartTrio("bench")
    if ours:
        app.asgi_http_class = HttpConnection
        app.request_class = PullRequest

    @app.get("/")
    async def hello() -> dict[str, object]:
        return {"hello": "world", "n": 1}

    return app


async def run_server(server: str, app_name: str) -> None:
    """Serve on a free port, which is printed, until the process is ended."""
    ours = server == "paraudio"
    app = raw if app_name == "raw" else quart_app(ours=ours)
    listening = socket.create_server(("127.0.0.1", 0), backlog=100)
    listening.setblocking(False)
    print(listening.getsockname()[1], flush=True)
    if ours:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        await Server(app).serve([listener])
    else:
        config = Config()
        config.bind = [f"fd://{listening.detach()}"]
        await stock_serve(app, config)


@contextmanager
def running(server: str, app_name: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its process number and its port."""
    command = [sys.executable, __file__, "--serve", server, app_name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def processor_seconds(pid: int) -> float:
    """How long a process has run on a processor."""
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - nothing else is simpler
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, requests: int) -> None:
    """Send requests on all connections, each one's next as soon as its last was answered."""
    selector = selectors.DefaultSelector()
    begun = answered = 0
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
    received = dict.fromkeys(sockets, b"")
    for one in sockets:
        selector.register(one, selectors.EVENT_READ)
        one.sendall(REQUEST)
        begun += 1
    while answered < begun:
        for key, _ in selector.select():
            one = cast("socket.socket", key.fileobj)
            received[one] += one.recv(65536)
            if not received[one].rstrip().endswith(b"}"):
                continue
            assert received[one].startswith(b"HTTP/1.1 200 ")
            received[one] = b""
            answered += 1
            if begun < requests:
                one.sendall(REQUEST)
                begun += 1
    for one in sockets:
        one.close()
    selector.close()


@dataclass
class Cost:
    """The best of the rounds."""

    per_second: float = 0.0
    processor_us: float = float("inf")

    def note(self, seconds: float, processor: float) -> None:
        """Keep what is better than before."""
        self.per_second = max(self.per_second, REQUESTS / seconds)
        self.processor_us = min(self.processor_us, processor / REQUESTS * 1e6)


def measure(pid: int, port: int, cost: Cost) -> None:
    """One round."""
    load(port, REQUESTS // 10)
    before, start = processor_seconds(pid), time.perf_counter()
    load(port, REQUESTS)
    cost.note(time.perf_counter() - start, processor_seconds(pid) - before)


def main() -> None:
    """Print a table."""
    costs = {(server, app): Cost() for app in APPS for server in SERVERS}
    for _ in range(ROUNDS):
        for (server, app), cost in costs.items():
            with running(server, app) as (pid, port):
                measure(pid, port, cost)
    print(f"{'application':12} {'server':10} {'requests/s':>10} {'processor µs':>13}")
    for (server, app), cost in costs.items():
        print(f"{app:12} {server:10} {cost.per_second:10.0f} {cost.processor_us:13.0f}")
    for app in APPS:
        stock, ours = (costs[server, app] for server in SERVERS)
        print(
            f"{app:12} {'ratio':10} {ours.per_second / stock.per_second:10.2f} "
            f"{stock.processor_us / ours.processor_us:13.2f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        trio.run(run_server, sys.argv[2], sys.argv[3])
    else:
        main()
