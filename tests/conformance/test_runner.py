"""Slower tries, and what a run leaves behind."""

import gc
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from tests.conformance.inside import serving

from paraudio.conformance import NoServerError, Verdict, _runner, conform
from paraudio.conformance._bench import Bench
from paraudio.conformance._scenario import Scenario
from paraudio.conformance._verdicts import BrokenError, TooSlowError
from paraudio.conformance._wire import Answer, Wire
from paraudio.errors import UnauthorizedError

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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("", "/v1"), "GET http://127.0.0.1:[0-9]+/v1/v1/models gives 404: there is no such route"),
        (("http:", "https:"), "does not answer: .*ConnectError: .*SSL"),
        (("http://", "http://[:"), "is no URL"),
    ],
)
async def test_a_wrong_url_is_told_from_a_server_that_fails(
    wrong: tuple[str, str], said: str
) -> None:
    async with serving() as url:
        changed = url.replace(*wrong) if wrong[0] else url + wrong[1]
        with pytest.raises(NoServerError, match=said):
            await conform(changed, only=[CELL])


async def test_a_server_that_wants_a_key_says_so() -> None:
    async with serving(api_keys=["secret"]) as url:
        with pytest.raises(UnauthorizedError, match=r"--api-key.*401: .*API key") as caught:
            await conform(url, only=[CELL])
        assert caught.value.param == "api_key"
        report = await conform(url, api_key="secret", only=["state/unloaded"], unit_s=0.05)
    assert [result.verdict for result in report.results] == [Verdict.PASS]


async def test_a_server_that_cannot_be_managed_passes_nothing() -> None:
    async with serving(ui_management=False) as url:
        report = await conform(url, only=[CELL])
    [result] = report.results
    assert result.verdict is Verdict.NOT_APPLICABLE
    assert result.reason.startswith("models cannot be managed here: 4")
    assert (report.good, report.judged, report.policy) == (False, False, "unknown")


async def test_a_server_that_is_gone_at_the_end_is_told_from_one_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    died = False

    class MortalWire(Wire):
        """A server that nobody reaches any more once it has died."""

        async def ask(self, method: str, path: str, body: Any = None) -> Answer:
            if died:
                raise BrokenError(f"{method} {path}: no answer, ConnectError: refused")
            return await super().ask(method, path, body)

    async def scenario(bench: Bench) -> None:
        nonlocal died
        await bench.add("a")
        died = True

    monkeypatch.setattr(_runner, "Wire", MortalWire)
    monkeypatch.setattr(_runner, "SCENARIOS", (Scenario("one", (CELL,), scenario),))
    async with serving() as url:
        report = await conform(url, only=[CELL], unit_s=0.01)
    assert report.gone == "GET /v1/models: no answer, ConnectError: refused"
    assert not report.good


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
