"""A Piper voice keeps every promise of a session, in each isolation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.engines.families.tiny_voices import load_of, tiny_config, tiny_model, write_voice

from paraudio.engines import Audio, Job
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.engines.isolation import Isolation, open_process_isolation, open_thread_isolation
from paraudio.testing import Case, LiveCase, check_session

COMMON = {
    "results",
    "interleaving",
    "invalid_job",
    "stop",
    "stream",
    "abandoned_stream",
    "live",
    "abandoned_live",
    "stopped_live",
    "wrong_live",
    "interleaved_live",
    "closing",
    "cancelled_load",
}


def case(isolation: Isolation, folder: Path) -> Case:
    path = write_voice(folder, tiny_model(endless=True), tiny_config())
    job = Job(task="tts", text="one. two? three", seed=11)
    return Case(
        isolation=isolation,
        family=PiperTtsFamily(),
        load=load_of(path),
        job=job,
        other=replace(job, seed=12),
        invalid=replace(job, speed=9.0),
        long=replace(job, text="one. quit. three."),
        live=LiveCase(
            job=replace(job, text=None),
            pieces=("one. tw", "o? th", "ree"),
            other=("fo", "ur"),
            wrong=Audio(np.zeros(100, np.float32), 16_000),
            invalid=replace(job, text=None, speed=9.0),
            slow_job=replace(job, text=None),
            slow="one. quit. three",
            whole=job,
        ),
    )


async def test_in_threads(tmp_path: Path) -> None:
    async with open_thread_isolation() as isolation:
        made = await check_session(case(isolation, tmp_path))
    assert set(made) == COMMON


@pytest.mark.process
async def test_in_processes(tmp_path: Path) -> None:
    async with open_process_isolation() as isolation:
        made = await check_session(case(isolation, tmp_path))
    assert set(made) == COMMON | {"crash", "crashed_live"}
