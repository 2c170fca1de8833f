"""The spans of a request, told when it has ended, from what the journal has of it.

A request is one span, with one within it for each wait in a line, each load and each run that was
made for it. Nothing is opened on the way: every event of the journal has its time, so the spans are
made at the end, with explicit times, and whoever leaves early leaves nothing open.

This module imports nothing of OpenTelemetry; `Spans` in ``_spans`` does, where somebody wants them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from paraudio.journal import Event, Kind
from paraudio.spec import Json

MAX_PARTS: Final = 1000
"""Parts kept of one request; a batch of more jobs is told as far as this."""
MAX_STORIES: Final = 20_000
"""Requests remembered; those of listeners of other kinds never end here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is known of a request at its end; times are seconds of the server's clock.

    Attributes:
        id: Its ID.
        method: The HTTP method.
        route: The path of its route, with names where paths differ.
        headers: What the client sent; the context of its own span may be among it.
        started: When its head had come.
        ended: When its answer had been sent or cut off.
        model: The model that it asked for, or None.
        task: What that model does, or None where there is no such model.
        status: The status of its answer; 0 where its client was gone before.
        code: The code of the error that answered it or ended its answer, or None.
        fault: Whether the server is to blame for its end.
        cancelled: Whether somebody cancelled it by its ID.
    """

    id: str
    method: str
    route: str
    headers: Mapping[str, str]
    started: float
    ended: float
    model: str | None
    task: str | None
    status: int
    code: str | None
    fault: bool
    cancelled: bool


@dataclass(slots=True)
class Part:
    """A stretch of a request: a wait, a load or a run.

    Attributes:
        name: ``queue``, ``load`` or ``run``.
        began: When, in seconds of the server's clock.
        model: The model that it was for.
        facts: What the journal says of it.
        ended: When, or None for what had not ended with the request.
        error: What went wrong, or None.
    """

    name: str
    began: float
    model: str
    facts: dict[str, Json]
    ended: float | None = None
    error: str | None = None


@dataclass(slots=True)
class Story:
    """What happened to one request so far.

    Attributes:
        parts: Its waits, loads and runs, in the order in which they began.
        cause: Why it was cut short (``client_left``, ``by_id``, ``timeout``, ``shutting_down``), or
            None.
    """

    parts: list[Part] = field(default_factory=list)
    cause: str | None = None

    def begin(self, part: Part) -> None:
        """Add a part, unless there are very many."""
        if len(self.parts) < MAX_PARTS:
            self.parts.append(part)

    def end(self, name: str, model: str, at: float, error: str | None, **facts: Json) -> None:
        """End the latest open part of a name."""
        for part in reversed(self.parts):
            if part.name == name and part.model == model and part.ended is None:
                part.ended, part.error = at, error
                part.facts.update(facts)
                return


class Sink(Protocol):
    """Makes spans."""

    def tell(self, told: Told, story: Story) -> None:
        """Make the spans of one request; never blocks."""


class Tracing:
    """Follows the journal, and tells each request when it has ended.

    Args:
        sink: What makes spans of it.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._stories: dict[str, Story] = {}
        self._tickets: dict[tuple[str, int], str] = {}
        self._handlers: Mapping[Kind, Callable[[Event], None]] = {
            Kind.QUEUED: self._on_queued,
            Kind.GRANTED: self._on_granted,
            Kind.LEFT: self._on_left,
            Kind.RELEASED: self._on_released,
            Kind.LOAD_STARTED: self._on_load_started,
            Kind.PUBLISHED: self._on_published,
            Kind.LOAD_FAILED: self._on_load_failed,
            Kind.RUN_STARTED: self._on_run_started,
            Kind.RUN_ENDED: self._on_run_ended,
            Kind.DISCONNECTED: self._on_disconnected,
        }

    def observe(self, event: Event) -> None:
        """Note a transition that belongs to a request; a follower of the journal."""
        handler = self._handlers.get(event.kind)
        if handler is not None:
            handler(event)

    def ended(self, told: Told) -> None:
        """Tell a request that is over."""
        story = self._stories.pop(told.id, None) or Story()
        if told.cancelled:
            story.cause = "by_id"
        self._sink.tell(told, story)

    @property
    def open_stories(self) -> int:
        """Requests and tickets that are remembered; 0 when nothing is in progress."""
        return len(self._stories) + len(self._tickets)

    def _remembered(self, request: str) -> Story:
        """The story of a request, begun where there is none; the oldest makes place for it."""
        if request not in self._stories and len(self._stories) >= MAX_STORIES:
            del self._stories[next(iter(self._stories))]
        return self._stories.setdefault(request, Story())

    def _story(self, event: Event) -> Story | None:
        """The story of the request whose ticket an event is about, if that is not over."""
        request = self._tickets.get(_ticket(event))
        return None if request is None else self._stories.get(request)

    def _on_queued(self, event: Event) -> None:
        request = event.facts["request"]
        if not isinstance(request, str):
            return
        self._tickets[_ticket(event)] = request
        story = self._remembered(request)
        claim = "manager" if event.facts["manager"] else "request"
        story.begin(_part("queue", event, claim=claim))

    def _on_granted(self, event: Event) -> None:
        if story := self._story(event):
            story.end("queue", event.model or "", event.at, None)

    def _on_left(self, event: Event) -> None:
        why = str(event.facts["why"])
        if story := self._story(event):
            story.end("queue", event.model or "", event.at, why)
            if why != "cancelled":
                story.cause = story.cause or why
        self._tickets.pop(_ticket(event), None)

    def _on_released(self, event: Event) -> None:
        self._tickets.pop(_ticket(event), None)

    def _on_load_started(self, event: Event) -> None:
        if story := self._story(event):
            story.begin(_part("load", event, generation=event.facts["generation"]))

    def _on_published(self, event: Event) -> None:
        if story := self._story(event):
            story.end("load", event.model or "", event.at, None)

    def _on_load_failed(self, event: Event) -> None:
        if story := self._story(event):
            story.end("load", event.model or "", event.at, str(event.facts["error"]))

    def _on_run_started(self, event: Event) -> None:
        if story := self._story(event):
            facts = {name: event.facts[name] for name in ("slot", "generation")}
            story.begin(_part("run", event, **facts))

    def _on_run_ended(self, event: Event) -> None:
        if story := self._story(event):
            outcome = str(event.facts["outcome"])
            error = None if outcome == "ok" else outcome
            story.end("run", event.model or "", event.at, error, outcome=outcome)

    def _on_disconnected(self, event: Event) -> None:
        self._remembered(str(event.facts["request"])).cause = "client_left"


def _ticket(event: Event) -> tuple[str, int]:
    number = event.facts["ticket"]
    return event.model or "", number if isinstance(number, int) else 0


def _part(name: str, event: Event, **facts: Json) -> Part:
    return Part(name, event.at, event.model or "", facts)
