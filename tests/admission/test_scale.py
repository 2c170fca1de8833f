"""Ten thousand tasks that wait in one line."""

import trio
import trio.testing

from paraudio.admission import Claim, ModelQueue, Ticket

REQUEST = Claim.REQUEST
MANY = 10_000
PIECE = 250
"""So many are dealt with in one step: no step of a task may keep the others waiting for long."""


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
            if number % PIECE == 0:
                await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        for number, scope in enumerate(scopes[::3]):
            scope.cancel()
            if number % PIECE == 0:
                await trio.lowlevel.checkpoint()
        for ticket in tickets:
            queue.leave(ticket)
    assert len(served) == MANY - len(scopes[::3])
    rank = {number: place for place, number in enumerate(sorted(served))}
    # Four at a time may wake in any order; nobody is served out of his four.
    assert all(abs(rank[number] - place) < 4 for place, number in enumerate(served))
    assert queue.snapshot().active_slots == 0
