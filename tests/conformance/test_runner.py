"""Slower tries, and what a run leaves behind."""

import gc
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from tests.conformance.inside import serving

from paraudio.conformance import Verdict, _runner, conform
from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario
from paraudio.conformance._verdicts import BrokenError, TooSlowError
from paraudio.conformance._wire import Answer, Wire

CELL = "ops/ready/inference"


async def play(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> tuple[Verdict, list[float]]:
    """Judge one scenario that raises these, one a try, and then passes; with the units it had."""
    left, units = list(errors), []

    async def scenario(bench: Bench) -> None:
        units.append(bench.unit_s)
        await bench.add("a")
        if left:
            raise left.pop(0)

    monkeypatch.setattr(_runner, "SCENARIOS", (Scenario("one", (CELL,), scenario),))
    async with serving() as url:
        report = await conform(url, only=[CELL], unit_s=0.01)
    [result] = report.results
    return result.verdict, units


async def test_what_was_too_slow_is_tried_with_longer_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict, units = await play(monkeypatch, TooSlowError("late"), TooSlowError("late"))
    assert (verdict, units) == (Verdict.PASS, [0.01, 0.02, 0.04])


async def test_what_stays_too_slow_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, units = await play(monkeypatch, *[TooSlowError("late") for _ in range(3)])
    assert (verdict, len(units)) == (Verdict.FAIL, 3)


@pytest.mark.parametrize("error", [BrokenError("wrong"), KeyError("unloaded")])
async def test_what_is_broken_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    verdict, units = await play(monkeypatch, error)
    assert (verdict, units) == (Verdict.FAIL, [0.01])


async def loaded(url: str) -> tuple[int, list[str]]:
    """How many models are listed, and which of them are not idle and unloaded."""
    async with httpx.AsyncClient() as client:
        shown = (await client.get(f"{url}/v1/models")).json()["data"]
    counters = ("active_slots", "queued_requests", "queued_managers")
    busy = [
        row["id"]
        for row in shown
        if row["state"] != "unloaded" or any(row[counter] for counter in counters)
    ]
    return len(shown), busy


@pytest.mark.parametrize("interrupted", [False, True])
async def test_a_run_leaves_nothing_loaded_whether_it_ends_or_is_interrupted(
    interrupted: bool,
) -> None:
    scope = trio.CancelScope()

    def said(_: str) -> None:
        if interrupted:
            scope.cancel()  # one scenario has ended, the others are in the midst of theirs

    async with serving() as url:
        with scope:
            only = ["fail/*", "two/a_full_queued_b_ready/*"]
            await conform(url, only=only, unit_s=0.1, said=said)
        assert scope.cancelled_caught is interrupted
        count, busy = await loaded(url)
        assert count > 1
        assert busy == []


async def test_a_registration_that_arrives_after_the_unload_is_unloaded_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late: list[str] = []

    class LateWire(Wire):
        """Delivers a registration whose client has left already, behind the unload."""

        async def ask(self, method: str, path: str, body: Any = None) -> Answer:
            answer = await super().ask(method, path, body)
            if path == "/v1/tasks/unload_models" and not body["model_ids"][0].endswith("-first"):
                [model] = body["model_ids"]
                if not late:
                    late.append(model)
                    spec = {"id": model, "family": "simulated", "path": "/one", "task": "tts"}
                    await super().ask("POST", "/v1/models/load", spec)
            return answer

    async def scenario(bench: Bench) -> None:
        await bench.add("a")

    monkeypatch.setattr(_runner, "Wire", LateWire)
    monkeypatch.setattr(_runner, "SCENARIOS", (Scenario("one", (CELL,), scenario),))
    async with serving() as url:
        await conform(url, only=[CELL], unit_s=0.01)
        assert late
        assert (await loaded(url))[1] == []


async def test_a_request_that_is_left_while_it_is_sent_leaves_nothing_to_the_collector() -> None:
    """A generator that is collected before its end warns, and warnings are errors here."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with Wire(url, None) as wire, trio.open_nursery() as nursery:
            # Nobody reads it, so it cannot be sent to its end.
            call = wire.start(nursery, "large", wire.build("POST", "/", "x" * 2**26))
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not call.done
            call.leave()
            await call.ended.wait()
    gc.collect()
