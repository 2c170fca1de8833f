"""Rules of the lifecycle (behaviour 3): one load at a time, pools that are whole, ends in order."""

from collections.abc import Iterator
from typing import Final

from paraudio.journal._events import Event, Kind
from paraudio.journal.checker._rule import Finding, Rule, unleased
from paraudio.journal.checker._world import Model, Stage, Ticket, World, number, text


class UnderLease(Rule):
    """Loads, publications, retirements and commits happen under a lease that is held then."""

    name = "leased"
    kinds = (
        Kind.LOAD_STARTED,
        Kind.LOAD_FAILED,
        Kind.PUBLISHED,
        Kind.RETIRED,
        Kind.COMMITTED,
    )

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        if event.facts["ticket"] is None:
            if text(event, "why") != "shutdown":
                yield Finding(f"{event.model!r} was {event.kind.value} under no lease")
            return
        yield from unleased(event, world, f"{event.model!r} was {event.kind.value}")
        ticket = world.held(event)
        if ticket is not None and event.kind is Kind.COMMITTED and not ticket.manager:
            yield Finding(f"{ticket} is no manager and cannot commit", (ticket.granted,))


class OneLoad(Rule):
    """A model has one load at a time, over no pool, and each load is a generation of its own."""

    name = "load"
    kinds = (Kind.LOAD_STARTED, Kind.LOAD_FAILED)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model, named = world.model(event), number(event, "generation")
        if event.kind is Kind.LOAD_FAILED:
            yield from _must_load(event, model)
            return
        for stage in (Stage.LOADING, Stage.PUBLISHED):
            other = model.at(stage)
            if other is not None:
                yield Finding(
                    f"{model.name!r} loads generation {named} "
                    f"while {other.number} is {stage.value}",
                    (other.since,),
                )
        if named <= model.latest:
            yield Finding(f"{model.name!r} loads generation {named} a second time")


class Whole(Rule):
    """A pool is published whole: what was loaded, one session a slot, of the present config."""

    name = "published"
    kinds = (Kind.PUBLISHED,)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model = world.model(event)
        yield from _must_load(event, model)
        sessions, slots = number(event, "sessions"), model.resized or model.slots
        if slots is not None and sessions != slots:
            yield Finding(
                f"{model.name!r} was published with {sessions} sessions for {slots} slots"
            )
        loading = model.generations.get(number(event, "generation"))
        config = None if loading is None else loading.config
        if config is not None and number(event, "config") != config:
            yield Finding(
                f"{model.name!r} was published with configuration {event.facts['config']}, "
                f"but {config} was loaded"
            )


def _must_load(event: Event, model: Model) -> Iterator[Finding]:
    """A load can only end if it runs."""
    generation = model.generations.get(number(event, "generation"))
    if generation is None:
        yield Finding(
            f"generation {event.facts['generation']} of {model.name!r} is {event.kind.value}, "
            "but was never loaded"
        )
    elif generation.stage is not Stage.LOADING:
        yield Finding(
            f"generation {generation.number} of {model.name!r} is {event.kind.value}, "
            f"but is {generation.stage.value} already",
            (generation.since,),
        )


class Retirement(Rule):
    """A pool is retired, then destroyed, each once; nobody runs in what is destroyed.

    A server that stops gives up on runs that do not end.
    """

    name = "retired"
    kinds = (Kind.RETIRED, Kind.DESTROYED)

    _BEFORE: Final = {Kind.RETIRED: Stage.PUBLISHED, Kind.DESTROYED: Stage.RETIRED}

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model, named = world.model(event), number(event, "generation")
        generation, needed = model.generations.get(named), self._BEFORE[event.kind]
        if generation is None or generation.stage is not needed:
            stage = "unknown" if generation is None else generation.stage.value
            yield Finding(
                f"generation {named} of {model.name!r} is {event.kind.value}, but is {stage}, "
                f"not {needed.value}",
                () if generation is None else (generation.since,),
            )
        for run in model.runs.values():
            if run.generation == named and not world.phase_is("stopping", "stopped"):
                yield Finding(
                    f"generation {named} of {model.name!r} is {event.kind.value} "
                    f"while request {run.request!r} runs in it",
                    (run.started,),
                )


class Abandonment(Rule):
    """Calls that are given up are counted one by one, and each returns once at most.

    A load or a teardown gives up what it leaves behind when it ends, so none is given up while its
    model still loads.
    """

    name = "abandoned"
    kinds = (Kind.ABANDONED, Kind.RETURNED)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model, call = world.model(event), number(event, "call")
        if event.kind is Kind.RETURNED:
            if call not in model.abandoned:
                yield Finding(f"call {call} of {model.name!r} returned, but was not given up")
        elif call != model.given_up + 1:
            yield Finding(f"call {call} of {model.name!r} is given up after {model.given_up}")
        elif (loading := model.at(Stage.LOADING)) is not None:
            yield Finding(
                f"call {call} of {model.name!r} is given up while generation "
                f"{loading.number} still loads",
                (loading.since,),
            )


class Configuration(Rule):
    """A model is registered once, and its configurations are numbered in their order."""

    name = "configuration"
    kinds = (Kind.REGISTERED, Kind.COMMITTED, Kind.LOAD_STARTED, Kind.INSPECTED)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model, config = world.model(event), number(event, "config")
        if event.kind is Kind.REGISTERED:
            if model.config is not None:
                yield Finding(f"{model.name!r} was registered a second time")
            elif model.slots not in (None, number(event, "slots")):
                yield Finding(
                    f"{model.name!r} was registered with {event.facts['slots']} slots, "
                    f"but its queue has {model.slots}"
                )
        elif model.config is None:
            yield Finding(f"{model.name!r} is {event.kind.value} before it is registered")
        elif event.kind is Kind.LOAD_STARTED:
            if config != model.config:
                yield Finding(f"{model.name!r} loads configuration {config}, not {model.config}")
        elif event.kind is Kind.INSPECTED:
            if config != model.config:
                yield Finding(
                    f"{model.name!r} shows the facts of configuration {config}, not {model.config}"
                )
        elif config != model.config + 1:
            yield Finding(f"{model.name!r} commits configuration {config} after {model.config}")
        elif number(event, "slots") != (model.resized or model.slots):
            yield Finding(
                f"{model.name!r} commits {event.facts['slots']} slots, "
                f"but its queue gets {model.resized or model.slots}"
            )


class States(Rule):
    """Each change of state begins where the last one ended; the first one at unloaded."""

    name = "state"
    kinds = (Kind.STATE,)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model, old = world.model(event), text(event, "from")
        if old != (model.state or "unloaded"):
            yield Finding(f"{model.name!r} leaves {old!r}, but is {model.state or 'unloaded'!r}")


class Residency(Rule):
    """No more models are loaded at one time than the limit allows.

    Attributes:
        limit: ``max_loaded_models`` of the server; 0 is no limit.
    """

    name = "residency"
    kinds = (Kind.PUBLISHED,)

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        pools = [
            each.at(Stage.PUBLISHED) for each in world.models.values() if each.name != event.model
        ]
        resident = [pool.since for pool in pools if pool is not None]
        if self.limit and len(resident) >= self.limit:
            yield Finding(
                f"{event.model!r} was published beside {len(resident)} loaded models, "
                f"and the limit is {self.limit}",
                tuple(resident),
            )


def works(ticket: Ticket, model: Model) -> bool:
    """Whether a load or a teardown of the model keeps a lease."""
    return any(
        each.ticket == ticket.number and each.stage in (Stage.LOADING, Stage.RETIRED)
        for each in model.unfinished.values()
    )
