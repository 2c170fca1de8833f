"""A client that leaves after each single step of its request leaves nothing behind."""

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
from tests.http.client import Call, form
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.sounds import sound_file, tone
from trio.testing import MockClock

from paraudio.engines import Audio
from paraudio.http import _sources

SOUND = base64.b64encode(sound_file()).decode()
VOICE = spec(slots=2, session_options={"run_ms": 100, "chunks": 3}, load_options={"load_ms": 50})

REQUESTS = {
    "speech": ("/v1/audio/speech", {"model": "voice", "input": "a"}),
    "events": ("/v1/audio/speech", {"model": "voice", "input": "a", "stream_format": "sse"}),
    "sound": ("/v1/audio/speech", {"model": "voice", "input": "a", "stream_format": "audio"}),
    "batch": ("/v1/tasks/batch", {"model": "voice", "requests": [{"text": "a"}, {"text": "b"}]}),
    "told": ("/v1/tasks/stream", {"model": "voice", "text": "a"}),
    "unload": ("/v1/tasks/unload_models", {"model_ids": ["voice", "ears"]}),
    "load": (
        "/v1/models/load",
        {"id": "new", "family": "simulated", "path": "/m", "task": "tts", "slots": 2},
    ),
}


SERVING = f"{Call.__module__}.{Call.run.__qualname__}"


class HangUp(trio.abc.Instrument):
    """Lets the client of a call leave before the n-th step of the task that serves it."""

    def __init__(self, step: int) -> None:
        self.left = step
        self.call: Call | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.call is not None and task.name == SERVING:
            self.left -= 1
            if self.left == 0:
                self.call.hang_up()


@pytest.mark.parametrize("kind", sorted(REQUESTS))
@pytest.mark.parametrize("warm", [True, False])
async def test_leaving_after_any_step_frees_everything(
    open_world: OpenWorld, autojump_clock: MockClock, kind: str, warm: bool
) -> None:
    path, body = REQUESTS[kind]
    completed = False
    for step in range(1, 200):
        async with open_world(VOICE, EARS, settings={"ui_management": True}) as world:
            if warm:
                await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
            hang_up = HangUp(step)
            trio.lowlevel.add_instrument(hang_up)
            hang_up.call = call = world.client.start("POST", path, body)
            await call.ended.wait()
            trio.lowlevel.remove_instrument(hang_up)
            await world.wait_until(world.free)
            assert world.idle()
            again = await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
            assert again.status == 200
            completed = call.reply.complete
        if completed:
            break
    assert completed
    assert step > 5


@pytest.fixture
def endless_decoding(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Decoding that only ends when it is told to; set once it has begun."""
    begun = threading.Event()

    def decode(data: object, *, param: str, check: Callable[[], None], **more: Any) -> Audio:
        begun.set()
        for _ in range(5000):
            check()
            time.sleep(0.001)
        return Audio(tone(), 16_000)

    monkeypatch.setattr(_sources, "decode", decode)
    return begun


async def test_leaving_ends_the_decoding(
    open_world: OpenWorld, endless_decoding: threading.Event
) -> None:
    async with open_world(EARS) as world:
        body, headers = form(("model", None, b"ears"), ("file", "a", sound_file()))
        call = world.client.start("POST", "/v1/audio/transcriptions", body, headers)
        await trio.to_thread.run_sync(endless_decoding.wait)
        assert world.model("ears").active_slots == 1
        began = trio.current_time()
        call.hang_up()
        await call.ended.wait()
        assert trio.current_time() - began < 0.5
        assert world.idle()
