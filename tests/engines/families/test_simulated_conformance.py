"""The simulated family keeps every promise of a session, in each isolation."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
import trio.testing

from paraudio.engines import Audio, Job, Load, Piece, Result
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import (
    Isolation,
    open_process_isolation,
    open_thread_isolation,
)
from paraudio.spec import Task
from paraudio.testing import Case, LiveCase, check_session, open_virtual_isolation, same_result

COMMON = {
    "results",
    "interleaving",
    "invalid_job",
    "stop",
    "stream",
    "abandoned_stream",
    "batch",
    "live",
    "abandoned_live",
    "stopped_live",
    "wrong_live",
    "interleaved_live",
    "failure",
    "closing",
    "cancelled_load",
    "hang",
}
SOUND = Audio(np.linspace(-1, 1, 1600, dtype=np.float32), 16_000)


def load(task: Task) -> Load:
    return Load(
        path="/models/sim",
        task=task,
        mode="offline",
        config=None,
        weight=None,
        options={"load_ms": 30},
        session_options={"run_ms": 5},
        model_id="sim",
    )


def case(isolation: Isolation, task: Task, *, hang_s: float) -> Case:
    audio = None if task == "tts" else SOUND
    job = Job(task=task, text="a tone", audio=audio)
    hanging = replace(load(task), session_options={"ignore_cancel": True})
    return Case(
        isolation=isolation,
        family=SimulatedFamily(),
        load=load(task),
        job=job,
        other=replace(
            job,
            text="another tone",
            audio=None if audio is None else Audio(SOUND.samples[::2], 8_000),
        ),
        invalid=replace(job, options={"run_ms": -1}),
        long=replace(job, options={"run_ms": 30_000, "chunks": 1_000}),
        failing=replace(job, options={"fail": True}),
        live=live(task),
        same=lambda one, other: same_result(_anonymous(one), _anonymous(other)),
        hanging=(hanging, replace(job, options={"run_ms": round(hang_s * 1000)})),
    )


def live(task: Task) -> LiveCase:
    if task == "tts":
        return live_case(Job(task=task), ("one, ", "two, ", "three"), ("four",), SOUND)
    loud = np.full(26_000, 0.5, np.float32)
    pieces = tuple(Audio(loud[at : at + 9_000], 16_000) for at in range(0, 26_000, 9_000))
    # What an ear for words hears live are words of its own.
    whole = None if task == "asr" else Job(task=task, audio=Audio(loud, 16_000))
    other = tuple(Audio(piece.samples[:8_000], 8_000) for piece in (*pieces, *pieces))
    return replace(live_case(Job(task=task), pieces, other, "words"), whole=whole)


def live_case(
    job: Job, pieces: tuple[Piece, ...], other: tuple[Piece, ...], wrong: Piece
) -> LiveCase:
    return LiveCase(
        job=job,
        pieces=pieces,
        other=other,
        wrong=wrong,
        invalid=replace(job, options={"run_ms": -1}),
        slow_job=replace(job, options={"run_ms": 30_000}),
        slow=pieces[0],
    )


def _anonymous(result: Result) -> Result:
    """The result without the number of the session that its text names."""
    text = re.sub(r"session \d+", "session", result.text or "")
    return replace(result, text=text, segments=())


@asynccontextmanager
async def virtual(hang_timeout_s: float) -> AsyncIterator[Isolation]:
    async with open_virtual_isolation(hang_timeout_s=hang_timeout_s) as isolation:
        yield isolation


@asynccontextmanager
async def virtual_that_kills(hang_timeout_s: float) -> AsyncIterator[Isolation]:
    async with open_virtual_isolation(hang_timeout_s=hang_timeout_s, can_kill=True) as isolation:
        yield isolation


@pytest.mark.parametrize("task", ["tts", "asr", "vad", "diar"])
@pytest.mark.parametrize("opening", [virtual, virtual_that_kills])
async def test_in_virtual_time(
    task: Task, opening: object, autojump_clock: trio.testing.MockClock
) -> None:
    kills = opening is virtual_that_kills
    async with (virtual_that_kills if kills else virtual)(5.0) as isolation:
        made = await check_session(case(isolation, task, hang_s=60.0))
    assert set(made) == (COMMON | {"crash", "crashed_live"} if kills else COMMON)


@pytest.mark.parametrize("task", ["tts", "asr", "vad", "diar"])
async def test_in_threads(task: Task) -> None:
    async with open_thread_isolation(hang_timeout_s=0.2) as isolation:
        made = await check_session(case(isolation, task, hang_s=1.0))
    assert set(made) == COMMON


@pytest.mark.process
async def test_in_processes() -> None:
    async with open_process_isolation(hang_timeout_s=0.2) as isolation:
        made = await check_session(case(isolation, "asr", hang_s=600.0))
    assert set(made) == COMMON | {"crash", "crashed_live"}
