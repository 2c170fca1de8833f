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
        self.free = 0
        self.put_all(total)

    def take(self) -> int:
        """Take the slot that has been free longest."""
        self.free -= 1
        return self._receive.receive_nowait()

    def take_all(self) -> tuple[int, ...]:
        """Take every slot; all must be free."""
        return tuple(sorted([self.take() for _ in range(self.total)]))

    def put(self, slot: int) -> None:
        """Give a slot back."""
        self._send.send_nowait(slot)
        self.free += 1

    def put_all(self, total: int) -> None:
        """Give every slot back, and let there be ``total`` from now on; all must be out."""
        self.total = total
        for slot in range(total):
            self.put(slot)
