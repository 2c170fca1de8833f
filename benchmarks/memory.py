"""Whether memory comes back: a model that is loaded, used and unloaded again and again.

Run with ``python -m benchmarks.memory [--cycles 200] [--model piper-joe] [--isolation thread]``.
It serves the model with ``paraudio serve`` (piper-joe is fetched first if the store lacks it), lets
it speak once in each cycle, and prints the resident memory of the server, its workers not included,
after the unload. The code is 1 where the last level is more than 5 % above that after the tenth
cycle, or, with processes, above the level before the first.
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

MEGABYTE: Final = 10**6
WARM: Final = 10
"""Cycles after which everything that is made once is there."""

ALLOWED: Final = 1.05
PATIENCE_S: Final = 120


def spec(model: str) -> dict[str, Any]:
    """The model object."""
    if model == "simulated":
        load = {"memory_mb": 64}
        return {"id": "m", "family": "simulated", "path": "", "task": "tts", "load_options": load}
    return {"id": "m", "family": "piper_tts", "path": f"store:{model}", "task": "tts"}


@contextlib.contextmanager
def serving(model: str, isolation: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve the model on a free port; gives the process and its URL."""
    with tempfile.TemporaryDirectory(prefix="paraudio-memory-") as folder:
        config = Path(folder, "server.json")
        settings = {"port": 0, "ui_management": True, "isolation": isolation}
        config.write_text(json.dumps({**settings, "models": [spec(model)]}), encoding="utf-8")
        log = Path(folder, "log")
        with log.open("w", encoding="utf-8") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "paraudio", "serve", "--config", str(config)],
                stderr=said,
                text=True,
            )
        try:
            yield process, _url(process, log)
            process.send_signal(signal.SIGTERM)
            if process.wait(PATIENCE_S) != 0:
                raise RuntimeError(f"the server ended with {process.returncode}")
        finally:
            process.kill()
            process.wait()


def _url(process: subprocess.Popen[str], log: Path) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        if "listening on " in (text := log.read_text(encoding="utf-8")):
            return text.partition("listening on ")[2].split()[0]
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text(encoding='utf-8')}")


def levels(model: str, isolation: str, cycles: int) -> list[float]:
    """The resident memory before the first cycle and after each, in MB."""
    with serving(model, isolation) as (process, url):
        server = psutil.Process(process.pid)

        def level() -> float:
            return float(server.memory_info().rss) / MEGABYTE

        found = [level()]
        with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as http:
            for cycle in range(cycles):
                body = {"model": "m", "input": "The weather is nice and the birds are singing."}
                http.post("/v1/audio/speech", json=body).raise_for_status()
                http.post("/v1/models/unload", json={"id": "m"}).raise_for_status()
                if server.children():
                    raise RuntimeError("an unloaded model has a worker")
                found.append(level())
                if not cycle % 20:
                    print(f"  after {cycle + 1:3}: {found[-1]:.1f} MB", flush=True)
        return found


def judge(found: list[float], isolation: str) -> str | None:
    """What is wrong with the levels, or None."""
    last = min(found[-3:])  # a moment's garbage is no leak
    before = max(found[1 : WARM + 1])
    if last > before * ALLOWED:
        return f"{last:.1f} MB at the end, {before:.1f} MB in the first {WARM} cycles"
    # The client's first requests, whatever they ask for, are in the level of a warm server.
    if isolation == "process" and last > max(found[0], found[1]) * ALLOWED:
        return f"{last:.1f} MB at the end, {found[0]:.1f} MB when idle"
    return None


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="Whether memory comes back after unloads.")
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--model", default="piper-joe", help="piper-joe, or simulated")
    parser.add_argument("--isolation", choices=("thread", "process"), default="thread")
    args = parser.parse_args()
    if args.cycles <= WARM:
        parser.error(f"--cycles must be more than {WARM}")
    began = time.monotonic()
    found = levels(args.model, args.isolation, args.cycles)
    seconds = (time.monotonic() - began) / args.cycles
    print(f"{args.model}, {args.isolation}, {args.cycles} cycles of {seconds:.2f} s; MB resident:")
    marks = (0, 1, WARM, args.cycles)
    print("  " + "  ".join(f"{mark}: {found[mark]:.1f}" for mark in marks))
    wrong = judge(found, args.isolation)
    print(f"  WRONG: {wrong}" if wrong else "  flat")
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main())
