"""The free slots: a memory channel whose items are the numbers of the slots that nobody holds."""

import trio

from paraudio.spec import MAX_SLOTS


def check_slots(slots: int) -> None:
    """Raise ``ValueError`` for a number of slots that no model can have."""
    if not 1 <= slots <= MAX_SLOTS:
        raise ValueError(f"slots must be 1..{MAX_SLOTS}, not {slots}")


class FreeSlots:
    """Tokens, one a slot: whoever took a token owns the slot until the token is back.

    Attributes:
        total: All slots of the model.
        free: Slots whose token is here.
    """

    def __init__(self, total: int) -> None:
        check_slots(total)
        self._send, self._receive = trio.open_memory_channel[int](MAX_SLOTS)
        self.total = total
        self.free = 0
        self.put(range(total))

    def take(self, count: int) -> tuple[int, ...]:
        """Take ``count`` free slots; the one that has been free longest comes first."""
        self.free -= count
        return tuple([self._receive.receive_nowait() for _ in range(count)])

    def put(self, slots: "tuple[int, ...] | range") -> None:
        """Give slots back."""
        for slot in slots:
            self._send.send_nowait(slot)
        self.free += len(slots)

    def renew(self, total: int) -> None:
        """Start over with another number of slots, all free; every token must be out."""
        self.total = total
        self.put(range(total))
