"""What clients that leave cost those that stay.

Run with ``python -m benchmarks.goodput``; with ``--models`` it also uses a model of every other
family: piper-joe, PocketSphinx and silero-vad, fetched first if the store lacks them. It prints
whole answers a second for clients that stay, alone, and when each of their requests comes with one
whose client leaves after 100 ms.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
import trio
from benchmarks._served import Body, Server, job, leave, serving, simulated, whole

from paraudio.audio import encode
from paraudio.engines import Audio, Job, Load, Stop
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.store import Store, default_home

LEAVE_AFTER_S: Final = 0.1
SECONDS: Final = 8.0
VAD_S: Final = 60
"""Seconds of sound that a detector reads: enough for its run to outlast those who leave."""

SENTENCE: Final = "The weather is nice and the birds are singing."


def real(name: str, family: str, path: str, task: str) -> Body:
    """A model object of a real family, with two slots."""
    return {"id": name, "family": family, "path": path, "task": task, "slots": 2}


def hear(model: str, audio: Audio, folder: Path) -> Body:
    """The body of one job over a file of the server: its transport is not what is measured."""
    file = folder / f"{model}.flac"
    file.write_bytes(encode(audio, "flac"))
    return {"model": model, "request": {"audio": str(file)}}


async def answers(server: Server, body: Body, clients: int, *, leavers: bool) -> float:
    """Whole answers a second; with leavers, each request that stays comes with one that leaves.

    The time counts to the last answer, not to the end: slow work would come in steps otherwise.
    """
    began = last = time.monotonic()
    done = 0

    async def goes() -> None:
        stream = await server.send(body)
        with trio.move_on_after(LEAVE_AFTER_S):
            await whole(stream)
        leave(stream, reset=False)

    async def stays() -> None:
        nonlocal done, last
        while True:
            async with trio.open_nursery() as pair:
                if leavers:
                    pair.start_soon(goes)
                async with await server.send(body) as stream:
                    good = await whole(stream)
            done, last = done + good, time.monotonic()

    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(clients):
                nursery.start_soon(stays)
    return done / (last - began)


async def goodput(what: str, model: Body, body: Body, clients: int, **settings: object) -> None:
    """Compare the goodput of some clients alone, and with half of all requests leaving."""
    with serving(model, **settings) as server:
        name = str(model["id"])
        async with await server.send(body) as stream:
            assert await whole(stream), "the model does not work"
        pairs = []
        for _ in range(3):  # in turn, since the machine may slow down meanwhile
            alone = await answers(server, body, clients, leavers=False)
            await server.until(name, lambda seen: not seen["active_slots"])
            beside = await answers(server, body, clients, leavers=True)
            await server.until(name, lambda seen: not seen["active_slots"])
            pairs.append((beside / alone, alone, beside))
        await trio.to_thread.run_sync(server.stop)
        server.trace()
    ratio, alone, beside = sorted(pairs)[1]
    print(
        f"  {what:46} alone {alone:6.2f}/s   beside {beside:6.2f}/s   ratio {ratio:4.2f}   "
        f"({min(pairs)[0]:4.2f} to {max(pairs)[0]:4.2f})"
    )


def others(folder: Path) -> tuple[tuple[Body, Body], ...]:
    """A model of each family that is not simulated, and work for it of some 0.2 to 0.6 s."""
    joe = real("joe", "piper_tts", "store:piper-joe", "tts")
    load = Load(
        path=str(trio.from_thread.run(Store(default_home()).fetch, "piper-joe")),
        task="tts",
        mode="offline",
        config=None,
        weight=None,
        options={},
        session_options={},
    )
    session = PiperTtsFamily().load(load, Stop()).session()
    assert session is not None
    speech = session.run(session.prepare(Job(task="tts", text=SENTENCE)), Stop()).audio
    assert speech is not None
    noise = np.random.default_rng(0).normal(0, 0.01, VAD_S * 16_000).astype(np.float32)
    return (
        (joe, job("joe", SENTENCE)),
        (real("ears", "pocketsphinx_asr", "", "asr"), hear("ears", speech, folder)),
        (
            real("silero", "silero_vad", "store:silero-vad", "vad"),
            hear("silero", Audio(noise, 16_000), folder),
        ),
    )


async def main(folder: Path, *, models: bool) -> None:
    """Print everything."""
    families = await trio.to_thread.run_sync(others, folder) if models else ()
    for isolation in ("thread", "process"):
        for clients in (2, 8):
            what = f"simulated, {isolation}, 200 ms, 4 slots, {clients} stay"
            work = job("sim", run_ms=200)
            await goodput(what, simulated(slots=4), work, clients, isolation=isolation)
        for model, work in families:
            for clients in (1, 4):
                what = f"{model['family']}, {isolation}, 2 slots, {clients} stay"
                await goodput(
                    what, model, work, clients, isolation=isolation, allowed_paths=[str(folder)]
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What clients that leave cost.")
    parser.add_argument("--models", action="store_true", help="also measure the real families")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        trio.run(lambda: main(Path(made), models=arguments.models))
