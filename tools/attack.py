"""Attacks a real server over raw sockets for a while, and checks what must hold whatever comes.

python -m tools.attack [--minutes 2] [--attackers 16] [--seed 1] [--tls] [--real] [--journal FILE]

Attackers break requests, cut them off at any byte, send them drop by drop, take no answer, put
many on a line, make noise of HTTP/2 frames, talk nonsense to realtime sessions, and load and unload
beside that; each leaves in order, half, or by a reset. A client that does nothing wrong asks all
the while. Then: nobody was told that the server is at fault, nobody waited for ever, the good
client was served, every slot and queue is empty soon after, memory, threads and descriptors do not
grow, the server ends by itself with code 0 and leaves nothing, its log has no error, and its
journal breaks no rule. `--real` takes real models in place of simulated ones; they are fetched if
they are not here.

Everything stays on this machine, and the run is bounded in time.
"""

import argparse
import random
import ssl
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import trio
from tests.certificates import certified
from tools.attackers import ATTACKS, Attacker, Target
from tools.served import Levels, Server, Tally, serving

GOOD_WITHIN_S: Final = 30.0
"""The good client's answer comes within this, whatever the others do."""

SIMULATED: Final[Sequence[dict[str, Any]]] = (
    {"id": "voice", "family": "simulated", "task": "tts", "slots": 2},
    {"id": "apart", "family": "simulated", "task": "tts", "slots": 2, "isolation": "process"},
    {"id": "ears", "family": "simulated", "task": "asr", "slots": 2, "isolation": "process"},
    {"id": "vad", "family": "simulated", "task": "vad", "slots": 2},
)
REAL: Final[Sequence[dict[str, Any]]] = (
    {"id": "voice", "family": "piper_tts", "path": "store:piper-joe", "task": "tts", "slots": 2},
    {
        "id": "apart",
        "family": "piper_tts",
        "path": "store:piper-joe",
        "task": "tts",
        "isolation": "process",
    },
    {"id": "ears", "family": "pocketsphinx_asr", "path": "store:pocketsphinx-en", "task": "asr"},
    {"id": "vad", "family": "silero_vad", "path": "store:silero-vad", "task": "vad", "slots": 2},
)
PACE: Final = {"session_options": {"run_ms": 20}}


def configuration(*, real: bool) -> dict[str, Any]:
    """A server that waits for nobody for long, so that an hour sees many."""
    simulated = [{"path": "", **model, **PACE} for model in SIMULATED]
    return {
        "parallel_jobs": True,
        "ui_management": True,
        "ui_enabled": True,
        "max_queued_requests": 64,
        "slow_client_timeout_ms": 2000,
        "hang_timeout_ms": 5000,
        "live_ingest": {"idle_timeout_ms": 3000, "total_timeout_ms": 20_000},
        "models": list(REAL) if real else simulated,
    }


async def behave(http: httpx.AsyncClient, tally: Tally) -> None:
    """A client that does nothing wrong, for as long as it is let."""
    while True:
        body = {"model": "voice", "input": "good morning", "busy_timeout_ms": 25_000}
        with trio.move_on_after(GOOD_WITHIN_S) as bound:
            answer = await http.post("/v1/audio/speech", json=body)
            tally.seen[f"the good client: {answer.status_code}"] += 1
            if answer.status_code not in {200, 503}:
                tally.wrong.append(f"the good client: {answer.status_code} {answer.text[:300]}")
        if bound.cancelled_caught:
            tally.wrong.append(f"the good client had no answer within {GOOD_WITHIN_S} s")
        await trio.sleep(0.1)


async def load(args: argparse.Namespace, server: Server, trusted: ssl.SSLContext | None) -> Tally:
    """The whole run against a server that was started."""
    tally, levels, process = Tally(), Levels(), psutil.Process(server.process.pid)
    seeds = random.Random(args.seed)
    target = Target(server.port, trusted)
    scheme = "http" if trusted is None else "https"
    async with httpx.AsyncClient(
        base_url=f"{scheme}://localhost:{server.port}",
        verify=trusted or False,
        timeout=90,
        trust_env=False,
    ) as http:
        await server.wait_ready(http)
        with trio.move_on_after(60 * args.minutes):
            async with trio.open_nursery() as nursery:
                for _ in range(args.attackers):
                    attacker = Attacker(target, random.Random(seeds.random()), tally)
                    nursery.start_soon(attacker.attack)
                nursery.start_soon(behave, http, tally)
                nursery.start_soon(levels.watch, process)
        await server.wait_idle(http, tally)
    levels.judge(tally, descriptors=args.attackers)
    tally.wrong += [f"nobody tried {each}" for each in ATTACKS if not tally.seen[each]]
    return tally


@contextmanager
def certificates(*, wanted: bool) -> Iterator[tuple[dict[str, Any], ssl.SSLContext | None]]:
    """Settings for TLS, and who trusts them; nothing of both where it is not wanted."""
    if not wanted:
        yield {}, None
        return
    with tempfile.TemporaryDirectory(prefix="paraudio-tool-") as folder:
        own = certified(Path(folder))
        yield {"tls": own.setting}, own.client()


def main() -> int:
    """Run it all; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long (2)")
    parser.add_argument("--attackers", type=int, default=16, help="how many at once (16)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (1)")
    parser.add_argument("--tls", action="store_true", help="over TLS")
    parser.add_argument("--real", action="store_true", help="with real models")
    parser.add_argument("--journal", type=Path, help="where to keep the journal (nowhere)")
    args = parser.parse_args()
    with (
        certificates(wanted=args.tls) as (tls, trusted),
        serving(configuration(real=args.real) | tls, args.journal) as server,
    ):
        tally = trio.run(load, args, server, trusted)
        server.end(tally)
    return tally.tell()


if __name__ == "__main__":
    sys.exit(main())
