"""What the simulated family counts, so that "the first N" of something can fail."""

import json
import threading
from collections import Counter
from typing import Literal

from paraudio.engines._values import Load

What = Literal["loads", "sessions", "runs", "prepares"]


class Ledger:
    """Counts by configuration; safe to use from several threads, and can be pickled.

    Attributes:
        first_session: How many sessions of its load were built elsewhere (in other processes).
    """

    def __init__(self) -> None:
        self.first_session = 0
        self._counts: Counter[tuple[What, str]] = Counter()
        self._lock = threading.Lock()

    def next(self, what: What, load: Load) -> int:
        """Count one more ``what`` of a configuration; the first is 1."""
        with self._lock:
            self._counts[what, _key(load)] += 1
            return self._counts[what, _key(load)]

    def branch(self, load: Load, number: int) -> "Ledger":
        """The ledger of a worker that loads ``load`` and builds its session ``number``, from 1.

        The load counts here only for session 1; the session counts here, and the worker starts
        from where it finds its own load and session next.
        """
        loads = self.next("loads", load) if number == 1 else self._seen("loads", load)
        sessions = self.next("sessions", load)
        copy = Ledger()
        copy.first_session = number - 1
        copy._counts["loads", _key(load)] = loads - 1
        copy._counts["sessions", _key(load)] = sessions - 1
        return copy

    def _seen(self, what: What, load: Load) -> int:
        with self._lock:
            # A worker whose load is not counted must still not be taken for a first one.
            return self._counts[what, _key(load)] + 1

    def __getstate__(self) -> dict[str, object]:
        return {"first_session": self.first_session, "_counts": self._counts}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def _key(load: Load) -> str:
    return json.dumps(
        [load.model_id, load.path, dict(load.options), dict(load.session_options)], sort_keys=True
    )
