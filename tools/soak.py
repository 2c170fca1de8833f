"""Puts a real server under mixed load for a while, and checks what must hold under any load.

python tools/soak.py [--minutes 2] [--clients 12] [--seed 1] [--journal FILE]

Clients speak, whole and streamed, with simulated models in threads and in processes; some bring
bounds too short to keep, some hang up in the middle. An operator meanwhile loads, reconfigures and
unloads. Then: every answer was one that the contract allows, every slot and queue is empty soon
after, memory, threads and descriptors are where they were when the server had warmed up, it ends by
itself with code 0, and its journal breaks no rule.

Everything stays on this machine, and the run is bounded in time and in requests.
"""

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import psutil
import trio

PARAUDIO: Final = str(Path(sys.executable).with_name("paraudio"))
MODELS: Final = ("quick", "wide", "apart")
SPEECH: Final = "/v1/audio/speech"
READY_WITHIN_S: Final = 60
IDLE_WITHIN_S: Final = 30
ENDS_WITHIN_S: Final = 20
SAMPLE_S: Final = 2.0
GROWTH: Final = 1.05
"""How much more memory the last third of the run may have than the second."""

GROWTH_MB: Final = 8.0
"""What a short run may have beside that: the journal's ring in memory fills up once."""

PATHS: Final = 16
"""Configurations of a model; the simulated family remembers each of them for ever."""


@dataclass
class Tally:
    """What happened: answers by kind, and what should not have been."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, what: str, answer: httpx.Response, allowed: set[int]) -> None:
        """Count an answer, and keep it if the contract does not allow it."""
        self.answers[f"{what} {answer.status_code}"] += 1
        refusal = answer.status_code == 503 and "retry-after" in answer.headers
        if answer.status_code not in allowed and not refusal:
            self.wrong.append(f"{what}: {answer.status_code} {answer.text[:300]}")


def configuration(port: int, journal: Path) -> dict[str, Any]:
    """A server of simulated models: one slot, four slots, and two slots in processes."""
    common = {"family": "simulated", "path": "", "task": "tts"}
    return {
        "port": port,
        "parallel_jobs": True,
        "ui_management": True,
        "max_queued_requests": 32,
        "max_loaded_models": 2,
        "journal": str(journal),
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
            tally.note(model, await http.post(SPEECH, json=body), {200})
        if scope.cancelled_caught:
            tally.answers[f"{model} hung up"] += 1


async def operator(http: httpx.AsyncClient, tally: Tally, chance: random.Random) -> None:
    """Loads, reconfigures and unloads, one thing after the other."""
    while True:
        await trio.sleep(chance.uniform(0.05, 0.5))
        model = chance.choice(MODELS)
        match chance.randrange(4):
            case 0:
                answer = await http.post("/v1/models/unload", json={"id": model})
                tally.note("unload", answer, {200})
            case 1:
                names = [chance.choice(MODELS) for _ in range(3)]
                answer = await http.post("/v1/tasks/unload_models", json={"model_ids": names})
                tally.note("unload_models", answer, {200})
            case 2:
                spec: dict[str, Any] = {
                    "id": model,
                    "family": "simulated",
                    "path": f"/soak/{chance.randrange(PATHS)}",
                }
                spec |= {"task": "tts", "slots": chance.choice((1, 2, 4))}
                tally.note("load", await http.post("/v1/models/load", json=spec), {200})
            case _:
                tally.note("list", await http.get("/v1/models"), {200})


async def wait_ready(http: httpx.AsyncClient) -> None:
    """Poll until the server is ready."""
    with trio.fail_after(READY_WITHIN_S):
        while True:
            try:
                if (await http.get("/health/ready")).is_success:
                    return
            except httpx.TransportError:
                pass
            await trio.sleep(0.05)


async def wait_idle(http: httpx.AsyncClient, tally: Tally) -> None:
    """Poll until no slot is held and nobody waits, as a clean end needs."""
    counters = ("active_slots", "queued_requests", "queued_managers")
    models: list[dict[str, Any]] = []
    with trio.move_on_after(IDLE_WITHIN_S):
        while True:
            models = (await http.get("/v1/models")).json()["data"]
            if not any(model[counter] for model in models for counter in counters):
                return
            await trio.sleep(0.05)
    tally.wrong.append(f"not idle {IDLE_WITHIN_S} s after the last client: {json.dumps(models)}")


@dataclass
class Levels:
    """What the server itself, without its workers, holds of the system, sampled.

    Attributes:
        memory: Resident memory, in MB.
        threads: How many it has.
        descriptors: How many files it has open.
    """

    memory: list[float] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    async def watch(self, process: psutil.Process) -> None:
        """Sample for as long as it is let."""
        while True:
            self.memory.append(process.memory_info().rss / 1e6)
            self.threads.append(process.num_threads())
            self.descriptors.append(process.num_fds())
            await trio.sleep(SAMPLE_S)

    def judge(self, tally: Tally) -> None:
        """Compare the last third of the run with the one before."""
        for name, samples, slack in (
            ("memory in MB", self.memory, GROWTH_MB),
            ("threads", self.threads, 4.0),
            ("descriptors", self.descriptors, 8.0),
        ):
            third = len(samples) // 3
            if not third:
                continue
            before, after = (median(part) for part in (samples[third:-third], samples[-third:]))
            sys.stdout.write(f"{name}: {before:.1f}, and {after:.1f} in the last third\n")
            if after > before * GROWTH + slack:
                tally.wrong.append(f"{name} grew from {before:.1f} to {after:.1f}")


async def load(args: argparse.Namespace, port: int, server: subprocess.Popen[bytes]) -> Tally:
    """The whole run against a server that was started."""
    tally, levels, process = Tally(), Levels(), psutil.Process(server.pid)
    # The seed makes a run repeatable as far as the clock lets it.
    seeds = random.Random(args.seed)
    limits = httpx.Limits(max_connections=None)
    address = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(
        base_url=address, limits=limits, timeout=90, trust_env=False
    ) as http:
        await wait_ready(http)
        with trio.move_on_after(60 * args.minutes):
            async with trio.open_nursery() as nursery:
                for _ in range(args.clients):
                    nursery.start_soon(client, http, tally, random.Random(seeds.random()))
                nursery.start_soon(operator, http, tally, random.Random(seeds.random()))
                nursery.start_soon(levels.watch, process)
        await wait_idle(http, tally)
    levels.judge(tally)
    return tally


def judge(server: subprocess.Popen[bytes], journal: Path, tally: Tally) -> None:
    """End the server, and add what its end and its journal say."""
    server.send_signal(signal.SIGTERM)
    try:
        code = server.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        tally.wrong.append(f"the server did not end within {ENDS_WITHIN_S} s")
        return
    if code != 0:
        tally.wrong.append(f"the server ended with {code}")
    checked = subprocess.run(
        [PARAUDIO, "verify", str(journal)], capture_output=True, text=True, check=False
    )
    sys.stdout.write(checked.stdout[-2000:])
    if checked.returncode != 0:
        tally.wrong.append(f"the journal breaks a rule:\n{checked.stdout}{checked.stderr}")


def main() -> int:
    """Run it all; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long (2)")
    parser.add_argument("--clients", type=int, default=12, help="how many at once (12)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (1)")
    parser.add_argument("--journal", type=Path, help="where to keep the journal (nowhere)")
    args = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="paraudio-soak-") as folder:
        journal, config = (
            args.journal or Path(folder) / "journal.jsonl",
            Path(folder) / "server.json",
        )
        config.write_text(json.dumps(configuration(port, journal)), encoding="utf-8")
        with (Path(folder) / "log").open("wb+") as log:
            server = subprocess.Popen(
                [PARAUDIO, "serve", "--config", str(config)], stdout=log, stderr=log
            )
            try:
                tally = trio.run(load, args, port, server)
                judge(server, journal, tally)
            finally:
                server.kill()
                server.wait()
                log.seek(0)
                sys.stdout.write(log.read()[-3000:].decode(errors="replace"))
    for answer, count in sorted(tally.answers.items()):
        sys.stdout.write(f"{count:7} {answer}\n")
    for line in tally.wrong[:20]:
        sys.stdout.write(f"WRONG {line}\n")
    sys.stdout.write(f"{sum(tally.answers.values())} answers, {len(tally.wrong)} wrong\n")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
