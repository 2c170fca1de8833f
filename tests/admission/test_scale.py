"""Ten thousand waiters: order, memory and the amount of work stay what they should be."""

import random
from math import inf

import pytest
import trio
import trio.testing

from paraudio.admission import Claim, ModelQueue, Ticket
from paraudio.admission._inbox import Inbox

REQUEST, MANAGER = Claim.REQUEST, Claim.MANAGER
MANY = 10_000


def still_queue() -> ModelQueue:
    return ModelQueue("voice", 1, clock=lambda: 0.0)


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

    queue = still_queue()
    queue.enter(REQUEST)
    tickets = [queue.enter(REQUEST) for _ in range(MANY)]
    random.Random(3).shuffle(tickets)
    monkeypatch.setattr(Ticket, "waiting", property(count_looks))
    for ticket in tickets:
        queue.leave(ticket)
    assert looks < 5 * MANY


def test_ten_thousand_positions_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = still_queue()
    queue.enter(REQUEST)
    tickets = [queue.enter(REQUEST) for _ in range(MANY)]
    assert [queue.position(ticket) for ticket in tickets] == list(range(MANY))
    monkeypatch.setattr(Inbox, "_sweep", None)
    assert queue.position(tickets[-1]) == MANY - 1


async def test_ten_thousand_tasks_are_served_in_order_with_every_third_one_leaving(
    autojump_clock: trio.testing.MockClock,
) -> None:
    queue = ModelQueue("voice", 4)
    served: list[int] = []
    scopes = [trio.CancelScope() for _ in range(MANY)]
    tickets = [queue.enter(REQUEST) for _ in range(4)]

    async def use(number: int, ticket: Ticket) -> None:
        with scopes[number], await queue.wait(ticket):
            served.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(MANY):
            nursery.start_soon(use, number, queue.enter(REQUEST))
        await trio.testing.wait_all_tasks_blocked()
        for scope in scopes[::3]:
            scope.cancel()
        for ticket in tickets:
            queue.leave(ticket)
    assert len(served) == MANY - len(scopes[::3])
    rank = {number: place for place, number in enumerate(sorted(served))}
    # Four at a time may wake in any order; nobody is served out of his four.
    assert all(abs(rank[number] - place) < 4 for place, number in enumerate(served))
    assert queue.snapshot().active_slots == 0
