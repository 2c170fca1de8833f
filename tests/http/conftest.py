"""A whole application over simulated models, in virtual time and without sockets."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pytest
import trio
from tests.http.client import Client, open_client
from tests.http.family import ScriptedFamily

from paraudio.config import Settings
from paraudio.engines import Family
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import open_thread_isolation
from paraudio.http import create_app
from paraudio.journal import Event, Journal, Kind
from paraudio.lifecycle import ModelSnapshot, Runtime, RuntimeSettings
from paraudio.spec import ModelSpec
from paraudio.store import Shelf
from paraudio.testing import Gates, VirtualIsolation, open_virtual_isolation


@dataclass
class World:
    """Everything that a test of a route touches."""

    client: Client
    runtime: Runtime
    gates: Gates
    isolation: VirtualIsolation
    journal: Journal

    @property
    def events(self) -> list[Event]:
        """Every event so far."""
        return self.journal.since(0)

    def model(self, model_id: str = "voice") -> ModelSnapshot:
        return self.runtime.model(model_id)

    def free(self) -> bool:
        """Whether every counter of every model is back at zero."""
        counters = [
            (m.active_slots, m.queued_requests, m.queued_managers, m.stuck_slots)
            for m in self.runtime.snapshot().models
        ]
        return not any(map(any, counters))

    def idle(self) -> bool:
        """Whether the models are free, and no request is known."""
        return self.free() and not self.client.app.core.in_flight

    async def wait_until(self, true: Callable[[], bool]) -> None:
        """Wait for a condition over the runtime, woken by its changes."""
        while not true():
            await self.runtime.wait_change(self.runtime.snapshot().revision)

    def kinds(self, kind: Kind) -> list[Event]:
        return [event for event in self.events if event.kind is kind]


OpenWorld: TypeAlias = Callable[..., AbstractAsyncContextManager[World]]

VOICE = ModelSpec(id="voice", family="simulated", path="/models/voice", task="tts")
EARS = ModelSpec(id="ears", family="simulated", path="/models/ears", task="asr")


def spec(base: ModelSpec = VOICE, **changes: Any) -> ModelSpec:
    """One of the two models with changes."""
    return replace(base, **changes)


@asynccontextmanager
async def _open(
    *models: ModelSpec,
    settings: Mapping[str, Any] | None = None,
    families: Mapping[str, Family] | None = None,
    runtime: Mapping[str, Any] | None = None,
    threads: bool = False,
    ring: int = 100_000,
    shelf: Shelf | None = None,
) -> AsyncIterator[World]:
    """Open a world: in virtual time, or with backends in threads."""
    gates = Gates()
    journal = Journal(ring=ring)
    known: dict[str, Family] = {"simulated": SimulatedFamily(), **(families or {})}
    configuration = Settings(**{"parallel_jobs": True, **(settings or {})})

    async with (
        open_virtual_isolation(gates=gates) as isolation,
        open_thread_isolation() as real,
        trio.open_nursery() as nursery,
    ):
        core = Runtime(
            RuntimeSettings(parallel_jobs=configuration.parallel_jobs, **(runtime or {})),
            families=known,
            isolations={"thread": real if threads else isolation},
            record=journal,
            revision=lambda: journal.revision,
        )
        for model in models or (VOICE, EARS):
            core.add(model)
        await nursery.start(core.run)
        app = create_app(core, configuration, families=known, journal=journal, shelf=shelf)
        async with open_client(app) as client:
            yield World(client, core, gates, isolation, journal)
        core.stop()


@asynccontextmanager
async def _open_scripted(
    family: ScriptedFamily, *models: ModelSpec, **settings: Any
) -> AsyncIterator[World]:
    """Open a world of models whose results the test writes, in real time."""
    known = [replace(model, family="scripted") for model in models]
    async with _open(
        *known, settings=settings, families={"scripted": family}, threads=True
    ) as world:
        yield world


@pytest.fixture
def open_scripted() -> OpenWorld:
    """Opens worlds of a scripted family."""
    return _open_scripted


@pytest.fixture
def open_world() -> OpenWorld:
    """Opens worlds; the test takes ``autojump_clock`` too, for its time to be virtual."""
    return _open


@pytest.fixture
async def world(open_world: OpenWorld) -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened
