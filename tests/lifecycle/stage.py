"""What the tests of the runtime share: a runtime in virtual time, and users who tell of it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import trio
import trio.testing

from paraudio.engines import Family, Job, Result, StreamEvent
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.engines.isolation import Isolation
from paraudio.errors import ParaudioError
from paraudio.journal import Checker, Event, Kind, Violation
from paraudio.lifecycle import ModelSnapshot, Runtime, RuntimeSettings, Unloaded, Use
from paraudio.spec import IsolationName, Json, ModelSpec
from paraudio.testing import Gates, VirtualIsolation, open_virtual_isolation

LOAD_OPTIONS = {option.name for option in SimulatedFamily.load_options}


def spec(
    model: str, slots: int = 1, *, path: str = "", lazy: bool = True, **options: Json
) -> ModelSpec:
    """A simulated model; options go to the load or to the sessions, where they belong."""
    bare = ModelSpec(
        id=model, family="simulated", path=path or f"/{model}", task="tts", slots=slots, lazy=lazy
    )
    return having(bare, **options)


def having(base: ModelSpec, **options: Json) -> ModelSpec:
    """The same model with further options."""
    load, session = dict(base.load_options), dict(base.session_options)
    for name, value in options.items():
        (load if name in LOAD_OPTIONS else session)[name] = value
    return replace(base, load_options=load, session_options=session)


def job(text: str, **options: Json) -> Job:
    """A job whose result names its text."""
    return Job(task="tts", text=text, options=options)


@dataclass
class Stage:
    """A running runtime, and tasks that use it; each is named and tells what happened when.

    A hook is called once, inside the step that records a transition of its kind.
    """

    runtime: Runtime
    isolation: VirtualIsolation
    gates: Gates
    nursery: trio.Nursery
    began: float
    told: list[tuple[str, str, float]] = field(default_factory=list)
    scopes: dict[str, trio.CancelScope] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    errors: dict[str, ParaudioError] = field(default_factory=dict)
    answers: dict[str, object] = field(default_factory=dict)
    journal: list[Event] = field(default_factory=list)
    hooks: dict[Kind, Callable[[], object]] = field(default_factory=dict)
    running: int = 0
    ended: trio.Event = field(default_factory=trio.Event)

    @property
    def now(self) -> float:
        """Seconds since the stage was opened."""
        return round(trio.current_time() - self.began, 6)

    def tell(self, name: str, what: str) -> None:
        """Note that something happened now."""
        self.told.append((name, what, self.now))

    def when(self, name: str, what: str) -> float:
        """When something happened, which happened once."""
        (at,) = [at for who, thing, at in self.told if (who, thing) == (name, what)]
        return at

    def ends(self) -> dict[str, tuple[str, float]]:
        """The last thing that each told, and when."""
        return {name: (what, at) for name, what, at in self.told}

    def made_by(self, name: str) -> tuple[str, int]:
        """The path and the generation that served a request."""
        artifacts = self.results[name].artifacts
        path, generation = artifacts["path"], artifacts["generation"]
        assert isinstance(path, str)
        assert isinstance(generation, int)
        return path, generation

    def model(self, name: str) -> ModelSnapshot:
        """One model now."""
        return self.runtime.model(name)

    def kinds(self, *kinds: Kind, model: str | None = None) -> list[Event]:
        """What the journal has of these kinds."""
        return [
            event for event in self.journal if event.kind in kinds and model in {None, event.model}
        ]

    def states(self, model: str) -> list[Json]:
        """The states that a model went through, the first left out."""
        return [event.facts["to"] for event in self.kinds(Kind.STATE, model=model)]

    def retirements(self) -> list[tuple[str | None, Json]]:
        """Which models were retired, and why, in order."""
        return [(event.model, event.facts["why"]) for event in self.kinds(Kind.RETIRED)]

    async def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Let a task begin and run until it, and everybody else, has to wait."""
        self.scopes[name] = scope = trio.CancelScope()

        async def run() -> None:
            self.running += 1
            try:
                with scope:
                    self.answers[name] = await work()
            except ParaudioError as error:
                self.errors[name] = error
                self.tell(name, error.code)
            finally:
                self.running -= 1
                self.ended.set()
            if scope.cancelled_caught:
                self.tell(name, "cancelled")

        self.nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()

    async def cancel(self, name: str) -> None:
        """Let a task's client go away, and everything happen that follows at once."""
        self.scopes[name].cancel()
        await trio.testing.wait_all_tasks_blocked()

    async def ask(
        self, name: str, model: str, *, bound_ms: int | None = None, **options: Json
    ) -> None:
        """Let a request come that runs one job."""

        async def work(use: Use) -> None:
            self.results[name] = await use.run(job(name, **options))

        await self._use(name, model, bound_ms, work)

    async def stream(self, name: str, model: str, **options: Json) -> None:
        """Let a request come that streams one job."""

        async def work(use: Use) -> None:
            async with use.stream(job(name, **options)) as events:
                async for event in events:
                    self._note(name, event)

        await self._use(name, model, None, work)

    async def batch(self, name: str, model: str, run_ms: Sequence[int]) -> None:
        """Let a request come that runs several jobs in one batch."""

        async def work(use: Use) -> None:
            jobs = [job(f"{name}{index}", run_ms=each) for index, each in enumerate(run_ms)]
            async with use.run_batch(jobs) as results:
                async for index, result in results:
                    self.results[f"{name}{index}"] = result
                    self.tell(name, f"result {index}")

        await self._use(name, model, None, work)

    async def hold(self, name: str, model: str, *, seconds: float, ready: bool = True) -> None:
        """Let a request come that holds its slot without running anything."""

        async def work(use: Use) -> None:
            await trio.sleep(seconds)

        await self._use(name, model, None, work, ready=ready)

    async def register(self, name: str, new: ModelSpec, *, bound_ms: int | None = None) -> None:
        """Let a registration come."""

        async def work() -> bool:
            changed = await self.runtime.register(new, bound_ms=bound_ms, request=name)
            self.tell(name, "reconfigured" if changed else "loaded")
            return changed

        await self.start(name, work)

    async def unload(self, name: str, model: str, *, bound_ms: int | None = None) -> None:
        """Let an unload come."""

        async def work() -> None:
            await self.runtime.unload(model, bound_ms=bound_ms, request=name)
            self.tell(name, "unloaded")

        await self.start(name, work)

    async def unload_many(
        self, name: str, ids: Sequence[str] | None, *, fence: bool = False
    ) -> None:
        """Let a bulk unload come."""

        async def work() -> Unloaded:
            answer = await self.runtime.unload_many(ids, fence=fence, request=name)
            self.tell(name, "unloaded")
            return answer

        await self.start(name, work)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due by then."""
        await trio.sleep(seconds)
        await trio.testing.wait_all_tasks_blocked()

    async def done(self) -> None:
        """Wait until every task that was started has ended, and its effects have too."""
        while self.running:
            self.ended = trio.Event()
            await self.ended.wait()
        await trio.testing.wait_all_tasks_blocked()

    def assert_quiet(self) -> None:
        """Nobody holds anything or waits for anything, and pools agree with states."""
        for model in self.runtime.snapshot().models:
            counters = (
                model.active_slots,
                model.queued_requests,
                model.queued_managers,
                model.stuck_slots,
            )
            assert counters == (0, 0, 0, 0), model
            assert (model.state, model.loaded) in {("ready", True), ("unloaded", False)}, model

    async def _use(
        self,
        name: str,
        model: str,
        bound_ms: int | None,
        work: Callable[[Use], Awaitable[None]],
        *,
        ready: bool = True,
    ) -> None:
        async def whole() -> None:
            async with self.runtime.use(model, request=name, bound_ms=bound_ms) as use:
                self.tell(name, "granted")
                if ready:
                    await use.ready()
                    self.tell(name, "ready")
                await work(use)
                self.tell(name, "done")

        await self.start(name, whole)

    def _note(self, name: str, event: StreamEvent) -> None:
        if event.result is not None:
            self.results[name] = event.result
        self.tell(name, "piece" if event.result is None else "whole")


async def judge(journal: Sequence[Event], max_loaded_models: int) -> list[Violation]:
    """Check a journal, and let others run in between: a day makes a long one."""
    checker = Checker(max_loaded_models=max_loaded_models, tolerance_s=0.001)
    for event in journal:
        checker.see(event)
        if event.seq % 500 == 0:
            await trio.lowlevel.checkpoint()
    checker.end()
    return checker.violations


@asynccontextmanager
async def open_stage(
    *specs: ModelSpec,
    hang_timeout_s: float = 10.0,
    can_kill: bool = False,
    parallel_jobs: bool = True,
    free_memory: Callable[[], int] | None = lambda: 2**40,
    family: Family | None = None,
    wrap: Callable[[Isolation], Isolation] | None = None,
    isolations: Sequence[IsolationName] = ("thread",),
    busy_timeout_ms: int = 300_000,
    max_queued_requests: int = 0,
    max_loaded_models: int = 0,
    idle_unload_ms: int = 0,
    min_free_memory_mb: int = 0,
) -> AsyncIterator[Stage]:
    """Run a runtime with these models; leaving stops it and checks that nothing is left of it."""
    gates, journal = Gates(), list[Event]()
    hooks: dict[Kind, Callable[[], object]] = {}

    def record(kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        journal.append(Event(len(journal) + 1, trio.current_time(), kind, model, facts))
        if kind in hooks:
            hooks.pop(kind)()

    async with (
        open_virtual_isolation(
            hang_timeout_s=hang_timeout_s, can_kill=can_kill, gates=gates
        ) as isolation,
        trio.open_nursery() as nursery,
    ):
        wrapped: Isolation = isolation if wrap is None else wrap(isolation)
        runtime = Runtime(
            RuntimeSettings(
                parallel_jobs=parallel_jobs,
                hang_timeout_ms=round(hang_timeout_s * 1000),
                busy_timeout_ms=busy_timeout_ms,
                max_queued_requests=max_queued_requests,
                max_loaded_models=max_loaded_models,
                idle_unload_ms=idle_unload_ms,
                min_free_memory_mb=min_free_memory_mb,
            ),
            families={"simulated": family or SimulatedFamily()},
            isolations=dict.fromkeys(isolations, wrapped),
            record=record,
            revision=lambda: len(journal),
            free_memory=free_memory,
        )
        for each in specs:
            runtime.add(each)
        await nursery.start(runtime.run)
        stage = Stage(
            runtime,
            isolation,
            gates,
            nursery,
            trio.current_time(),
            journal=journal,
            hooks=hooks,
        )
        yield stage
        if not runtime.cuts():
            await stage.done()
        runtime.stop()
    assert runtime.snapshot().phase == "stopped"
    assert runtime.cuts() or not isolation._ports
    for cut in runtime.cuts():
        record(Kind.CUT, what=cut)
    violations = await judge(journal, max_loaded_models)
    assert not violations, "\n".join(map(str, violations))
