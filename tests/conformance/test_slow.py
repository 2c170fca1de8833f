"""A client that is slow itself, or a server that fails at first, costs no wrong verdict."""

from typing import Any
from unittest.mock import Mock

import pytest
import trio
from tests.conformance.inside import serving

from paraudio.conformance import Verdict, _runner, conform
from paraudio.conformance._bench import Bench
from paraudio.conformance._verdicts import BrokenError, TooSlowError
from paraudio.conformance._watch import Row
from paraudio.conformance._wire import Answer, Call, Wire

UNIT_S = 0.05
LONGER_THAN_ANY_STAGE = 10


@pytest.mark.parametrize(
    "cell",
    [
        "order/manager_then_request",
        "time/admission_timeout_request",
        "time/healthy_and_overdue_blockers",
    ],
)
async def test_a_situation_that_was_over_when_its_question_came_is_tried_again(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = Bench.until

    async def sleepy(bench: Bench, key: str, **wanted: object) -> Row:
        row = await until(bench, key, **wanted)
        if bench.unit_s == UNIT_S:  # at the first try
            await trio.sleep(LONGER_THAN_ANY_STAGE * UNIT_S)
        return row

    monkeypatch.setattr(Bench, "until", sleepy)
    async with serving() as url:
        report = await conform(url, only=[cell], unit_s=UNIT_S)
    assert [(each.verdict, each.reason) for each in report.results] == [(Verdict.PASS, "")]


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        ((1.0, 1.0, 1.5), None),
        ((1.0, 0.99, 1.5), TooSlowError),
        ((1.0, 1.5, 1.41), TooSlowError),
        ((1.0, 0.89, 1.5), BrokenError),
    ],
)
def test_answers_that_come_together_tell_no_order(
    ends: tuple[float, ...], error: type[Exception] | None
) -> None:
    nobody: Any = Mock()
    bench = Bench(nobody, nobody, prefix="cf", parallel=True, unit_s=0.4)
    calls: list[Any] = [Mock(spec=Call, ended_at=each) for each in ends]
    if error is None:
        bench.in_order(*calls)
    else:
        with pytest.raises(error, match="which came first"):
            bench.in_order(*calls)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(503, {}, b'{"error": {"message": "no memory"}}'), "503: no memory"),
        (BrokenError("POST /v1/models/load: no answer, ReadError"), "no answer, ReadError"),
        (None, "no answer within 0.1 s"),
    ],
)
async def test_a_server_that_loads_nothing_is_not_taken_for_a_serial_one(
    answer: Answer | BrokenError | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingWire(Wire):
        """A server whose very first load comes to nothing."""

        async def ask(self, method: str, path: str, body: Any = None) -> Answer:
            if path != "/v1/models/load":
                return await super().ask(method, path, body)
            if isinstance(answer, BrokenError):
                raise answer
            if answer is None:
                await trio.sleep_forever()
            return answer

    monkeypatch.setattr(_runner, "Wire", FailingWire)
    monkeypatch.setattr(_runner, "_CLEAN_S", 0.1)
    async with serving() as url:
        with trio.fail_after(20):
            report = await conform(url, only=["startup/no_flag_*"], unit_s=UNIT_S)
    assert {each.verdict for each in report.results} == {Verdict.NOT_APPLICABLE}
    assert all(reason in each.reason for each in report.results)
    assert report.policy == "unknown"
