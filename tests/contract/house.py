"""A house: a runtime in virtual time, with a real journal, that synchronous code steps through.

Guests come, use or manage models, and leave when they are told to; each is known by its name, which
is its request's ID too. What the house is left with at the end is nobody's and nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import trio
from tests.contract.census import CountedFamily
from tests.contract.guests import Manner, behave

from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import ParaudioError
from paraudio.journal import Event, Journal, Kind, check
from paraudio.lifecycle import ModelSnapshot, Runtime, RuntimeSettings
from paraudio.lifecycle._reaper import Reaper
from paraudio.spec import Json, ModelSpec
from paraudio.testing import Gate, Gates, Stepper, VirtualIsolation, open_virtual_isolation

RING = 2**20
"""Events that a journal keeps here: all of them."""


@dataclass(kw_only=True)
class Rules:
    """What a house is set to.

    Attributes:
        limit: ``max_loaded_models``.
        idle_ms: ``idle_unload_ms``.
        queue: ``max_queued_requests``.
        busy_ms: ``busy_timeout_ms``.
        free_mb: ``min_free_memory_mb``.
        hang_s: How long a call may ignore its stop, in seconds.
        can_kill: Whether a call can be ended by force.
    """

    limit: int = 0
    idle_ms: int = 0
    queue: int = 0
    busy_ms: int = 300_000
    free_mb: int = 0
    hang_s: float = 1.0
    can_kill: bool = False


@dataclass
class House:
    """A runtime and its guests, under one stepper.

    Attributes:
        rules: What it is set to.
        stepper: What lets anything happen.
        free_memory: Free bytes, as the runtime is told.
        ends: How the visit of each guest ended who has left: a word, or the code of an error.
        answers: What managers were answered.
        errors: What guests were told for whom it did not go well.
        guests: What ends the visit of each guest.
        came: What each guest came for.
        left_at: When each guest left, in seconds of the clock.
    """

    rules: Rules
    stepper: Stepper
    free_memory: int = 2**40
    ends: dict[str, str] = field(default_factory=dict)
    answers: dict[str, object] = field(default_factory=dict)
    errors: dict[str, ParaudioError] = field(default_factory=dict)
    guests: dict[str, trio.CancelScope] = field(default_factory=dict)
    came: dict[str, str] = field(default_factory=dict)
    left_at: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gates = Gates()
        self.family = CountedFamily()
        self.journal = Journal(ring=RING, clock=lambda: self.stepper.now)
        self._jams: list[Gate] = []
        self._close = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._isolation: VirtualIsolation | None = None
        self.runtime = _no_runtime()

    def open(self, specs: Sequence[ModelSpec]) -> None:
        """Let the runtime begin, with these models."""
        self.stepper.start(self._live, tuple(specs))

    @property
    def is_open(self) -> bool:
        """Whether the runtime has begun."""
        return self._isolation is not None

    @property
    def now(self) -> float:
        """Seconds since the beginning of the clock."""
        return self.stepper.now

    @property
    def isolation(self) -> VirtualIsolation:
        """What runs the sessions."""
        assert self._isolation is not None
        return self._isolation

    @property
    def phase(self) -> str:
        """How far shutdown has gone."""
        return self.runtime.snapshot().phase.value

    @property
    def inside(self) -> list[str]:
        """The guests who have not left, in order of arrival."""
        return [name for name in self.guests if name not in self.ends]

    def model(self, name: str) -> ModelSnapshot:
        """One model now."""
        return self.runtime.model(name)

    def use(
        self,
        name: str,
        model: str,
        manner: Manner = "run",
        *,
        run_ms: int = 0,
        bound_ms: int | None = None,
    ) -> None:
        """Let a guest come who uses a model."""

        async def visit() -> str:
            async with self.runtime.use(model, request=name, bound_ms=bound_ms) as use:
                await behave(use, manner, name, run_ms)
            return "done"

        self._enter(name, visit, manner)

    def register(self, name: str, new: ModelSpec, *, bound_ms: int | None = None) -> None:
        """Let a guest come who registers or changes a model."""

        async def visit() -> str:
            changed = await self.runtime.register(new, bound_ms=bound_ms, request=name)
            self.answers[name] = changed
            return "done"

        self._enter(name, visit, "registration")

    def unload(self, name: str, model: str, *, bound_ms: int | None = None) -> None:
        """Let a guest come who unloads a model."""

        async def visit() -> str:
            await self.runtime.unload(model, bound_ms=bound_ms, request=name)
            return "done"

        self._enter(name, visit, "unload")

    def unload_many(self, name: str, ids: Sequence[str] | None, *, fence: bool = False) -> None:
        """Let a guest come who unloads several models."""

        async def visit() -> str:
            self.answers[name] = await self.runtime.unload_many(ids, fence=fence, request=name)
            return "done"

        self._enter(name, visit, "bulk")

    def leave(self, name: str) -> None:
        """Let a guest's client go away, wherever the guest stands."""

        def go() -> None:
            if name not in self.ends:
                self.journal(Kind.DISCONNECTED, None, request=name)
                self.guests[name].cancel()

        self.do(go)

    def leave_all(self) -> None:
        """Let every client go away, as a server does that stops."""
        self.do(lambda: [self.guests[name].cancel() for name in self.inside])

    def jam(self, point: str, model: str) -> None:
        """From now on hold every call of a model at a point."""
        self._jams.append(self.gates.hold(point, model=model))  # type: ignore[arg-type]

    def unjam(self) -> None:
        """Let every call go on, now and from now on."""

        def let_go() -> None:
            while self._jams:
                self._jams.pop().open()

        self.do(let_go)

    def crash(self, model: str, session: int | None) -> None:
        """Let workers die, where workers can."""
        if self.rules.can_kill:
            self.do(lambda: self.isolation.crash(model, session))

    def sweep(self) -> None:
        """Retire what is idle now, as the reaper does when a model was idle for long enough."""
        runtime = self.runtime
        reaper = Reaper(runtime._context, runtime._registry.entries)
        self.do(lambda: reaper.sweep(self.now))

    def drain(self) -> None:
        """Take no more guests."""
        self.do(self.runtime.drain)

    def stop(self) -> None:
        """End everything."""
        self.do(self.runtime.stop)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.stepper.advance(seconds)

    def do(self, what: Callable[[], object]) -> None:
        """Do one thing inside of the program, and let all happen that follows."""

        async def work() -> None:
            what()

        self.stepper.step(work)

    def settle(self, *, step_s: float, steps: int) -> None:
        """Let time pass until nobody is inside and no model is at work; fail if that never is."""
        for _ in range(steps):
            if not self.inside and self._at_rest():
                return
            self.advance(step_s)
        raise AssertionError(f"never at rest: {self.inside}, {self.runtime.snapshot().models}")

    def close(self) -> None:
        """End the isolation too; whatever still runs in it is cut off."""
        self.do(self._close.set)

    def violations(self) -> list[str]:
        """What the journal says that broke a rule."""
        events = self.journal.since(0)
        found = check(events, max_loaded_models=self.rules.limit, tolerance_s=0.001)
        return [str(violation) for violation in found]

    def record_cuts(self) -> list[str]:
        """Record what shutdown did not wait for, as a server does, and return it."""
        cuts = self.runtime.cuts()
        for cut in cuts:
            self.journal(Kind.CUT, what=cut)
        return cuts

    def kinds(self, *kinds: Kind, model: str | None = None) -> list[Event]:
        """What the journal has of these kinds."""
        return [
            event
            for event in self.journal.since(0)
            if event.kind in kinds and model in {None, event.model}
        ]

    def retirements(self) -> list[tuple[str | None, Json]]:
        """Which models were retired, and why, in order."""
        return [(event.model, event.facts["why"]) for event in self.kinds(Kind.RETIRED)]

    def counters(self, model: str) -> tuple[int, int, int, int]:
        """Active slots, queued requests, queued managers and stuck slots of a model."""
        now = self.model(model)
        return now.active_slots, now.queued_requests, now.queued_managers, now.stuck_slots

    def end(self) -> None:
        """Stop, and find nothing that was cut, is left, or is against the rules."""
        self.stop()
        self.advance(4 * self.rules.hang_s)
        assert (self.phase, self.runtime.cuts()) == ("stopped", [])
        for each in self.runtime.snapshot().models:
            assert (each.state, self.counters(each.spec.id)) == ("unloaded", (0, 0, 0, 0))
        census = self.family.census
        assert (census.weights, census.sessions, census.wrongs) == ({}, {}, [])
        assert self.violations() == []

    def _at_rest(self) -> bool:
        """Whether nobody holds a model or waits for one; a status does not tell of managers."""
        for entry in self.runtime._registry.entries():
            queue = entry.queue.snapshot()
            if queue.active_slots or queue.queued_requests or queue.queued_managers:
                return False
        return True

    def _enter(self, name: str, visit: Callable[[], Awaitable[str]], what: str = "else") -> None:
        self.came[name] = what
        self.guests[name] = scope = trio.CancelScope()

        async def stay() -> None:
            with scope:
                try:
                    self.ends[name] = await visit()
                except ParaudioError as error:
                    self.errors[name] = error
                    self.ends[name] = error.code
            self.ends.setdefault(name, "cancelled")
            self.left_at[name] = self.now

        assert self._nursery is not None
        nursery = self._nursery
        self.do(lambda: nursery.start_soon(stay))

    async def _live(self, specs: Sequence[ModelSpec]) -> None:
        rules = self.rules
        async with (
            open_virtual_isolation(
                hang_timeout_s=rules.hang_s, can_kill=rules.can_kill, gates=self.gates
            ) as self._isolation,
            trio.open_nursery() as self._nursery,
        ):
            self.runtime = Runtime(
                RuntimeSettings(
                    parallel_jobs=True,
                    hang_timeout_ms=round(rules.hang_s * 1000),
                    busy_timeout_ms=rules.busy_ms,
                    max_queued_requests=rules.queue,
                    max_loaded_models=rules.limit,
                    idle_unload_ms=rules.idle_ms,
                    min_free_memory_mb=rules.free_mb,
                ),
                families={"simulated": self.family},
                isolations={"thread": self._isolation},
                record=self.journal,
                revision=lambda: self.journal.revision,
                free_memory=lambda: self.free_memory,
            )
            for each in specs:
                self.runtime.add(each)
            await self._nursery.start(self.runtime.run)
            await self._close.wait()


def model(name: str, slots: int = 1, *, path: str = "", **options: Json) -> ModelSpec:
    """A simulated model; options go to the load or to the sessions, where they belong."""
    of_load = {option.name for option in SimulatedFamily.load_options}
    return ModelSpec(
        id=name,
        family="simulated",
        path=path or f"/{name}",
        task="tts",
        slots=slots,
        load_options={key: value for key, value in options.items() if key in of_load},
        session_options={key: value for key, value in options.items() if key not in of_load},
    )


def _no_runtime() -> Runtime:
    return Runtime(RuntimeSettings(), families={}, isolations={})
