"""What a scenario works with: models of its own, calls under way, and a clock of its own speed.

All durations of a scenario are in *units*, whose length the run sets. A scenario whose situation
was over before it could be judged is tried again with longer units, so a slow machine costs time
and no wrong verdict. Order is judged by what results name (path, load, session), by counters, and
by lower bounds of time, which hold however slow anybody is.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf
from typing import Any, Final

import trio

from paraudio.conformance._verdicts import BrokenError, TooSlowError
from paraudio.conformance._watch import Row, Watch
from paraudio.conformance._wire import Answer, Call, Wire

_FIELDS: Final = {
    "active": "active_slots",
    "queued": "queued_requests",
    "managers": "queued_managers",
}
_TOLERANCE_S: Final = 0.02
"""What a server's clock may count less than ours."""
_PATIENCE: Final = 16
"""For how many units something that must come is waited for, beside `_EXTRA_S`."""
_EXTRA_S: Final = 2.0


class Bench:
    """One scenario's hold on the server.

    Args:
        wire: The server.
        watch: Its models.
        prefix: How the IDs of the scenario's models begin.
        parallel: Whether the server lets models have several slots.
        unit_s: Length of a unit, in seconds.

    Attributes:
        slots: How many slots its models have, unless it asks for others.
    """

    def __init__(
        self,
        wire: Wire,
        watch: Watch,
        *,
        prefix: str,
        parallel: bool,
        unit_s: float,
    ) -> None:
        self.wire = wire
        self.parallel = parallel
        self.unit_s = unit_s
        self.slots = 2 if parallel else 1
        self._watch = watch
        self._nursery: trio.Nursery | None = None
        self._prefix = prefix
        self._keys: dict[str, None] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[trio.CancelScope]:
        """Let calls run; yields what ends those that are left when the scenario is over."""
        async with trio.open_nursery() as self._nursery:
            yield self._nursery.cancel_scope

    # Models.

    def name(self, key: str) -> str:
        """The ID of the model that the scenario calls ``key``."""
        return f"{self._prefix}-{key}"

    @property
    def names(self) -> list[str]:
        """The IDs of all that it registered, or tried to."""
        return [self.name(key) for key in self._keys]

    def body(
        self,
        key: str,
        path: str = "/one",
        *,
        load: float = 0,
        unload: float = 0,
        slots: int | None = None,
        load_options: Mapping[str, object] | None = None,
        session_options: Mapping[str, object] | None = None,
        **more: object,
    ) -> dict[str, object]:
        """A model object: times in units, everything else as the server takes it."""
        times = {"load_ms": self.ms(load), "unload_ms": self.ms(unload)}
        count = {"slots": slots or self.slots} if self.parallel else {}
        return {
            "id": self.name(key),
            "family": "simulated",
            "path": path,
            "task": "tts",
            "mode": "offline",
            "load_options": {**times, **(load_options or {})},
            "session_options": dict(session_options or {}),
            **count,
            **more,
        }

    def register(self, key: str, path: str = "/one", **more: Any) -> Call:
        """Begin to register a model; see `body`."""
        return self.load(key, self.body(key, path, **more))

    def load(self, key: str, body: Mapping[str, object]) -> Call:
        """Begin to register a model by a whole model object."""
        self._keys[key] = None
        label = f"registration of {key} with {body['path']} and slots {body.get('slots')}"
        return self.start(label, "POST", "/v1/models/load", body)

    async def add(self, key: str, path: str = "/one", **more: Any) -> None:
        """Register a model and wait until it is loaded."""
        await self.good(self.register(key, path, **more))

    async def add_cold(self, key: str, path: str = "/one", **more: Any) -> None:
        """Register a model and unload it."""
        await self.add(key, path, **more)
        await self.good(self.unload(key))

    async def in_use(self) -> list[str]:
        """Those of its models that are not idle and unloaded, asked of the server itself."""
        shown = (await self.wire.ask("GET", "/v1/models")).json
        return [
            row["id"]
            for row in shown["data"]
            if row["id"] in self.names
            and (row["state"] != "unloaded" or any(row[name] for name in _FIELDS.values()))
        ]

    # Operations.

    def start(
        self,
        label: str,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Call:
        """Begin any request."""
        if self._nursery is None:
            raise RuntimeError("the bench is not open")
        return self.wire.start(
            self._nursery, label, self.wire.build(method, path, body, headers=headers)
        )

    def run(
        self,
        key: str,
        units: float = 0,
        *,
        bound_ms: int | None = None,
        fail: bool = False,
        request: str | None = None,
    ) -> Call:
        """Begin a request that runs for so many units."""
        body: dict[str, object] = {
            "model": self.name(key),
            "request": {"text": "hello", "options": {"run_ms": self.ms(units), "fail": fail}},
        }
        if bound_ms is not None:
            body["busy_timeout_ms"] = bound_ms
        headers = None if request is None else {"X-Request-Id": request}
        return self.start(f"request to {key}", "POST", "/v1/tasks/run", body=body, headers=headers)

    def stream(self, key: str, units: float, *, chunks: int = 8, fail: bool = False) -> Call:
        """Begin a request whose answer comes in pieces, over so many units."""
        options = {"run_ms": self.ms(units), "chunks": chunks, "fail": fail}
        return self.start(
            f"stream of {key}",
            "POST",
            "/v1/audio/speech",
            {
                "model": self.name(key),
                "input": "hello hello hello",
                "stream_format": "sse",
                "options": options,
            },
        )

    def batch(self, key: str, units: float) -> Call:
        """Begin a batch of two."""
        one = {"text": "hello", "options": {"run_ms": self.ms(units)}}
        return self.start(
            f"batch of {key}",
            "POST",
            "/v1/tasks/batch",
            {"model": self.name(key), "requests": [one, one]},
        )

    def unload(self, key: str, *, bound_ms: int | None = None) -> Call:
        """Begin to unload a model."""
        body: dict[str, object] = {"id": self.name(key)}
        if bound_ms is not None:
            body["busy_timeout_ms"] = bound_ms
        return self.start(f"unload of {key}", "POST", "/v1/models/unload", body)

    def bulk(self, *keys: str, fence: bool = False) -> Call:
        """Begin to unload several models."""
        body: dict[str, object] = {"model_ids": [self.name(key) for key in keys]}
        if fence:
            body["fence"] = True
        return self.start(f"bulk unload of {keys}", "POST", "/v1/tasks/unload_models", body)

    # Time.

    def ms(self, units: float) -> int:
        """Units in milliseconds."""
        return round(units * self.unit_s * 1000)

    def after(self, call: Call, units: float) -> float:
        """The moment so many units after a call was sent: it has not got so far before."""
        return call.sent_at + units * self.unit_s

    async def pass_time(self, until: float) -> None:
        """Wait until a moment."""
        await trio.sleep_until(until)

    # What is seen.

    async def row(self, key: str) -> Row:
        """How a model is now.

        Raises:
            BrokenError: It is not listed.
        """
        rows = await self._watch.fresh()
        if self.name(key) not in rows:
            raise BrokenError(f"{key} is not in the list of models")
        return rows[self.name(key)]

    async def until(self, key: str, **wanted: object) -> Row:
        """Wait until a model shows values (``state``, ``active``, ``queued``, ``managers``, …).

        Raises:
            TooSlowError: It did not, as far as was seen.
        """
        fields = {_FIELDS.get(name, name): value for name, value in wanted.items()}
        row: Row = {}
        with trio.move_on_after(self.patience_s):
            while True:
                row = (await self._watch.fresh()).get(self.name(key), {})
                if row and all(row.get(name) == value for name, value in fields.items()):
                    return row
        seen = {name: row.get(name) for name in fields}
        raise TooSlowError(f"{key} never showed {fields}; the last look showed {seen}")

    async def settled(self, key: str, state: str, path: str | None = None) -> Row:
        """Wait until nobody uses a model or waits for it, and it has come to a state."""
        row = await self.until(key, state=state, active=0, queued=0, managers=0)
        if path is not None and row.get("path") != path:
            raise BrokenError(f"{key} shows path {row.get('path')!r}, not {path!r}")
        return row

    @property
    def patience_s(self) -> float:
        """For how long something that must come is waited for."""
        return _PATIENCE * self.unit_s + _EXTRA_S

    # What is judged.

    async def good(self, call: Call) -> Any:
        """Wait for a call's answer, which must be 200 and JSON."""
        answer = await call.wait()
        if answer.status != 200:
            raise BrokenError(f"{call}: {answer}; it should be 200")
        return answer.json

    async def refused(self, call: Call, *codes: str, status: int = 503) -> Answer:
        """Wait for a call's answer, which must be an error with one of these codes."""
        answer = await call.wait()
        if answer.status != status or (codes and answer.error("code") not in codes):
            raise BrokenError(f"{call}: {answer}; it should be {status} {' or '.join(codes)}")
        if status == 503 and "retry-after" not in answer.headers:
            raise BrokenError(f"{call}: a 503 without Retry-After")
        return answer

    async def served(self, call: Call, path: str | None = None) -> Mapping[str, Any]:
        """Wait for a request's result: what made it (model, path, generation, session)."""
        shown = await self.good(call)
        made = shown.get("artifacts") if isinstance(shown, dict) else None
        if not isinstance(made, dict):
            raise BrokenError(f"{call}: its answer has no artifacts that say what made it")
        if path is not None and made.get("path") != path:
            raise BrokenError(f"{call}: served by {made.get('path')!r}, not by {path!r}")
        return made

    async def meanwhile(self, call: Call, hold: Call | None) -> None:
        """Wait for a call that must not wait for another one.

        Raises:
            TooSlowError: The other one had ended by then.
        """
        await call.wait()
        if hold is not None and hold.done:
            raise TooSlowError(f"{call} ended only after {hold}, for which it must not wait")

    def still(self, hold: Call | None, until: float = inf) -> None:
        """Make sure that what has to last for a judgement has lasted.

        Args:
            hold: What lasts.
            until: The moment before which it cannot have ended in the server: its answer, which
                takes its time, is no proof that it went on until then.

        Raises:
            TooSlowError: It has not, or may not have.
        """
        if hold is not None and (hold.done or trio.current_time() >= until):
            raise TooSlowError(f"{hold} had ended before it could be judged")

    def not_before(self, call: Call, moment: float, what: str) -> None:
        """Make sure that a call did not end before something could possibly have happened."""
        if call.ended_at < moment - _TOLERANCE_S:
            early = moment - call.ended_at
            raise BrokenError(f"{call} did not wait for {what}: it ended {early:.2f} s too early")

    def in_order(self, *calls: Call) -> None:
        """Make sure that calls ended in that order.

        Raises:
            TooSlowError: They ended so close to each other that the order in which we came to their
                answers may be our own.
        """
        for first, second in pairwise(calls):
            early = first.ended_at - second.ended_at
            if early > self.unit_s / 4:
                raise BrokenError(f"{second} ended before {first}, which came first")
            if early > 0:
                raise TooSlowError(f"{second} ended together with {first}, which came first")

    def expect(self, condition: object, message: str) -> None:
        """Make sure of anything else."""
        if not condition:
            raise BrokenError(message)
