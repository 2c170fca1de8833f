"""Any history of two models and their guests keeps every rule, and leaves nothing behind.

Hypothesis draws the history, and the order in which tasks run. A soak is the same for longer:
``PARAUDIO_SOAK_S=600 pytest tests/contract/test_histories.py``.
"""

import os
import secrets
import time
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.contract.guests import Manner
from tests.contract.house import House, Rules
from tests.contract.tally import Tally

from paraudio.spec import Json, ModelSpec
from paraudio.testing import Stepper

MODELS = st.sampled_from("ab")
MANNERS: Final[tuple[Manner, ...]] = (
    *("run", "run", "run", "stream", "batch", "live", "fail", "bad", "twice", "glance"),
    *("late", "idle", "hold"),
)
JAMS: Final = ("load", "session", "run", "chunk", "restore", "close_session", "close_model")
WRONG_SLOTS: Final[tuple[object, ...]] = (0, 17, -1, True, None, "2", 1.5)
LOAD_OPTIONS: Final = {
    *("load_ms", "unload_ms", "capacity", "memory_mb"),
    *("fail_loads", "null_sessions", "fail_clone"),
}

WELL: Final = frozenset({"done", "cancelled"})
BY_FAULT: Final = frozenset(
    {"load_failed", "server_error", "backend_crashed", "invalid_request_error"}
)
BY_LOAD: Final = frozenset({"server_busy", "queue_full", "slot_stuck", "insufficient_memory"})
AT_THE_END: Final = frozenset({"shutting_down"})
UNKNOWN: Final = frozenset({"model_not_found"})


FAULTS: Final[dict[str, tuple[Json, ...]]] = {
    "fail_loads": (0, 0, 1),
    "null_sessions": (0, 0, 1),
    "fail_clone": (0, 0, 2, 4),
    "fail_runs": (0, 0, 1),
    "fail_prepares": (0, 0, 1),
    "ignore_cancel": (False, True),
}
"""What a model may do wrong; most do nothing wrong, since else nobody is ever served."""


@st.composite
def specs(draw: st.DrawFn, model: str) -> ModelSpec:
    """A model that may take its time, fail wherever a model can, and ignore its stop."""
    faulty = draw(st.sampled_from([False, False, True]))
    options: dict[str, Json] = {
        "load_ms": draw(st.sampled_from([0, 0, 1000])),
        "unload_ms": draw(st.sampled_from([0, 0, 700])),
        "capacity": draw(st.sampled_from([4, 4, 4, 2])),
        "memory_mb": draw(st.sampled_from([0, 100])),
        **{name: draw(st.sampled_from(FAULTS[name])) for name in FAULTS if faulty},
        "chunks": 2,
    }
    return ModelSpec(
        id=model,
        family="simulated",
        path=draw(st.sampled_from(["/old", "/new"])),
        task="tts",
        slots=draw(st.integers(1, 4)),
        busy_timeout_ms=draw(st.sampled_from([None, None, 0, 1000])),
        max_queued_requests=draw(st.sampled_from([None, None, 0, 1])),
        load_options={name: value for name, value in options.items() if name in LOAD_OPTIONS},
        session_options={
            name: value for name, value in options.items() if name not in LOAD_OPTIONS
        },
    )


class Histories(RuleBasedStateMachine):
    """Two models, whoever comes to use or to manage them, and all that can go wrong."""

    tally: ClassVar[Tally] = Tally()

    def __init__(self) -> None:
        super().__init__()
        self.house = House(Rules(), Stepper())
        self.count = 0
        self.revision = 0
        self.configs: dict[str, tuple[int, int]] = {}

    @initialize(
        data=st.data(),
        seed=st.integers(0, 2**16),
        known=st.sampled_from(["ab", "ab", "ab", "a"]),
        rules=st.builds(
            Rules,
            limit=st.integers(0, 2),
            idle_ms=st.sampled_from([0, 0, 2000]),
            queue=st.sampled_from([0, 2, 1]),
            busy_ms=st.sampled_from([0, 5000]),
            free_mb=st.sampled_from([0, 0, 50]),
            can_kill=st.booleans(),
        ),
    )
    def open(self, data: st.DataObject, seed: int, known: str, rules: Rules) -> None:
        self.house.stepper.close()
        self.house = House(rules, Stepper(seed=seed))
        self.house.open([data.draw(specs(model), label=model) for model in known])

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    @rule(
        model=MODELS,
        manner=st.sampled_from(MANNERS),
        run_ms=st.sampled_from([0, 500, 500, 3000]),
        bound_ms=st.sampled_from([None, None, 0, 1000]),
    )
    def a_user_comes(self, model: str, manner: Manner, run_ms: int, bound_ms: int | None) -> None:
        known = self.known(model)
        if known:
            self.house.use(self.name(), model, manner, run_ms=run_ms, bound_ms=bound_ms)

    @rule(model=MODELS, manner=st.sampled_from(MANNERS), run_ms=st.sampled_from([0, 500]))
    def a_user_is_given_time(self, model: str, manner: Manner, run_ms: int) -> None:
        if self.known(model):
            self.house.use(self.name(), model, manner, run_ms=run_ms)
            self.house.advance(4)

    @rule(data=st.data(), model=MODELS, bound_ms=st.sampled_from([None, 0, 1000]))
    def a_registration_comes(self, data: st.DataObject, model: str, bound_ms: int | None) -> None:
        self.house.register(self.name(), data.draw(specs(model)), bound_ms=bound_ms)

    @rule(model=MODELS, count=st.integers(1, 4))
    def a_change_of_slots_comes(self, model: str, count: int) -> None:
        if self.known(model):
            self.house.register(self.name(), _with_slots(self.house.model(model).spec, count))

    @rule(model=MODELS, slots=st.sampled_from(WRONG_SLOTS))
    def a_wrong_registration_comes(self, model: str, slots: object) -> None:
        house, name = self.house, self.name()
        before = house.runtime.snapshot()
        spec = ModelSpec(id=model, family="simulated", path="/wrong", task="tts")
        house.register(name, _with_slots(spec, slots))
        refusal = "invalid_request_error" if house.phase == "running" else "shutting_down"
        assert house.ends[name] == refusal
        assert house.runtime.snapshot() == before

    @rule(model=MODELS, bound_ms=st.sampled_from([None, 0, 1000]))
    def an_unload_comes(self, model: str, bound_ms: int | None) -> None:
        if self.known(model):
            self.house.unload(self.name(), model, bound_ms=bound_ms)

    @rule(
        ids=st.sampled_from([None, ["a", "b"], ["b", "a"], ["b", "x", "b"], ["a"], []]),
        fence=st.booleans(),
    )
    def a_bulk_unload_comes(self, ids: list[str] | None, fence: bool) -> None:
        self.house.unload_many(self.name(), ids, fence=fence)

    @precondition(lambda self: self.house.inside)
    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        self.house.leave(data.draw(st.sampled_from(self.house.inside), label="who"))

    @precondition(lambda self: self.house.inside)
    @rule()
    def the_latest_client_leaves(self) -> None:
        self.house.leave(self.house.inside[-1])

    @rule(model=MODELS, manner=st.sampled_from(MANNERS[:6]), waits_s=st.sampled_from([0.5, 1.1]))
    def a_client_leaves_a_long_run(self, model: str, manner: Manner, waits_s: float) -> None:
        if self.known(model):
            name = self.name()
            self.house.use(name, model, manner, run_ms=8000)
            self.house.leave(name)
            self.house.advance(waits_s)

    @rule(model=MODELS, count=st.integers(2, 6), bound_ms=st.sampled_from([None, 1000]))
    def a_crowd_comes(self, model: str, count: int, bound_ms: int | None) -> None:
        for _ in range(count if self.known(model) else 0):
            self.house.use(self.name(), model, run_ms=3000, bound_ms=bound_ms)

    @rule(model=MODELS, hangs=st.booleans())
    def a_bulk_unload_meets_a_run_that_is_left(self, model: str, hangs: bool) -> None:
        if self.known(model):
            gone = self.name()
            if hangs:
                self.house.jam("run", model)
            self.house.use(gone, model, run_ms=8000)
            self.house.leave(gone)
            self.house.unload_many(self.name(), [model])
            self.house.advance(1.5)

    @precondition(lambda self: self.house.rules.can_kill)
    @rule(model=MODELS, manner=st.sampled_from(MANNERS[:6]), waits_s=st.sampled_from([0, 1.1]))
    def a_worker_dies_in_a_long_run(self, model: str, manner: Manner, waits_s: float) -> None:
        if self.known(model):
            self.house.use(self.name(), model, manner, run_ms=8000)
            self.house.advance(waits_s)
            self.house.crash(model, None)

    @rule(point=st.sampled_from(JAMS), model=MODELS)
    def a_backend_jams(self, point: str, model: str) -> None:
        self.house.jam(point, model)

    @rule()
    def backends_go_on(self) -> None:
        self.house.unjam()

    @rule(model=MODELS, session=st.sampled_from([None, 1, 2]))
    def workers_die(self, model: str, session: int | None) -> None:
        self.house.crash(model, session)

    @rule(megabytes=st.sampled_from([20, 120, 10_000]))
    def other_programs_take_memory(self, megabytes: int) -> None:
        self.house.free_memory = megabytes * 2**20

    @rule(seconds=st.sampled_from([0.25, 0.6, 1, 1, 4]))
    def time_passes(self, seconds: float) -> None:
        self.house.advance(seconds)

    @precondition(lambda self: self.count > 12)
    @rule()
    def the_server_drains(self) -> None:
        self.house.drain()
        assert all(each.queued_requests == 0 for each in self.house.runtime.snapshot().models)

    @precondition(lambda self: self.count > 18)
    @rule(clients_leave=st.booleans(), jam=st.sampled_from([None, "run", "close_model"]))
    def the_server_stops(self, clients_leave: bool, jam: str | None) -> None:
        """A backend that hangs from before the stop to long after it is given up."""
        house = self.house
        if jam is not None:
            for model in "ab":
                house.jam(jam, model)
            if self.known("a"):
                house.use(self.name(), "a")
        house.stop()
        if clients_leave:
            house.leave_all()
        if jam is not None:
            house.advance(6 * house.rules.hang_s)

    @invariant()
    def every_picture_is_whole(self) -> None:
        self.tally.steps += 1
        snapshot = self.house.runtime.snapshot()
        assert snapshot.revision >= self.revision
        self.revision = snapshot.revision
        for model in snapshot.models:
            assert 0 <= model.stuck_slots <= model.active_slots <= max(4, model.slots)
            assert 1 <= model.slots <= 4
            assert model.loaded == (model.max_parallel_slots is not None)
            assert model.loaded or model.state != "ready"
            assert not model.loaded or model.state in {"ready", "reconfiguring"}
            history = (model.config, model.generation)
            assert history >= self.configs.get(model.spec.id, (0, 0))
            self.configs[model.spec.id] = history
        if limit := self.house.rules.limit:
            assert sum(each.loaded or each.state == "loading" for each in snapshot.models) <= limit
        assert self.house.family.census.wrongs == []

    def known(self, model: str) -> bool:
        return any(each.spec.id == model for each in self.house.runtime.snapshot().models)

    def teardown(self) -> None:
        try:
            self.come_to_rest()
            self.tally.note(self.house)
        finally:
            self.house.stepper.close()

    def come_to_rest(self) -> None:
        """Whatever happened: all leave, all is idle, all can be used again, all is given back."""
        house = self.house
        if not house.is_open:
            return
        house.unjam()
        house.free_memory = 2**40
        house.advance(10)  # what was abandoned comes back
        if house.phase in {"running", "draining"}:
            house.settle(step_s=10, steps=200)
            self.everybody_was_answered()
            self.every_model_still_works()
            house.stop()
            assert not house.inside
            house.advance(20)
            assert house.runtime.cuts() == []
        house.advance(4 * house.rules.hang_s)
        assert house.phase == "stopped", "shutdown takes no longer than its bound"
        cuts = house.record_cuts()
        house.advance(1000)
        self.everybody_was_answered()
        self.nothing_is_left(cuts)
        house.close()
        if violations := house.violations():
            note("\n".join(map(str, house.journal.since(0))))
            raise AssertionError("\n".join(violations))

    def everybody_was_answered(self) -> None:
        ends = set(self.house.ends.values())
        assert not self.house.inside
        assert ends <= WELL | BY_FAULT | BY_LOAD | AT_THE_END, ends
        if self.house.phase == "running":
            assert not ends & AT_THE_END

    def every_model_still_works(self) -> None:
        """Not always at the first try: that may be one that is to fail."""
        house = self.house
        if house.phase != "running":
            return
        for model in [each.spec.id for each in house.runtime.snapshot().models]:
            name = self.name()
            house.use(name, model, "hold")
            house.settle(step_s=10, steps=20)
            assert house.ends[name] == "done", "an idle model admits at once"
            for _ in range(8):
                name = self.name()
                house.use(name, model)
                house.settle(step_s=10, steps=20)
                if house.ends[name] == "done":
                    break
            capacity = house.model(model).spec.load_options["capacity"]
            assert isinstance(capacity, int)
            fits = house.model(model).spec.slots <= capacity
            assert house.ends[name] == ("done" if fits else "invalid_request_error")

    def nothing_is_left(self, cuts: list[str]) -> None:
        """What a teardown leaves that was cut, only the end of the isolation takes."""
        house = self.house
        for model in house.runtime.snapshot().models:
            assert (model.state, model.loaded) == ("unloaded", False)
            assert (model.queued_requests, model.queued_managers) == (0, 0)
            assert model.active_slots == model.stuck_slots
            assert cuts or not model.stuck_slots
        census = house.family.census
        assert census.wrongs == []
        if not any("its teardown did not end in time" in cut for cut in cuts):
            assert (census.sessions, census.weights) == ({}, {})
        assert house.isolation.abandoned() == []


def _with_slots(spec: ModelSpec, slots: object) -> ModelSpec:
    """The same model with any number of slots, and be it none."""
    values = {name: getattr(spec, name) for name in ModelSpec.__slots__}
    return ModelSpec(**{**values, "slots": slots})


MOST_ROUNDS: Final = 6
"""So many at the most, until everything that must come up has."""
SOAK_S: Final = float(os.environ.get("PARAUDIO_SOAK_S", "0"))


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def test_any_history_keeps_every_rule_and_leaves_nothing(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    Histories.tally = tally = Tally()
    began, took, rounds = time.perf_counter(), 0.0, 0
    # Hypothesis likes to dwell on a few kinds of steps: what a round has not seen, the next may. A
    # seed of its own makes each round another one, also where Hypothesis is told to repeat itself.
    first = secrets.randbits(32) if SOAK_S else 0
    while not rounds or took < SOAK_S or (tally.missing() and rounds < MOST_ROUNDS):
        round_of_its_own = seed(first + rounds)(Histories)
        rounds += 1
        run_state_machine_as_test(round_of_its_own, settings=_settings(200, 40))
        took = time.perf_counter() - began
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    assert isinstance(reporter, pytest.TerminalReporter)
    with capsys.disabled():
        reporter.write_line(
            f"{tally.steps} steps in {took:.1f} s: {tally.steps / took:.0f} a second, "
            f"{rounds} rounds from seed {first}"
        )
    assert tally.missing() == [], "histories must be made of everything that can happen"
