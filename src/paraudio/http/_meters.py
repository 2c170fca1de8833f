"""What is counted and measured, in a registry of this application's own.

Most of it is read off the journal: one short call for each transition that counts, and none for the
others. Gauges are read off a snapshot when somebody asks.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paraudio.journal import Event, Kind
from paraudio.lifecycle import ModelSnapshot, Snapshot

M = TypeVar("M", Counter, Histogram)

WAITS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
RUNS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
LOADS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
FACTORS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS"})


class Watched(Protocol):
    """What the gauges look at: a runtime."""

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""


class Meters:
    """Counts what happens, for `/metrics`.

    Args:
        runtime: Whose models the gauges tell of.

    Attributes:
        registry: Everything that is counted.
    """

    def __init__(self, runtime: Watched) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(Gauges(runtime))
        ProcessCollector(registry=self.registry)
        self._waits = self._histogram(
            "admission_wait_seconds", "from entering a queue to the grant", WAITS, "model", "claim"
        )
        self._left = self._counter("admission_left", "tickets that left ungranted", "model", "why")
        self._refused = self._counter(
            "admission_refused", "callers refused at once", "model", "code"
        )
        self._runs = self._histogram(
            "run_seconds", "backend calls, by how they ended", RUNS, "model", "outcome"
        )
        self._stuck = self._counter("stuck", "calls that ignored their stop", "model")
        self._loads = self._histogram(
            "load_seconds", "loads, by how they ended (ok or error)", LOADS, "model", "outcome"
        )
        self._retired = self._counter(
            "retired", "pools retired; why=evict are evictions", "model", "why"
        )
        self._cancels = self._counter("cancels", "requests cut short, by cause", "cause")
        self._answers = self._counter(
            "http_requests", "requests, by answer; 0 is none", "method", "route", "status"
        )
        self._seconds = self._histogram(
            "http_request_seconds", "from the head to the end of the answer", RUNS, "route"
        )
        self._factors = self._histogram(
            "real_time_factor", "seconds of work for a second of sound", FACTORS, "model"
        )
        self._stopping = False
        self._queued: dict[tuple[str, int], tuple[float, str]] = {}
        self._loading: dict[tuple[str, int], float] = {}
        self._running: dict[tuple[str, int], float] = {}
        self._handlers: Mapping[Kind, Callable[[Event, str], None]] = {
            Kind.QUEUED: self._on_queued,
            Kind.GRANTED: self._on_granted,
            Kind.LEFT: self._on_left,
            Kind.REFUSED: self._on_refused,
            Kind.RUN_STARTED: self._on_run_started,
            Kind.RUN_ENDED: self._on_run_ended,
            Kind.LOAD_STARTED: self._on_load_started,
            Kind.PUBLISHED: self._on_published,
            Kind.LOAD_FAILED: self._on_load_failed,
            Kind.STUCK: self._on_stuck,
            Kind.RETIRED: self._on_retired,
            Kind.DISCONNECTED: self._on_disconnected,
            Kind.PHASE: self._on_phase,
        }

    def observe(self, event: Event) -> None:
        """Count one transition."""
        handler = self._handlers.get(event.kind)
        if handler is not None:
            handler(event, event.model or "")

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended; ``status`` is 0 where nothing was answered."""
        method = method if method in _METHODS else "other"
        self._answers(method, route, str(status)).inc()
        self._seconds(route).observe(seconds)

    def cancelled(self) -> None:
        """Count a request that somebody cancelled by its ID."""
        self._cancels("by_id").inc()

    def worked(self, model: str, factor: float) -> None:
        """Count a run by its real-time factor; 0 is none, as where there was no sound."""
        if factor > 0:
            self._factors(model).observe(factor)

    # Transitions.

    def _on_queued(self, event: Event, model: str) -> None:
        claim = "manager" if event.facts["manager"] else "request"
        self._queued[_ticket(event, model)] = (event.at, claim)

    def _on_granted(self, event: Event, model: str) -> None:
        if (entered := self._queued.pop(_ticket(event, model), None)) is not None:
            at, claim = entered
            self._waits(model, claim).observe(event.at - at)

    def _on_left(self, event: Event, model: str) -> None:
        self._queued.pop(_ticket(event, model), None)
        why = str(event.facts["why"])
        self._left(model, why).inc()
        if why != "cancelled":
            # A cancelled ticket counts where its cause is known: a client that left, or an ID.
            self._cancels(why).inc()

    def _on_refused(self, event: Event, model: str) -> None:
        self._refused(model, str(event.facts["why"])).inc()

    def _on_run_started(self, event: Event, model: str) -> None:
        self._running[_ticket(event, model)] = event.at

    def _on_run_ended(self, event: Event, model: str) -> None:
        began = self._running.pop(_ticket(event, model), event.at)
        outcome = str(event.facts["outcome"])
        self._runs(model, outcome).observe(event.at - began)
        if self._stopping and outcome in {"stopped", "stuck"}:
            self._cancels("shutting_down").inc()

    def _on_load_started(self, event: Event, model: str) -> None:
        self._loading[_generation(event, model)] = event.at

    def _on_published(self, event: Event, model: str) -> None:
        self._loaded(event, model, "ok")

    def _on_load_failed(self, event: Event, model: str) -> None:
        self._loaded(event, model, "error")

    def _loaded(self, event: Event, model: str, outcome: str) -> None:
        began = self._loading.pop(_generation(event, model), event.at)
        self._loads(model, outcome).observe(event.at - began)

    def _on_stuck(self, event: Event, model: str) -> None:
        del event
        self._stuck(model).inc()

    def _on_retired(self, event: Event, model: str) -> None:
        self._retired(model, str(event.facts["why"])).inc()

    def _on_disconnected(self, event: Event, model: str) -> None:
        del event, model
        self._cancels("client_left").inc()

    def _on_phase(self, event: Event, model: str) -> None:
        del model
        self._stopping = event.facts["phase"] == "stopping"

    def _counter(self, name: str, doc: str, *labels: str) -> "Children[Counter]":
        return Children(Counter(name, doc, labels, namespace="paraudio", registry=self.registry))

    def _histogram(
        self, name: str, doc: str, buckets: Iterable[float], *labels: str
    ) -> "Children[Histogram]":
        made = Histogram(
            name,
            doc,
            labels,
            namespace="paraudio",
            registry=self.registry,
            buckets=tuple(buckets),
        )
        return Children(made)


class Children(Generic[M]):
    """The metrics of one name, by the values of their labels; finding one again costs little."""

    __slots__ = ("_known", "_parent")

    def __init__(self, parent: M) -> None:
        self._parent: M = parent
        self._known: dict[tuple[str, ...], M] = {}

    def __call__(self, *labels: str) -> M:
        """The one with these values."""
        found = self._known.get(labels)
        if found is None:
            found = self._known[labels] = self._parent.labels(*labels)
        return found


class Gauges(Collector):
    """What a snapshot tells, at the moment at which somebody asks."""

    def __init__(self, runtime: Watched) -> None:
        self._runtime = runtime

    def collect(self) -> Iterable[Metric]:
        """Look once, and tell all of it."""
        snapshot = self._runtime.snapshot()
        queue = _gauge("queue_depth", "callers that wait", "claim")
        slots = _gauge("slots", "slots by what they do", "state")
        loaded = _gauge("model_loaded", "1 where a complete pool is published")
        abandoned = _gauge("abandoned_calls", "calls of former loads and pools that still run")
        for model in snapshot.models:
            name = model.spec.id
            queue.add_metric((name, "request"), model.queued_requests)
            queue.add_metric((name, "manager"), model.queued_managers)
            for state, count in _slots(model).items():
                slots.add_metric((name, state), count)
            loaded.add_metric((name,), model.loaded)
            abandoned.add_metric((name,), model.abandoned_calls)
        phase = GaugeMetricFamily(
            "paraudio_running", "1 while new work is taken", value=snapshot.phase == "running"
        )
        revision = GaugeMetricFamily(
            "paraudio_revision", "grows with each change", value=snapshot.revision
        )
        return queue, slots, loaded, abandoned, phase, revision


def _slots(model: ModelSnapshot) -> dict[str, int]:
    """Slots that work, that are stuck, and that nobody holds."""
    active = max(0, model.active_slots - model.stuck_slots)
    free = max(0, model.slots - active - model.stuck_slots)
    return {"active": active, "stuck": model.stuck_slots, "free": free}


def _gauge(name: str, doc: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"paraudio_{name}", doc, labels=("model", *labels))


def _ticket(event: Event, model: str) -> tuple[str, int]:
    return model, int(str(event.facts["ticket"]))


def _generation(event: Event, model: str) -> tuple[str, int]:
    return model, int(str(event.facts["generation"]))
