"""How long a server takes to end: seconds from SIGTERM to the exit, by the work in progress.

Run with ``python -m benchmarks.shutdown``. The drain is 2 s and the cancel 1 s, so that 4 s would
be too long for any row.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import trio
from benchmarks._served import Body, job, serving, simulated

SHUTDOWNS: Final[Mapping[str, tuple[Body, Body | None, Body]]] = {
    "idle": (simulated(), None, {}),
    "a run that ends in 1 s": (simulated(), job("sim", run_ms=1000), {}),
    "a run that would not end": (simulated(), job("sim", run_ms=600_000), {}),
    "a load that would not end": (
        simulated(load_options={"load_ms": 600_000}),
        job("sim"),
        {},
    ),
    "a thread that ignores its stop": (
        simulated(session_options={"ignore_cancel": True}),
        job("sim", run_ms=600_000),
        {},
    ),
    "a worker that ignores its stop": (
        simulated(session_options={"ignore_cancel": True}),
        job("sim", run_ms=600_000),
        {"isolation": "process"},
    ),
}


async def shutdown(what: str, model: Body, body: Body | None, settings: Mapping[str, Any]) -> None:
    """Measure one row; the drain is 2 s and the cancel 1 s."""
    bounds = {"drain_timeout_ms": 2000, "cancel_timeout_ms": 1000}
    with serving(model, **bounds, **settings) as server, contextlib.ExitStack() as clients:
        if body is not None:
            stream = await server.send(body)
            clients.callback(stream.socket.close)
            await server.until("sim", lambda seen: seen["active_slots"] > 0)
        code, seconds = await trio.to_thread.run_sync(server.stop)
    print(f"  {what:46} {seconds:5.2f} s of at most 4   code {code}")


async def main() -> None:
    """Print every row."""
    for what, (model, body, settings) in SHUTDOWNS.items():
        await shutdown(what, model, body, settings)


if __name__ == "__main__":
    trio.run(main)
