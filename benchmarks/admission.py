"""What admission costs, beside the limit: Trio's own primitives, measured in the same run.

Run with ``python -m benchmarks.admission``; figures are microseconds of processor time per
operation, the best of a few rounds, so that a busy machine disturbs them little. Trust the ratios.
"""

import gc
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

import trio
import trio.testing

from paraudio.admission import Claim, ModelQueue

ROUNDS: Final = 5
TIMES: Final = 20_000
REQUEST: Final = Claim.REQUEST


class Lock(Protocol):
    """What ``trio.Semaphore`` and ``trio.CapacityLimiter`` have in common."""

    async def acquire(self) -> None:
        """Take a token."""

    def release(self) -> None:
        """Give it back."""


Work = Callable[[], Awaitable[int]]


async def measure(**works: Work) -> dict[str, float]:
    """Microseconds for each of the operations that each work performs and counts.

    The works take turns, so that a slow minute of the machine meets all of them.
    """
    costs: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.process_time()
            count = await work()
            costs[name].append((time.process_time() - start) / count * 1e6)
    return {name: min(times) for name, times in costs.items()}


async def bare_checkpoint() -> int:
    """A tick of the scheduler: every admission has one."""
    for _ in range(TIMES):
        await trio.lowlevel.checkpoint()
    return TIMES


async def uncontended(queue: ModelQueue) -> int:
    """Admit and release with a slot free."""
    for _ in range(TIMES):
        (await queue.admit(REQUEST)).release()
    return TIMES


async def uncontended_line(queue: ModelQueue) -> int:
    """The same without the checkpoint: what the decision itself costs."""
    for _ in range(TIMES):
        lease = queue.admit_nowait(REQUEST)
        assert lease is not None
        lease.release()
    return TIMES


async def uncontended_lock(lock: Lock) -> int:
    """Acquire and release with a token free."""
    for _ in range(TIMES):
        await lock.acquire()
        lock.release()
    return TIMES


async def handed_over(use: Callable[[], Awaitable[None]]) -> int:
    """Eight tasks that take turns at one slot: every release hands it over."""

    async def take_turns() -> None:
        for _ in range(TIMES // 8):
            await use()

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(take_turns)
    return TIMES


async def use_queue(queue: ModelQueue) -> None:
    """One turn at a queue, with a bound as real requests have."""
    with await queue.admit(REQUEST, bound_s=300):
        await trio.lowlevel.checkpoint()


async def use_lock(lock: Lock) -> None:
    """One turn at a lock."""
    await lock.acquire()
    try:
        await trio.lowlevel.checkpoint()
    finally:
        lock.release()


async def cancel_waiters(waiters: int, wait: Callable[[int], Awaitable[object]]) -> float:
    """Microseconds for each of many waiting tasks that are cancelled one by one."""
    scopes = [trio.CancelScope() for _ in range(waiters)]

    async def wait_in(scope: trio.CancelScope, number: int) -> None:
        with scope, trio.move_on_after(300):
            await wait(number)

    async with trio.open_nursery() as nursery:
        for number, scope in enumerate(scopes):
            nursery.start_soon(wait_in, scope, number)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        start = time.process_time()
        for scope in scopes[1::2] + scopes[::2]:
            scope.cancel()
        return (time.process_time() - start) / waiters * 1e6


async def print_cancel_cost(waiters: int) -> None:
    """Cancel all who wait for the only slot of a queue, and for a semaphore."""
    queue, semaphore = ModelQueue("bench", 1), trio.Semaphore(0)

    async def admit(number: int) -> None:
        await queue.admit(Claim.MANAGER if number % 2 else REQUEST)

    async def acquire(_: int) -> None:
        await semaphore.acquire()

    with await queue.admit(REQUEST):
        ours = await cancel_waiters(waiters, admit)
    bare = await cancel_waiters(waiters, acquire)
    print(f"  of {waiters:6d} waiters  admit {ours:7.2f} us, Semaphore {bare:7.2f} us")


def print_group(title: str, costs: dict[str, float], ours: str) -> None:
    """Print costs, and how many times each bare primitive ours costs."""
    print(f"\n{title}")
    for name, cost in costs.items():
        ratio = "" if name == ours else f", {costs[ours] / cost:.2f} times that is ours"
        print(f"  {name:22s}{cost:7.2f} us{ratio}")


async def main() -> None:
    """Measure and print."""
    queue, single = ModelQueue("bench", 4), ModelQueue("bench", 1)
    semaphore, limiter = trio.Semaphore(1), trio.CapacityLimiter(1)
    costs = await measure(
        checkpoint=bare_checkpoint,
        admit_nowait=partial(uncontended_line, queue),
        admit=partial(uncontended, queue),
        Semaphore=partial(uncontended_lock, semaphore),
        CapacityLimiter=partial(uncontended_lock, limiter),
    )
    beyond = costs["admit"] - costs["checkpoint"]
    print_group("take and release, a slot free", costs, "admit")
    print(f"  admit costs {beyond:.2f} us beyond the scheduler's tick (limit 5 us)")
    costs = await measure(
        admit=partial(handed_over, partial(use_queue, single)),
        Semaphore=partial(handed_over, partial(use_lock, semaphore)),
        CapacityLimiter=partial(handed_over, partial(use_lock, limiter)),
    )
    print_group("hand over, eight tasks at one slot (limit 60 us)", costs, "admit")
    print("\ncancel a waiter (limit: grows with the number of waiters as Trio's own does)")
    for waiters in (100, 1_000, 10_000):
        await print_cancel_cost(waiters)


if __name__ == "__main__":
    trio.run(main)
