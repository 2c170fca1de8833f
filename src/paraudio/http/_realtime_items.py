"""What a realtime session remembers of what was said: its items, and what was written down."""

from typing import Final

from paraudio.errors import InvalidRequestError
from paraudio.http._fields import shown

MOST_ITEMS: Final = 1000
"""How many items are remembered; of a longer conversation, the last ones."""


class Items:
    """The items of one session, in their order.

    Attributes:
        last: The ID of the last one that is still there, or None.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str | None] = {}

    @property
    def last(self) -> str | None:
        """The ID of the last item, or None."""
        return next(reversed(self._texts), None)

    def add(self, item_id: str) -> None:
        """Remember an item that was committed."""
        self._texts[item_id] = None
        if len(self._texts) > MOST_ITEMS:
            del self._texts[next(iter(self._texts))]

    def write(self, item_id: str, text: str) -> None:
        """Remember what was said, if the item is still there."""
        if item_id in self._texts:
            self._texts[item_id] = text

    def text(self, item_id: str) -> str | None:
        """What was said; None while that is not known.

        Raises:
            InvalidRequestError: There is no such item.
        """
        self._check(item_id)
        return self._texts[item_id]

    def delete(self, item_id: str) -> None:
        """Forget an item.

        Raises:
            InvalidRequestError: There is no such item.
        """
        self._check(item_id)
        del self._texts[item_id]

    def _check(self, item_id: str) -> None:
        if item_id not in self._texts:
            raise InvalidRequestError(
                f"item_id must be the ID of an item of this session, not {shown(item_id)}; the "
                f"last {MOST_ITEMS} that were not deleted are known",
                param="item_id",
            )
