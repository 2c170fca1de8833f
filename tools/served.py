"""A real server under a tool: started, watched while it runs, ended, and its journal replayed."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import psutil
import trio

PARAUDIO: Final = str(Path(sys.executable).with_name("paraudio"))
READY_WITHIN_S: Final = 60
IDLE_WITHIN_S: Final = 30
ENDS_WITHIN_S: Final = 20
GONE_WITHIN_S: Final = 5.0
SAMPLE_S: Final = 2.0
WARM: Final = 15
"""Samples in a third of a run that is long enough to judge: before that it warms up."""
GROWTH: Final = 1.05
"""How much more memory the last third of the run may have than the second."""
GROWTH_MB: Final = 8.0
"""What a short run may have beside that: the journal's ring in memory fills up once."""

COUNTERS: Final = ("active_slots", "queued_requests", "queued_managers", "stuck_slots")
_LISTENING: Final = re.compile(rb"listening on \S+:(\d+)\s")
SHARED: Final = Path("/dev/shm")  # noqa: S108 - where shared memory is


@dataclass
class Tally:
    """What happened: how often, and what should not have been."""

    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def tell(self) -> int:
        """Print it all; 1 if anything was wrong."""
        for what, count in sorted(self.seen.items()):
            sys.stdout.write(f"{count:7} {what}\n")
        for line in self.wrong[:20]:
            sys.stdout.write(f"WRONG {line}\n")
        sys.stdout.write(f"{sum(self.seen.values())} in all, {len(self.wrong)} wrong\n")
        return int(bool(self.wrong))


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

    def judge(self, tally: Tally, *, descriptors: float) -> None:
        """Compare the last third of the run with the one before.

        Args:
            tally: Where it is noted.
            descriptors: By how many those may differ, as connections come and go.
        """
        for name, samples, slack in (
            ("memory in MB", self.memory, GROWTH_MB),
            ("threads", self.threads, 4.0),
            ("descriptors", self.descriptors, descriptors),
        ):
            third = len(samples) // 3
            if third < WARM:
                continue
            before, after = (median(part) for part in (samples[third:-third], samples[-third:]))
            sys.stdout.write(f"{name}: {before:.1f}, and {after:.1f} in the last third\n")
            if after > before * GROWTH + slack:
                tally.wrong.append(f"{name} grew from {before:.1f} to {after:.1f}")


class Server:
    """One server of this environment, with its files in a folder of its own.

    Attributes:
        port: Where it listens on this machine; 0 until `wait_listening`.
        process: It.
    """

    def __init__(self, folder: Path, journal: Path, settings: Mapping[str, Any]) -> None:
        self.port = 0
        self._journal = journal
        self._log = folder / "log"
        self._spool = folder / "tmp"
        self._spool.mkdir()
        self._shared = set(SHARED.iterdir()) if SHARED.exists() else set()
        config = folder / "server.json"
        own = {"port": 0, "journal": str(journal)}
        config.write_text(json.dumps({**settings, **own}), encoding="utf-8")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [PARAUDIO, "serve", "--config", str(config)],
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": str(self._spool)},
            )

    def wait_listening(self) -> None:
        """Poll its log until it tells where it listens; blocks.

        Raises:
            TimeoutError: It does not, or has ended.
        """
        deadline = time.monotonic() + READY_WITHIN_S
        while not (found := _LISTENING.search(self._log.read_bytes())):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError("the server does not listen")
            time.sleep(0.05)
        self.port = int(found[1])

    async def wait_ready(self, http: httpx.AsyncClient) -> None:
        """Poll until it is ready."""
        with trio.fail_after(READY_WITHIN_S):
            while True:
                try:
                    if (await http.get("/health/ready")).is_success:
                        return
                except httpx.TransportError:
                    pass
                await trio.sleep(0.05)

    async def wait_idle(self, http: httpx.AsyncClient, tally: Tally) -> None:
        """Poll until no slot is held and nobody waits, as a clean end needs."""
        models: list[dict[str, Any]] = []
        with trio.move_on_after(IDLE_WITHIN_S):
            while True:
                models = (await http.get("/v1/models")).json()["data"]
                if not any(model[counter] for model in models for counter in COUNTERS):
                    return
                await trio.sleep(0.05)
        tally.wrong.append(f"not idle {IDLE_WITHIN_S} s after the last: {json.dumps(models)}")

    def end(self, tally: Tally, *, within_s: float = ENDS_WITHIN_S) -> None:
        """End it, and note what its end, its leavings, its log and its journal say against it."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            tally.wrong.append(f"it did not end within {within_s} s")
            return
        if code != 0:
            tally.wrong.append(f"it ended with {code}")
        _, alive = psutil.wait_procs(workers, timeout=GONE_WITHIN_S)
        left = [f"worker {worker.pid}" for worker in alive]
        left += [str(file) for file in self._spool.iterdir()]
        if SHARED.exists():
            left += [str(file) for file in set(SHARED.iterdir()) - self._shared]
        tally.wrong += [f"it left {what}" for what in left]
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        tally.wrong += [line for line in lines if " ERROR " in line or "Traceback" in line]
        self._replay(tally)

    def _replay(self, tally: Tally) -> None:
        checked = subprocess.run(
            [PARAUDIO, "verify", str(self._journal)], capture_output=True, text=True, check=False
        )
        sys.stdout.write(checked.stdout[-2000:])
        if checked.returncode != 0:
            tally.wrong.append(f"the journal breaks a rule:\n{checked.stdout}{checked.stderr}")

    def kill(self) -> None:
        """Make sure that it is gone, and show the end of its log."""
        self.process.kill()
        self.process.wait()
        sys.stdout.write(self._log.read_bytes()[-3000:].decode(errors="replace"))


@contextmanager
def serving(settings: Mapping[str, Any], journal: Path | None = None) -> Iterator[Server]:
    """Start a server, wait until it listens, and leave nothing of it.

    Args:
        settings: Its configuration; the port and the journal are added.
        journal: Where to keep its journal; None for nowhere.
    """
    with tempfile.TemporaryDirectory(prefix="paraudio-tool-") as folder:
        server = Server(Path(folder), journal or Path(folder) / "journal.jsonl", settings)
        try:
            server.wait_listening()
            yield server
        finally:
            server.kill()
