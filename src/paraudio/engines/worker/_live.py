"""What a live session may give: deltas for a piece, and the whole at the end, once."""

from collections.abc import Sequence

from paraudio.engines._values import StreamEvent


def deltas(given: Sequence[StreamEvent]) -> tuple[StreamEvent, ...]:
    """What one piece gave.

    Raises:
        TypeError: The family gave something else than events, or the whole result already.
    """
    events = _events(given)
    if any(event.result is not None for event in events):
        raise TypeError("the family gave a result although its input has not ended")
    return events


def ending(given: Sequence[StreamEvent]) -> tuple[StreamEvent, ...]:
    """What the end of the input gave.

    Raises:
        TypeError: The family gave something else than events, or not one result and that last.
    """
    events = _events(given)
    if [event.result is not None for event in events] != [False] * (len(events) - 1) + [True]:
        raise TypeError("the family gave not one result at the end of its input, and that last")
    return events


def _events(given: Sequence[StreamEvent]) -> tuple[StreamEvent, ...]:
    for event in given:
        if not isinstance(event, StreamEvent):
            raise TypeError(f"the family gave {type(event).__name__}, not StreamEvent")
    return tuple(given)
