"""What guests of a house do with a model, each in his manner."""

from typing import Literal

import trio

from paraudio.engines import Job
from paraudio.lifecycle import Use
from paraudio.spec import Json

Manner = Literal[
    "run",
    "fail",
    "bad",
    "twice",
    "stream",
    "glance",
    "batch",
    "live",
    "late",
    "idle",
    "hold",
]


async def behave(use: Use, manner: Manner, name: str, run_ms: int) -> None:
    """What a guest does with a model."""
    if manner == "hold":
        await trio.sleep(run_ms / 1000)
        return
    await use.ready()
    match manner:
        case "idle":
            await trio.sleep(run_ms / 1000)
        case "late":
            await trio.sleep(run_ms / 1000)
            await use.run(_job(name))
        case "twice":
            await use.run(_job(name, run_ms=run_ms))
            await use.run(_job(name, run_ms=run_ms))
        case "batch":
            jobs = [_job(f"{name} {index}", run_ms=run_ms * index) for index in range(3)]
            async with use.run_batch(jobs) as results:
                assert {index async for index, _ in results} == {0, 1, 2}
        case "live":
            await _live(use, name, run_ms)
        case "stream" | "glance":
            await _stream(use, name, run_ms, glance=manner == "glance")
        case _:
            text = "" if manner == "bad" else name
            result = await use.run(_job(text, run_ms=run_ms, fail=manner == "fail"))
            made_by = result.artifacts
            assert (made_by["path"], made_by["text"]) == (use.spec.path, name)


async def _stream(use: Use, name: str, run_ms: int, *, glance: bool) -> None:
    async with use.stream(_job(name, run_ms=run_ms)) as events:
        async for event in events:
            if glance:
                return
            if event.result is not None:
                assert event.result.artifacts["text"] == name


async def _live(use: Use, name: str, run_ms: int) -> None:
    """A guest who says what he wants word by word, and takes his time between the words."""
    async with use.live(Job(task="tts", options={"run_ms": run_ms})) as live:
        for word in (name, " again"):
            await live.feed(word)
            await trio.sleep(run_ms / 2000)
        *_, last = await live.finish()
    assert last.result is not None
    assert last.result.artifacts["text"] == f"{name} again"


def _job(text: str, **options: Json) -> Job:
    return Job(task="tts", text=text, options=options)
