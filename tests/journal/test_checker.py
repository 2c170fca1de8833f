"""The checker: histories as they should be, and for each rule some that break that rule alone."""

import gc
import tracemalloc

import pytest
from tests.journal.broken import BROKEN
from tests.journal.story import Story, ready

from paraudio.journal import Checker, Event, Kind, Violation, check
from paraudio.journal.checker._check import _rules


def a_whole_life() -> Story:
    """Everything that can rightly happen, from the start of a server to its end."""
    return (
        ready()
        # Two requests run side by side; a manager waits for both, and a third request for it.
        .held(2, 0, request="r2")
        .bound("r2", 2)
        .held(3, 1, request="r3")
        .bound("r3", 3)
        .runs("r2", 2, 0)
        .runs("r3", 3, 1)
        .queued(4, manager=True, bound_ms=60_000)
        .queued(5, bound_ms=60_000, request="r5")
        .later(1.0)
        .ran("r2", 2)
        .released(2, 0)
        .ran("r3", 3, "stopped")
        .released(3, 1)
        .granted(4, 0, 1)
        # The manager replaces the configuration: another number of slots.
        .state("ready", "reconfiguring")
        .retired(4, 1, "reconfigure")
        .destroyed(1)
        .resized(4, 1)
        .committed(4, 1, 2)
        .loaded(4, 2, sessions=1, config=2)
        .state("reconfiguring", "ready")
        .released(4, 0, 1)
        .granted(5, 0)
        .bound("r5", 5, 2)
        .runs("r5", 5, 0, 2)
        # Its client goes; the backend ignores the stop for a while.
        .gone("r5")
        .later(20)
        .stuck(5, 0)
        .ran("r5", 5, "stuck")
        .queued(6, manager=True, bound_ms=1000)
        .later(1.0)
        .left(6, "timeout")
        .freed(5, 0)
        .released(5, 0)
        # An unload; then a request loads, fails, and the next one retries.
        .held(7, 0, manager=True)
        .retired(7, 2)
        .state("ready", "unloading")
        .destroyed(2)
        .state("unloading", "unloaded")
        .released(7, 0)
        .held(8, 0, request="r8")
        .bound("r8", 8, 2)
        .loading(8, 3, config=2)
        .gone("r8")
        .later(5)
        .failed(8, 3)
        .released(8, 0)
        .tell(Kind.REFUSED, why="queue_full")
        # The end.
        .held(9, 0, request="r9")
        .bound("r9", 9, 2)
        .loaded(9, 4, sessions=1, config=2)
        .queued(10, manager=True)
        .queued(11)
        .phase("draining")
        .left(10, "shutting_down")
        .left(11, "shutting_down")
        .tell(Kind.REFUSED, why="shutting_down")
        .phase("stopping")
        .released(9, 0)
        .retired(None, 4, "shutdown")
        .destroyed(4)
        .phase("stopped")
    )


def test_a_whole_life_breaks_no_rule() -> None:
    assert check(a_whole_life().events, max_loaded_models=1) == []


@pytest.mark.parametrize("length", [1, 7, 20, 40, 60])
def test_a_journal_that_ends_in_the_middle_breaks_no_rule(length: int) -> None:
    assert check(a_whole_life().events[:length]) == []


def test_an_empty_journal_breaks_no_rule() -> None:
    assert check([]) == []


def test_the_lines_of_several_models_do_not_mix() -> None:
    story = (
        Story()
        .queued(1, model="a")
        .granted(1, 0, model="a")
        .queued(1, model="b", manager=True)
        .granted(1, 0, 1, model="b")
        .queued(2, model="b")
        .released(1, 0, model="a")
    )
    assert check(story.events) == []


def test_closing_a_queue_passes_over_those_who_could_be_granted_in_between() -> None:
    story = Story().registered(2).held(1, 0).queued(2, manager=True).queued(3)
    story.left(2, "shutting_down").left(3, "shutting_down")
    assert check(story.events) == []


def test_a_timeout_may_be_early_by_what_rounding_the_bound_takes() -> None:
    story = Story().held(1, 0).queued(2, bound_ms=1000).later(0.9995).left(2, "timeout")
    assert check(story.events) == []


def test_a_registration_holds_its_model_before_it_is_registered() -> None:
    story = Story().held(1, 0, 1, manager=True).registered(2).loaded(1, 1).bound("r", 1)
    assert check(story.runs("r", 1).ran("r", 1).released(1, 0, 1).held(2, 0).events) == []


def test_two_events_of_one_number_and_one_time_can_be_told_apart() -> None:
    story = Story().registered(1).held(1, 0).queued(2, bound_ms=10).skip(-1)
    story.queued(3, bound_ms=10).later(1).gone("r").skip(-1).gone("q").later(1).left(3)
    assert {each.rule for each in check(story.events)} == {"sequence", "wait"}


def test_a_ticket_may_leave_late_by_the_tolerance() -> None:
    story = Story().held(1, 0).queued(2, bound_ms=1000).later(1.2).left(2, "timeout")
    assert check(story.events) == []
    assert [each.rule for each in check(story.events, tolerance_s=0.1)] == ["wait"]


def waits(bound_s: float) -> Story:
    """A request, ticket 2, that waits for the only slot, with a bound."""
    return Story().registered(1).held(1, 0).queued(2, bound_ms=round(bound_s * 1000))


PAUSES: dict[str, tuple[Story, bool]] = {
    "due in the pause, kept soon after it": (waits(1.0).later(0.5).paused(9).later(0.2), True),
    "due in the pause, kept too late after it": (waits(1.0).later(0.5).paused(9).later(0.3), False),
    "due before the pause, and the rest of its time after it": (
        waits(1.0).later(1.1).paused(9).later(0.1),
        True,
    ),
    "due before the pause, and more than that": (waits(1.0).later(1.1).paused(9).later(0.2), False),
    "overdue before the pause": (waits(1.0).later(2).paused(9), False),
    "due after the pause, which is no excuse": (waits(10.0).paused(9).later(1.3), False),
    "due after the pause, and kept": (waits(10.0).paused(9).later(1.2), True),
}


@pytest.mark.contract("beyond/g09_journal_verifiable")
@pytest.mark.parametrize("what", PAUSES)
def test_a_process_that_does_not_run_is_not_late(what: str) -> None:
    story, kept = PAUSES[what]
    found = [each.rule for each in check(story.left(2, "timeout").events)]
    assert found == ([] if kept else ["wait"])


@pytest.mark.contract("beyond/g09_journal_verifiable")
@pytest.mark.parametrize("what", BROKEN)
def test_each_rule_finds_what_breaks_it(what: str) -> None:
    rules, story = BROKEN[what]
    assert {each.rule for each in check(story.events)} == set(rules.split())


def test_every_rule_is_broken_by_some_journal() -> None:
    broken = {rule for rules, _ in BROKEN.values() for rule in rules.split()}
    assert broken | {"residency"} == {rule.name for rule in _rules(0, 0.0)} | {"facts"}


def test_more_models_than_the_limit_are_noticed() -> None:
    story = ready()
    for model in ("a", "b"):
        story.registered(2, model=model).queued(1, model=model).granted(1, 0, model=model)
        story.loading(1, 1, model=model).published(1, 1, model=model)
    assert check(story.events) == []
    assert check(story.events, max_loaded_models=3) == []
    violations = check(story.events, max_loaded_models=2)
    assert [each.rule for each in violations] == ["residency"]
    assert "'b' was published beside 2 loaded models" in violations[0].message


def test_a_violation_names_the_events_that_show_it() -> None:
    story = Story().registered(2).held(1, 0).queued(2, manager=True).queued(3).granted(3, 1)
    [violation] = check(story.events)
    assert violation == Violation(
        rule="barrier",
        message="ticket 3 of 'm' has passed manager 2 of 'm'",
        seqs=(4, 5, 6),
    )
    assert str(violation) == (
        "barrier: ticket 3 of 'm' has passed manager 2 of 'm' (events 4, 5, 6)"
    )
    [lonely] = check([Event(1, 0.0, Kind.GRANTED, "m", {"ticket": 1, "slots": [0]})])
    assert str(lonely) == "queued: ticket 1 of 'm' was never queued (event 1)"


def excused(excuse: str) -> Story:
    """A client goes while its ticket is held, and something keeps the lease."""
    story = ready()
    match excuse:
        case "a run":
            story.held(2, 0, request="r").bound("r", 2).runs("r", 2).gone("r")
        case "a run that has ended":
            story.held(2, 0, request="r").bound("r", 2).runs("r", 2).ran("r", 2).gone("r")
        case "its own load":
            story.held(2, 0, 1, manager=True).retired(2, 1).destroyed(1).released(2, 0, 1)
            story.held(3, 0, request="r").loading(3, 2).gone("r")
        case "its own teardown":
            story.held(2, 0, request="r").retired(2, 1, "broken").gone("r")
        case "a stuck slot":
            story.held(2, 0, request="r").stuck(2, 0).gone("r")
        case "its work as a manager":
            story.held(2, 0, 1, manager=True, request="r").gone("r")
        case "nothing, since it was released":
            story.held(2, 0, request="r").gone("r").later(0.3).released(2, 0)
        case _:
            story.held(2, 0, request="r").gone("r")
    return story.later(100).tell(Kind.REFUSED, why="server_busy")


@pytest.mark.parametrize(
    "excuse",
    [
        "a run",
        "a run that has ended",
        "its own load",
        "its own teardown",
        "a stuck slot",
        "its work as a manager",
        "nothing, since it was released",
    ],
)
def test_a_lease_whose_client_is_gone_may_be_kept_by(excuse: str) -> None:
    assert check(excused(excuse).events) == []


def test_a_lease_whose_client_is_gone_needs_an_excuse() -> None:
    assert [each.rule for each in check(excused("").events)] == ["disconnect"]


def test_the_id_of_a_request_that_is_gone_may_be_that_of_another() -> None:
    story = ready().held(2, 0, 1, manager=True).queued(3, request="r").gone("r").left(3)
    story.queued(4, request="r").later(100).released(2, 0, 1).granted(4, 0)
    assert check(story.released(4, 0).events) == []
    again = (
        ready()
        .held(2, 0, 1, manager=True)
        .queued(3, request="r")
        .gone("r")
        .queued(4, request="r")
        .later(100)
    )
    rules = [each.rule for each in check(again.released(2, 0, 1).events)]
    assert "disconnect" in rules


def test_what_shutdown_cut_need_not_balance() -> None:
    story = ready().held(2, 0).phase("stopping").cut().phase("stopped")
    assert check(story.events) == []


def test_a_stuck_slot_may_be_left_at_the_end() -> None:
    story = ready().held(2, 0).bound("r", 2).runs("r", 2).phase("stopping")
    story.retired(None, 1, "shutdown").ran("r", 2, "stuck").stuck(2, 0).destroyed(1)
    assert check(story.phase("stopped").events) == []


def test_a_journal_without_its_end_need_not_balance() -> None:
    assert check(ready().held(2, 0).queued(3, manager=True).phase("stopping").events) == []


def test_further_facts_are_allowed() -> None:
    story = Story().tell(Kind.REFUSED, why="server_busy", model_age=3)
    assert check(story.events) == []


def test_after_a_violation_the_rest_is_judged_on_its_own() -> None:
    story = (
        Story()
        .registered(2)
        .tell(Kind.GRANTED, ticket=1)  # a flaw, and skipped
        .held(1, 0)
        .granted(1, 0)  # twice
        .released(1, 0)
        .held(2, 0, 1, manager=True)
        .released(2, 0, 1)
    )
    assert [each.rule for each in check(story.events)] == ["facts", "lease"]


def serve(story: Story, tickets: range) -> list[Event]:
    """Requests that wait for nobody, one after another; takes the events out of the story."""
    for ticket in tickets:
        request = f"r{ticket}"
        story.queued(ticket, bound_ms=600_000, request=request).granted(ticket, 0)
        story.bound(request, ticket).runs(request, ticket).later(0.001).ran(request, ticket)
        story.released(ticket, 0)
    events, story.events = story.events, []
    return events


def test_a_long_journal_takes_the_memory_of_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paraudio.journal.checker._changes.REMEMBERED", 50)
    monkeypatch.setattr("paraudio.journal.checker._rule.MANY", 50)
    story, checker, sizes = ready(), Checker(), []
    tracemalloc.start()
    try:
        for first in range(2, 1202, 300):
            events = serve(story, range(first, first + 300))
            while events:
                checker.see(events.pop(0))
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert checker.violations == []
    assert sizes[-1] < 1.2 * sizes[0]


def test_what_was_over_long_ago_can_still_be_told_from_what_never_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paraudio.journal.checker._changes.REMEMBERED", 5)
    story = ready()
    events = serve(story, range(2, 20))
    for ticket in (19, 2, 20):
        story.released(ticket, 0)
    found = [str(each).partition(" (")[0] for each in check([*events, *story.events])]
    assert found == [
        "lease: ticket 19 of 'm' cannot be released: it is released",
        "queued: ticket 2 of 'm' was over long ago",
        "queued: ticket 20 of 'm' was never queued",
    ]


def test_generations_that_are_gone_are_forgotten_and_never_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paraudio.journal.checker._changes.REMEMBERED", 2)
    story = ready().held(2, 0, 1, manager=True).retired(2, 1).destroyed(1)
    for generation in range(2, 8):
        story.loading(2, generation).failed(2, generation)
    assert check(story.events) == []
    assert [each.rule for each in check(story.loading(2, 3).events)] == ["load"]


def test_one_gap_in_the_tickets_is_one_violation() -> None:
    story = ready()
    events = [event for event in serve(story, range(2, 12)) if event.facts.get("ticket") != 5]
    events = [event for event in events if event.facts.get("request") != "r5"]
    rules = [each.rule for each in check(events)]
    assert rules.count("queued") == 1
    assert set(rules) == {"queued", "sequence"}
