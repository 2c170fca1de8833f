"""Runs the scenarios against a server and gathers what they came to."""

import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

import trio

from paraudio.conformance._bench import Bench
from paraudio.conformance._cells import cells
from paraudio.conformance._reasons import REASONS
from paraudio.conformance._scenario import Scenario
from paraudio.conformance._verdicts import (
    BrokenError,
    NoServerError,
    NotApplicableError,
    Report,
    Result,
    TooSlowError,
    Verdict,
)
from paraudio.conformance._watch import Watch
from paraudio.conformance._wire import Answer, Wire
from paraudio.conformance.scenarios import SCENARIOS, WATCHED
from paraudio.errors import UnauthorizedError

_TRIES: Final = 3
_CLEAN_S: Final = 30.0
_SILENCE_S: Final = 20
_PAUSE_S: Final = 0.05
_WATCH: Final = "every look at the models"


@dataclass
class _Outcome:
    """What the scenarios of one cell came to."""

    scenarios: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    passed: int = 0
    seconds: float = 0.0

    def result(self, cell: str) -> Result:
        """One scenario that fails fails the cell; one that passes is needed to pass it."""
        verdict, reasons = Verdict.NOT_APPLICABLE, self.reasons
        if self.failures:
            verdict, reasons = Verdict.FAIL, self.failures
        elif self.passed:
            verdict, reasons = Verdict.PASS, []
        return Result(cell, verdict, "; ".join(reasons), tuple(self.scenarios), self.seconds)


@dataclass(frozen=True, slots=True)
class _Server:
    """What the server is: whether it has several slots, and why it cannot be judged, if so."""

    parallel: bool
    closed: str | None = None


class _Run:
    """One run.

    Args:
        wire: The server.
        watch: Its models.
        server: What it is.
        prefix: How the IDs of this run's models begin.
        unit_s: Length of a unit at the first try.
        jobs: How many scenarios are played at once.
        said: Told of each scenario that has ended.
    """

    def __init__(
        self,
        wire: Wire,
        watch: Watch,
        server: _Server,
        *,
        prefix: str,
        unit_s: float,
        jobs: int,
        said: Callable[[str], None],
    ) -> None:
        self.outcomes: dict[str, _Outcome] = defaultdict(_Outcome)
        self._wire = wire
        self._watch = watch
        self._server = server
        self._prefix = prefix
        self._unit_s = unit_s
        self._places = trio.CapacityLimiter(jobs)
        self._said = said

    async def play_all(self, scenarios: Sequence[Scenario]) -> None:
        """Play scenarios side by side: each has models of its own."""
        async with trio.open_nursery() as nursery:
            for number, scenario in enumerate(scenarios):
                nursery.start_soon(self._play, scenario, number)

    async def _play(self, scenario: Scenario, number: int) -> None:
        async with self._places:
            began = trio.current_time()
            failure, reason = None, None
            try:
                self._check(scenario)
                await self._try(scenario, number)
            except NotApplicableError as error:
                reason = str(error)
            except (BrokenError, TooSlowError) as error:
                failure = str(error)
            seconds = trio.current_time() - began
        for cell in scenario.cells:
            self._note(cell, scenario.name, failure, reason, seconds)
        self._said(scenario.name)

    def _check(self, scenario: Scenario) -> None:
        if self._server.closed is not None:
            raise NotApplicableError(self._server.closed)
        if scenario.parallel not in (None, self._server.parallel):
            policy = "several slots a model" if scenario.parallel else "the serial policy"
            raise NotApplicableError(f"needs {policy}")

    async def _try(self, scenario: Scenario, number: int) -> None:
        """Play a scenario, more slowly if its situation was over too soon."""
        for attempt in range(_TRIES):
            prefix = f"{self._prefix}-{number}{'abc'[attempt]}"
            try:
                await self._once(scenario, prefix, self._unit_s * 2**attempt)
            except TooSlowError:
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    async def _once(self, scenario: Scenario, prefix: str, unit_s: float) -> None:
        bench = Bench(
            self._wire,
            self._watch,
            prefix=prefix,
            parallel=self._server.parallel,
            unit_s=unit_s,
        )
        try:
            error = await self._judge(scenario, bench)
        finally:
            await self._clean(bench)
        if error is not None:
            raise error

    async def _judge(self, scenario: Scenario, bench: Bench) -> Exception | None:
        """Play a scenario once; what it raised would be lost in the nursery's group."""
        error: Exception | None = None
        async with bench.open() as scope:
            try:
                with trio.fail_after(4 * bench.patience_s):
                    await scenario.play(bench)
            except (BrokenError, TooSlowError, NotApplicableError) as raised:
                error = raised
            except trio.TooSlowError:
                # Whether it would come later, only a longer wait can tell.
                error = TooSlowError("an answer that must come did not come")
            except (KeyError, TypeError, AttributeError) as raised:
                error = BrokenError(f"an answer has not the fields that it should have: {raised!r}")
            scope.cancel()
        return error

    async def _clean(self, bench: Bench) -> None:
        """Leave nothing loaded: what a scenario registered stays registered, as any model does.

        A request whose connection was closed may reach the server after the unload, and load the
        model once more. So this looks, and unloads again, until nothing is left.
        """
        if bench.names:
            with trio.move_on_after(_CLEAN_S, shield=True):
                body = {"model_ids": bench.names}
                try:
                    await self._wire.ask("POST", "/v1/tasks/unload_models", body)
                    while await bench.in_use():
                        await trio.sleep(_PAUSE_S)
                        await self._wire.ask("POST", "/v1/tasks/unload_models", body)
                except (BrokenError, KeyError, TypeError):
                    return  # it tells no list of models, and has failed for that

    def _note(
        self, cell: str, name: str, failure: str | None, reason: str | None, seconds: float
    ) -> None:
        outcome = self.outcomes[cell]
        outcome.scenarios.append(name)
        outcome.seconds += seconds
        if failure is not None:
            outcome.failures.append(f"{name}: {failure}")
        elif reason is not None:
            outcome.reasons.append(reason)
        else:
            outcome.passed += 1

    def judge_watch(self) -> None:
        """Note what was wrong with any look at the models, whoever's they were."""
        if self._watch.problems:
            for cell in WATCHED:
                self._note(cell, _WATCH, "; ".join(self._watch.problems), None, 0)


def _ignore(name: str) -> None:
    """Say nothing."""
    del name


async def conform(
    url: str,
    *,
    api_key: str | None = None,
    only: Sequence[str] = (),
    unit_s: float = 0.4,
    jobs: int = 16,
    said: Callable[[str], None] = _ignore,
) -> Report:
    """Judge a running server by every cell of the contract that can be seen from outside.

    It registers models of the simulated family under IDs of its own and unloads them afterwards;
    they stay registered. Models of others are left alone. Cancelled, it unloads its models first,
    for at most half a minute.

    Args:
        url: ``http://HOST:PORT`` or ``https://HOST:PORT``.
        api_key: A key of the server's, or None.
        only: Patterns of cell IDs, such as ``order/*``; empty for all.
        unit_s: Seconds of the unit of time; what is too fast to be judged is tried more slowly.
        jobs: How many scenarios are played at once.
        said: Told the name of each scenario when it has ended.

    Raises:
        NoServerError: Nothing there answers as it should.
        UnauthorizedError: The server needs a key, or another one.
    """
    chosen = [cell.id for cell in cells() if _wanted(cell.id, only)]
    scenarios = [each for each in SCENARIOS if any(cell in chosen for cell in each.cells)]
    began = trio.current_time()
    prefix = f"cf-{secrets.token_hex(4)}"
    async with Wire(url, api_key) as wire:
        server = await _look_at(wire, url, prefix)
        watch = Watch(wire, prefix, min(0.025, unit_s / 16))
        run = _Run(wire, watch, server, prefix=prefix, unit_s=unit_s, jobs=jobs, said=said)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            await run.play_all(scenarios)
            nursery.cancel_scope.cancel()
        run.judge_watch()
        gone = await _silence(wire)
    results = [_result(cell, run.outcomes) for cell in chosen]
    policy = "unknown" if server.closed else "parallel" if server.parallel else "serial"
    return Report(url, policy, trio.current_time() - began, results, gone)


def _wanted(cell: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatchcase(cell, pattern) for pattern in only)


def _result(cell: str, outcomes: dict[str, _Outcome]) -> Result:
    if cell in REASONS:
        return Result(cell, Verdict.NOT_APPLICABLE, REASONS[cell], (), 0.0)
    return outcomes[cell].result(cell)


async def _look_at(wire: Wire, url: str, prefix: str) -> _Server:
    """Find out what can be asked of a server, and which policy it has."""
    if silence := await _silence(wire):
        raise NoServerError(f"{url} does not answer: {silence}")
    listed = await wire.ask("GET", "/v1/models")
    if listed.status in (401, 403):
        raise UnauthorizedError(f"{url} wants a key (--api-key): {listed.said}", param="api_key")
    if listed.status != 200 or not _is_list(listed):
        asked = f"GET {url.rstrip('/')}/v1/models"
        raise NoServerError(f"no server of this kind is there: {asked} gives {listed.said}")
    return await _try_to_manage(wire, f"{prefix}-first")


async def _silence(wire: Wire) -> str:
    """Why the server does not answer; empty if it does, whatever it says."""
    try:
        with trio.fail_after(_SILENCE_S):
            await wire.ask("GET", "/v1/models")
    except BrokenError as error:
        return str(error)
    except trio.TooSlowError:
        return f"GET /v1/models: no answer within {_SILENCE_S} s"
    return ""


def _is_list(answer: Answer) -> bool:
    try:
        shown: Any = answer.json
    except BrokenError:
        return False
    return isinstance(shown, dict) and isinstance(shown.get("data"), list)


async def _try_to_manage(wire: Wire, name: str) -> _Server:
    """Register a model: what a server that cannot do that does otherwise tells nothing."""
    try:
        with trio.fail_after(_CLEAN_S):
            return await _policy(wire, name)
    except BrokenError as error:
        return _closed(f"a simulated model cannot be loaded here: {error}")
    except trio.TooSlowError:
        return _closed(f"a simulated model cannot be loaded here: no answer within {_CLEAN_S:g} s")


async def _policy(wire: Wire, name: str) -> _Server:
    model = {"id": name, "family": "simulated", "path": "/one", "task": "tts"}
    several = await wire.ask("POST", "/v1/models/load", {**model, "slots": 2})
    answer = several
    if several.status == 400 and "slots" in str(several.error("param")):
        answer = await wire.ask("POST", "/v1/models/load", model)
    await wire.ask("POST", "/v1/tasks/unload_models", {"model_ids": [name]})
    if answer.status in (401, 403, 404, 405):
        return _closed(f"models cannot be managed here: {answer.said}")
    if answer.status == 400:
        return _closed(f"no simulated model can be registered: {answer.said}")
    if answer.status != 200:
        return _closed(f"a simulated model cannot be loaded here: {answer.said}")
    return _Server(parallel=several.status == 200)


def _closed(reason: str) -> _Server:
    return _Server(parallel=False, closed=reason)
