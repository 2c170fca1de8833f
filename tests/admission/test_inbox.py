"""The inbox: who leaves it from the middle is dropped in time, and nobody else notices."""

import random
from math import inf

import pytest

from paraudio.admission import Claim, ModelQueue, Ticket
from paraudio.admission._inbox import Inbox

REQUEST, MANAGER = Claim.REQUEST, Claim.MANAGER
MANY = 2_000


def stored(inbox: Inbox) -> int:
    """Tickets that the inbox keeps alive, the living and the dead."""
    return inbox._receive.statistics().current_buffer_used + (inbox.head is not None)


def make(number: int, claim: Claim = REQUEST) -> Ticket:
    return Ticket(number, claim, None, inf, inf)


def strike(inbox: Inbox, ticket: Ticket) -> None:
    ticket.failure = RuntimeError
    inbox.remove(ticket)


@pytest.mark.parametrize("order", ["oldest first", "youngest first", "at random"])
def test_tombstones_never_outnumber_the_living_by_much(order: str) -> None:
    inbox = Inbox()
    tickets = [make(number) for number in range(MANY)]
    for ticket in tickets:
        inbox.put(ticket)
    if order == "youngest first":
        tickets.reverse()
    elif order == "at random":
        random.Random(7).shuffle(tickets)
    for gone, ticket in enumerate(tickets, 1):
        strike(inbox, ticket)
        assert len(inbox) == MANY - gone
        assert stored(inbox) <= 2 * len(inbox) + 34
    assert inbox.head is None


def test_a_long_living_head_does_not_let_tombstones_pile_up() -> None:
    inbox = Inbox()
    head = make(0, MANAGER)
    inbox.put(head)
    for number in range(1, MANY):
        ticket = make(number)
        inbox.put(ticket)
        strike(inbox, ticket)
        assert stored(inbox) < 64
    assert inbox.head is head
    assert (inbox.requests, inbox.managers) == (0, 1)


def test_the_living_keep_their_order_through_compaction() -> None:
    inbox = Inbox()
    tickets = [make(number) for number in range(1000)]
    for ticket in tickets:
        inbox.put(ticket)
    gone = random.Random(11).sample(tickets[1:], 900)
    for ticket in gone:
        strike(inbox, ticket)
    living = [ticket for ticket in tickets if ticket.waiting]
    order = []
    while (head := inbox.head) is not None:
        order.append(head)
        strike(inbox, head)
    assert order == living


def test_leaving_looks_at_a_constant_number_of_tickets(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def count_looks(ticket: Ticket) -> bool:
        nonlocal looks
        looks += 1
        return ticket.lease is None and ticket.failure is None

    queue = ModelQueue("voice", 1, clock=lambda: 0.0)
    queue.enter(REQUEST)
    tickets = [queue.enter(REQUEST) for _ in range(MANY)]
    random.Random(3).shuffle(tickets)
    monkeypatch.setattr(Ticket, "waiting", property(count_looks))
    for ticket in tickets:
        queue.leave(ticket)
    assert looks < 5 * MANY


def test_positions_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ModelQueue("voice", 1, clock=lambda: 0.0)
    queue.enter(REQUEST)
    tickets = [queue.enter(REQUEST) for _ in range(MANY)]
    assert [queue.position(ticket) for ticket in tickets] == list(range(MANY))
    monkeypatch.setattr(Inbox, "_sweep", None)
    assert queue.position(tickets[-1]) == MANY - 1
