"""What a drain still waits for, in one line: how many of each kind, and the oldest of them."""

import logging
from collections import Counter
from typing import Final

import trio

from paraudio.http import Api, phase_of, places_by_request
from paraudio.lifecycle import Runtime, State
from paraudio.server._custom import CustomListeners

log = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
"""How often a drain says what is left."""

NOTHING: Final = "nothing"
"""The line where nothing is left."""

_UPGRADED: Final = 101
_UNWANTED: Final = {
    State.LOADING: ("load that nobody waits for", "loads that nobody waits for"),
    State.RECONFIGURING: (
        "replacement that nobody waits for",
        "replacements that nobody waits for",
    ),
    State.UNLOADING: ("unload that nobody waits for", "unloads that nobody waits for"),
}
_WEBSOCKET: Final = ("websocket", "websockets")
_LISTENER: Final = ("other listener", "other listeners")
"""How one of a kind is told, and how several are."""


class Waiting:
    """Looks at what is left of a server that drains.

    Args:
        app: The application, with its requests.
        runtime: The models.
        custom: The listeners of other kinds.
    """

    def __init__(self, app: Api, runtime: Runtime, custom: CustomListeners) -> None:
        self._app = app
        self._runtime = runtime
        self._custom = custom

    def counts(self) -> dict[tuple[str, str], int]:
        """How many of each kind there are now; a kind is how one of it is told, and several."""
        found: Counter[tuple[str, str]] = Counter()
        waited_for: set[str] = set()
        places = places_by_request(self._app.core)
        for each in self._app.core.in_flight.values():
            held = places.get(each.id, ())
            phase = phase_of(each, held)
            upgraded = each.sender.status == _UPGRADED and phase == "streaming"
            found[_WEBSOCKET if upgraded else (phase, phase)] += 1
            waited_for.update(place.model for place in held)
        for model in self._runtime.snapshot().models:
            if model.state in _UNWANTED and model.spec.id not in waited_for:
                found[_UNWANTED[model.state]] += 1
        if self._custom.running:
            found[_LISTENER] = self._custom.running
        return found

    def line(self) -> str:
        """All of it in a line, ``2 running, 1 queued; the oldest: …``, or ``nothing``."""
        counts = self.counts()
        if not counts:
            return NOTHING
        told = ", ".join(
            f"{count} {one if count == 1 else several}" for (one, several), count in counts.items()
        )
        oldest = min(self._app.core.in_flight.values(), key=lambda one: one.started, default=None)
        if oldest is None:
            return told
        age = trio.current_time() - oldest.started
        what = f"{oldest.request.method} {oldest.path}"
        model = "" if oldest.model is None else f" of {oldest.model}"
        return f"{told}; the oldest: {what}{model}, request {oldest.id}, for {age:.0f} s"

    async def say_again(self, bound_s: float) -> None:
        """Log what is left, every few seconds until it is cancelled.

        Args:
            bound_s: How long the drain may take in all.
        """
        ends = trio.current_time() + bound_s
        while True:
            await trio.sleep(AGAIN_S)
            left = max(0.0, ends - trio.current_time())
            log.info("still waiting for %s; %.0f s are left", self.line(), left)
