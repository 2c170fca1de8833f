"""Puts a real server under mixed load for a while, and checks what must hold under any load.

python -m tools.soak [--minutes 2] [--clients 12] [--seed 1] [--journal FILE]

Clients speak, whole and streamed, with simulated models in threads and in processes; some bring
bounds too short to keep, some hang up in the middle. An operator meanwhile loads, reconfigures and
unloads. Then: every answer was one that the contract allows, every slot and queue is empty soon
after, memory, threads and descriptors are where they were when the server had warmed up, it ends by
itself with code 0, and its journal breaks no rule.

Everything stays on this machine, and the run is bounded in time and in requests.
"""

import argparse
import random
import sys
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import trio
from tools.served import Levels, Server, Tally, serving

MODELS: Final = ("quick", "wide", "apart")
SPEECH: Final = "/v1/audio/speech"
PATHS: Final = 16
"""Configurations of a model; the simulated family remembers each of them for ever."""


def note(tally: Tally, what: str, answer: httpx.Response) -> None:
    """Count an answer, and keep it if the contract does not allow it."""
    tally.seen[f"{what} {answer.status_code}"] += 1
    refusal = answer.status_code == 503 and "retry-after" in answer.headers
    if answer.status_code != 200 and not refusal:
        tally.wrong.append(f"{what}: {answer.status_code} {answer.text[:300]}")


def configuration() -> dict[str, Any]:
    """A server of simulated models: one slot, four slots, and two slots in processes."""
    common = {"family": "simulated", "path": "", "task": "tts"}
    return {
        "parallel_jobs": True,
        "ui_management": True,
        "max_queued_requests": 32,
        "max_loaded_models": 2,
        "models": [
            common | {"id": "quick", "session_options": {"run_ms": 3}},
            common | {"id": "wide", "slots": 4, "session_options": {"run_ms": 40}},
            common
            | {
                "id": "apart",
                "slots": 2,
                "isolation": "process",
                "load_options": {"load_ms": 50},
                "session_options": {"run_ms": 20},
            },
        ],
    }


async def client(http: httpx.AsyncClient, tally: Tally, chance: random.Random) -> None:
    """One client for as long as it is let: mostly patient, sometimes hasty, sometimes gone."""
    while True:
        (model,) = chance.choices(MODELS, weights=(6, 6, 1))
        body: dict[str, Any] = {"model": model, "input": f"number {chance.randrange(10**6)}"}
        body["response_format"] = chance.choice(("wav", "pcm", "json"))
        if chance.random() < 0.2:
            body["busy_timeout_ms"] = chance.randrange(1, 20)
        if chance.random() < 0.2:
            body = {"model": model, "input": "in pieces", "stream_format": "sse"}
        stays_s = chance.uniform(0.001, 0.05) if chance.random() < 0.2 else 60.0
        with trio.move_on_after(stays_s) as scope:
            note(tally, model, await http.post(SPEECH, json=body))
        if scope.cancelled_caught:
            tally.seen[f"{model} hung up"] += 1


async def operator(http: httpx.AsyncClient, tally: Tally, chance: random.Random) -> None:
    """Loads, reconfigures and unloads, one thing after the other."""
    while True:
        await trio.sleep(chance.uniform(0.05, 0.5))
        model = chance.choice(MODELS)
        match chance.randrange(4):
            case 0:
                answer = await http.post("/v1/models/unload", json={"id": model})
                note(tally, "unload", answer)
            case 1:
                names = [chance.choice(MODELS) for _ in range(3)]
                answer = await http.post("/v1/tasks/unload_models", json={"model_ids": names})
                note(tally, "unload_models", answer)
            case 2:
                spec: dict[str, Any] = {
                    "id": model,
                    "family": "simulated",
                    "path": f"/soak/{chance.randrange(PATHS)}",
                }
                spec |= {"task": "tts", "slots": chance.choice((1, 2, 4))}
                note(tally, "load", await http.post("/v1/models/load", json=spec))
            case _:
                note(tally, "list", await http.get("/v1/models"))


async def load(args: argparse.Namespace, server: Server) -> Tally:
    """The whole run against a server that was started."""
    tally, levels, process = Tally(), Levels(), psutil.Process(server.process.pid)
    # The seed makes a run repeatable as far as the clock lets it.
    seeds = random.Random(args.seed)
    limits = httpx.Limits(max_connections=None)
    address = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(
        base_url=address, limits=limits, timeout=90, trust_env=False
    ) as http:
        await server.wait_ready(http)
        with trio.move_on_after(60 * args.minutes):
            async with trio.open_nursery() as nursery:
                for _ in range(args.clients):
                    nursery.start_soon(client, http, tally, random.Random(seeds.random()))
                nursery.start_soon(operator, http, tally, random.Random(seeds.random()))
                nursery.start_soon(levels.watch, process)
        await server.wait_idle(http, tally)
    levels.judge(tally, descriptors=8.0)
    return tally


def main() -> int:
    """Run it all; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long (2)")
    parser.add_argument("--clients", type=int, default=12, help="how many at once (12)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (1)")
    parser.add_argument("--journal", type=Path, help="where to keep the journal (nowhere)")
    args = parser.parse_args()
    with serving(configuration(), args.journal) as server:
        tally = trio.run(load, args, server)
        server.end(tally)
    return tally.tell()


if __name__ == "__main__":
    sys.exit(main())
