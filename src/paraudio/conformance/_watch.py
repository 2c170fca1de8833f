"""What ``GET /v1/models`` shows, looked at again and again, for all scenarios.

One loop asks for everybody who waits for a state, so a run costs the server one question at a time.
Each picture is held to what must be true of any: that is how the status cells are judged.
"""

from collections.abc import Mapping
from typing import Any, Final

import trio

from paraudio.conformance._verdicts import BrokenError
from paraudio.conformance._wire import Wire

Row = Mapping[str, Any]

_COUNTERS: Final = ("slots", "active_slots", "queued_requests", "queued_managers")
_LOADED: Final[Mapping[object, bool | None]] = {
    "unloaded": False,
    "loading": False,
    "ready": True,
    "reconfiguring": None,
    "unloading": False,
}
_ENOUGH: Final = 5


class Watch:
    """Looks at the models whenever somebody waits for news of them.

    Args:
        wire: The server.
        prefix: How the IDs of this run's models begin; others are not judged.
        pace_s: The least time between two looks.
    """

    def __init__(self, wire: Wire, prefix: str, pace_s: float) -> None:
        self._wire = wire
        self._prefix = prefix
        self._pace_s = pace_s
        self._begun = self._done = 0
        self._rows: dict[str, Row] = {}
        self._failure: str | None = None
        self._wanted = trio.Event()
        self._news = trio.Event()
        self._judge = Judge()

    @property
    def problems(self) -> list[str]:
        """What was wrong with the pictures, the first few."""
        return self._judge.problems

    async def run(self) -> None:
        """Look for as long as there is anybody to look for; ends only by cancellation."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            self._begun += 1
            await self._look()
            self._done = self._begun
            self._news.set()
            self._news = trio.Event()
            await trio.sleep(self._pace_s)

    async def fresh(self) -> Mapping[str, Row]:
        """This run's models by ID, as they were at one moment after this was called.

        Raises:
            BrokenError: The server does not tell.
        """
        wanted = self._begun + 1
        while self._done < wanted:
            self._wanted.set()
            await self._news.wait()
        if self._failure is not None:
            raise BrokenError(self._failure)
        return self._rows

    async def _look(self) -> None:
        try:
            answer = await self._wire.ask("GET", "/v1/models")
            shown = answer.json
            rows = {str(row["id"]): row for row in shown["data"]}
        except (BrokenError, TypeError, KeyError) as error:
            self._failure = f"GET /v1/models is not a list of models: {error!r}"
            return
        self._failure = None
        self._rows = {name: row for name, row in rows.items() if name.startswith(self._prefix)}
        self._judge.judge(shown.get("revision"), self._rows)


class Judge:
    """What must hold of every picture, and of every two that follow each other."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._revision = -1
        self._rows: Mapping[str, Row] = {}
        self._configs: dict[tuple[str, object], object] = {}

    def judge(self, revision: object, rows: Mapping[str, Row]) -> None:
        """Hold a picture to the rules, and to the one before it."""
        for name, row in rows.items():
            self._row(name, row)
        if not isinstance(revision, int) or isinstance(revision, bool):
            self._say(f"revision is {revision!r}, not a whole number")
            return
        if revision < self._revision:
            self._say(f"revision fell from {self._revision} to {revision}")
        if revision == self._revision and rows != self._rows:
            self._say(f"models changed, and revision {revision} did not")
        self._revision, self._rows = revision, rows

    def _row(self, name: str, row: Row) -> None:
        counts = [row.get(counter) for counter in _COUNTERS]
        if not all(isinstance(count, int) and count >= 0 for count in counts):
            self._say(f"{name}: {_COUNTERS} are {counts}, not counts")
            return
        state, loaded, capacity = row.get("state"), row.get("loaded"), row.get("max_parallel_slots")
        if state not in _LOADED or not isinstance(loaded, bool):
            self._say(f"{name}: state is {state!r} and loaded is {loaded!r}")
            return
        if _LOADED[state] not in (None, loaded):
            self._say(f"{name}: {state}, and loaded is {loaded}")
        if (capacity is not None) != loaded:
            self._say(f"{name}: loaded is {loaded}, and max_parallel_slots is {capacity!r}")
        if row["active_slots"] > row["slots"]:
            self._say(f"{name}: {row['active_slots']} of {row['slots']} slots are active")
        if row.get("config") is not None:
            seen = (row.get("path"), row.get("slots"), row.get("task"), row.get("mode"))
            if self._configs.setdefault((name, row["config"]), seen) != seen:
                self._say(f"{name}: configuration {row['config']} shows a mixture: {seen}")

    def _say(self, problem: str) -> None:
        if len(self.problems) < _ENOUGH and problem not in self.problems:
            self.problems.append(problem)
