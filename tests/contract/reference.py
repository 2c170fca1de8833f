"""What two models have to do, worked out by a list of things that are due: no event loop, no tasks.

This is written from the behaviour alone (admission, and the lifecycle of a load, an unload, a
change and a bulk unload) and shares nothing with the server's code. Times are whole milliseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

What: TypeAlias = Literal["request", "stream", "change", "unload", "bulk", "idle", "disconnect"]


@dataclass(frozen=True)
class Arrival:
    """Somebody who comes, or something that happens.

    Attributes:
        name: Who; "" for what is nobody.
        kind: What it is.
        models: The models that it is about.
        at: When, in milliseconds.
        path: A change: the new path.
        slots: A change: the new number of slots.
    """

    name: str
    kind: What
    models: str = ""
    at: int = 0
    path: str = ""
    slots: int = 0


@dataclass(frozen=True)
class Pace:
    """How long a model takes for things, in milliseconds."""

    load: int
    run: int
    unload: int


@dataclass
class Outcome:
    """What there is to see of a history.

    Attributes:
        grants: For each model who was granted it, and when, in order.
        ends: How and when the visit of each guest ended.
        models: Whether each model is loaded at the end, its path, and its slots.
    """

    grants: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    ends: dict[str, tuple[str, int]] = field(default_factory=dict)
    models: dict[str, tuple[bool, str, int]] = field(default_factory=dict)


@dataclass(eq=False)
class Ticket:
    """A place in the line of one model.

    Attributes:
        name: Whose.
        work: What its owner does once it is granted.
        done: What follows when that is over.
        alone: Whether it needs the whole model.
        gone: Whether its client has left.
    """

    name: str
    work: Callable[["Ticket"], None]
    done: Callable[[], None]
    alone: bool
    gone: bool = False


class Model:
    """One model: its line, who holds it, and what is loaded."""

    def __init__(self, clock: "Clock", pace: Pace, path: str, slots: int, *, loaded: bool) -> None:
        self.clock = clock
        self.pace = pace
        self.path = path
        self.slots = slots
        self.loaded = loaded
        self.measured = loaded  # whether it is known how many sessions the weights allow
        self.line: list[Ticket] = []
        self.held: list[Ticket] = []
        self.running: list[Ticket] = []
        self.waiting: list[Ticket] = []
        self.driver: Ticket | None = None
        self.grants: list[tuple[str, int]] = []

    def enter(self, ticket: Ticket) -> None:
        """Stand at the end of the line."""
        self.line.append(ticket)
        self.settle()

    def settle(self) -> None:
        """Grant the head for as long as it can be: nobody ever passes it."""
        while self.line:
            head = self.line[0]
            alone = any(each.alone for each in self.held)
            room = not self.held if head.alone else len(self.held) < self.slots and not alone
            if not room:
                self.give_up_load()
                return
            self.line.remove(head)
            self.held.append(head)
            self.grants.append((head.name, self.clock.now))
            head.work(head)

    def release(self, ticket: Ticket) -> None:
        """Give back what a ticket holds."""
        self.held.remove(ticket)
        self.settle()

    def use(self, ticket: Ticket) -> None:
        """A request: run at once if the model is loaded, else drive the load or wait for it."""
        if self.loaded:
            self.run(ticket)
            return
        self.waiting.append(ticket)
        if self.driver is None:
            self.driver = driver = self.waiting.pop(0)
            self.clock.after(self.pace.load, lambda: self.publish(driver))

    def give_up_load(self) -> None:
        """A load stops that nobody waits for, when the next in line would only throw it away."""
        driver = self.driver
        if driver is not None and driver.gone and not self.waiting and self.line[0].alone:
            self.driver = None
            self.release(driver)

    def publish(self, driver: Ticket) -> None:
        """The load is over: everybody who waited runs; a driver who has left is done."""
        waiting = self.waiting
        if self.driver is not driver:
            return  # it was given up
        self.driver, self.waiting = None, []
        self.loaded = self.measured = True
        for ticket in ([] if driver.gone else [driver]) + waiting:
            self.run(ticket)
        if driver.gone:
            self.release(driver)

    def run(self, ticket: Ticket) -> None:
        """A request runs, and then gives back what it holds."""

        def end() -> None:
            if ticket in self.running:  # it may have been stopped
                self.running.remove(ticket)
                self.release(ticket)
                ticket.done()

        self.running.append(ticket)
        self.clock.after(self.pace.run, end)

    def retire(self, then: Callable[[], None]) -> None:
        """Nothing is resident from now on; the teardown takes its time."""
        if not self.loaded:
            then()
            return
        self.loaded = False
        self.clock.after(self.pace.unload, then)

    def change(self, path: str, slots: int, then: Callable[[], None]) -> None:
        """Probe if need be, retire, commit, load."""

        def commit() -> None:
            self.path, self.slots = path, slots
            self._load(then)

        if (path, slots) == (self.path, self.slots):
            if self.loaded:
                then()
            else:
                self._load(then)
            return
        known = self.measured and path == self.path
        if slots > 1 and not known:
            probe = self.pace.load + self.pace.unload
            self.clock.after(probe, lambda: self.retire(commit))
        else:
            self.retire(commit)

    def _load(self, then: Callable[[], None]) -> None:
        def loaded() -> None:
            self.loaded = self.measured = True
            then()

        self.clock.after(self.pace.load, loaded)

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds it and nobody waits."""
        return not self.held and not self.line


class Clock:
    """What is due, and when."""

    def __init__(self) -> None:
        self.now = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, milliseconds: int, what: Callable[[], None]) -> None:
        """Let something happen later; things due at one time happen as they were planned."""
        self._count += 1
        self._due.append((self.now + milliseconds, self._count, what))

    def run(self) -> None:
        """Let everything happen."""
        while self._due:
            self._due.sort(key=lambda each: each[:2])
            self.now, _, what = self._due.pop(0)
            what()


class World:
    """Two models and everybody who comes."""

    def __init__(self, models: dict[str, tuple[Pace, str, int, bool]]) -> None:
        self.clock = Clock()
        self.models = {
            name: Model(self.clock, pace, path, slots, loaded=loaded)
            for name, (pace, path, slots, loaded) in models.items()
        }
        self.ends: dict[str, tuple[str, int]] = {}
        self.inside: list[tuple[str, list[tuple[Model, Ticket]]]] = []

    def run(self, arrivals: Sequence[Arrival]) -> Outcome:
        """Let them all come, and all end."""
        for arrival in arrivals:
            self.clock.after(arrival.at, partial(self.arrive, arrival))
        self.clock.run()
        return Outcome(
            {name: model.grants for name, model in self.models.items()},
            self.ends,
            {name: (each.loaded, each.path, each.slots) for name, each in self.models.items()},
        )

    def arrive(self, arrival: Arrival) -> None:
        """Let one come."""
        match arrival.kind:
            case "disconnect":
                self.disconnect_latest()
            case "idle":
                for model in self.models.values():
                    if model.loaded and model.is_idle:
                        model.enter(_retiring(model, "", lambda: None))
            case _:
                self._enter(arrival)

    def disconnect_latest(self) -> None:
        """The client goes away who came last of those who are inside."""
        inside = [guest for guest in self.inside if guest[0] not in self.ends]
        if not inside:
            return
        name, tickets = inside[-1]
        self.ends[name] = ("cancelled", self.clock.now)
        for model, ticket in tickets:
            ticket.gone = True
            if ticket in model.line:
                model.line.remove(ticket)
                model.settle()
            elif ticket in model.running or ticket in model.waiting:
                for where in (model.running, model.waiting):
                    if ticket in where:
                        where.remove(ticket)
                model.release(ticket)
            else:
                model.settle()  # a load that it drives may not be wanted any more

    def _enter(self, arrival: Arrival) -> None:
        left = list(arrival.models)

        def done() -> None:
            left.pop()
            if not left:
                self.ends.setdefault(arrival.name, ("done", self.clock.now))

        tickets = [
            (model, self._ticket(arrival, model, done))
            for model in [self.models[name] for name in arrival.models]
        ]
        self.inside.append((arrival.name, tickets))
        for model, ticket in tickets:
            model.enter(ticket)

    def _ticket(self, arrival: Arrival, model: Model, done: Callable[[], None]) -> Ticket:
        if arrival.kind in {"unload", "bulk"}:
            return _retiring(model, arrival.name, done)
        if arrival.kind == "change":
            return _changing(model, arrival, done)
        return Ticket(arrival.name, model.use, done, alone=False)


def _retiring(model: Model, name: str, done: Callable[[], None]) -> Ticket:
    """A ticket that unloads."""

    def work(ticket: Ticket) -> None:
        model.retire(lambda: _finish(model, ticket))

    return Ticket(name, work, done, alone=True)


def _changing(model: Model, arrival: Arrival, done: Callable[[], None]) -> Ticket:
    """A ticket that replaces the configuration."""

    def work(ticket: Ticket) -> None:
        model.change(arrival.path, arrival.slots, lambda: _finish(model, ticket))

    return Ticket(arrival.name, work, done, alone=True)


def _finish(model: Model, ticket: Ticket) -> None:
    model.release(ticket)
    ticket.done()
