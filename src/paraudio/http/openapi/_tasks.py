"""The routes of tasks: any job of any model, and bulk unloads."""

from typing import Final

from paraudio.http.openapi import _asks as asks
from paraudio.http.openapi._audio import TIMED, error_event, kind
from paraudio.http.openapi._operation import (
    BODY_ERRORS,
    EVENTS,
    JSON,
    WORK_ERRORS,
    Answer,
    Operation,
    events,
    json,
)
from paraudio.http.openapi._schema import Schema, choice, either, listed, ref, text, thing, whole

_FAILED: Final = listed(
    thing(
        {
            "id": text(),
            "error": thing({"message": text(), "type": text(), "code": text()}),
        }
    ),
    "The models that could not be unloaded; missing where there is none.",
)


def _events_of_a_job() -> Schema:
    told = (
        kind("text", text=text("Text that stays.")),
        kind("partial", text=text("What is heard so far; the next one replaces it.")),
        kind("audio", audio=text("pcm as base64."), sample_rate=whole(1)),
        kind("speaker_turns", speaker_turns=listed(ref("SpeakerTurn")), sample_rate=whole(0)),
        kind("boundary", kind=choice(("start", "end")), at_sample=whole(0)),
    )
    return thing({"events": listed(either(*told)), "result": ref("Result")})


def operations() -> dict[str, Operation]:
    """By method and path."""
    results = {
        "task.batch.result": kind("task.batch.result", index=whole(0), result=ref("Result")),
        "task.batch.done": kind("task.batch.done", result_count=whole(0), timing=ref("Timing")),
        "error": error_event(),
    }
    unloaded = {"unloaded": listed(text())}
    return {
        "POST /v1/tasks/run": Operation(
            notes="The fields of the job stand within `request`, or beside `model`.",
            body={JSON: asks.task()},
            answers=json(ref("Result"), "What came out.", headers=TIMED),
            errors=WORK_ERRORS,
        ),
        "POST /v1/tasks/stream": Operation(
            body={JSON: asks.task()},
            answers=json(_events_of_a_job(), "The events, and the whole.", headers=TIMED),
            errors=WORK_ERRORS,
        ),
        "POST /v1/tasks/batch": Operation(
            body={JSON: asks.task_batch()},
            answers={200: Answer(doc="Each result.", content={EVENTS: events(results)})},
            errors=WORK_ERRORS,
        ),
        "POST /v1/tasks/unload_models": Operation(
            body={JSON: asks.unload_some()},
            answers=json(
                thing(
                    {**unloaded, "not_found": listed(text()), "failed": _FAILED},
                    optional=("failed",),
                ),
                "What became of each.",
            ),
            errors=(*BODY_ERRORS, 500, 503),
        ),
        "POST /v1/tasks/unload_all_models": Operation(
            body={JSON: asks.unload_all()},
            body_required=False,
            answers=json(
                thing({**unloaded, "failed": _FAILED}, optional=("failed",)),
                "What became of each.",
            ),
            errors=(*BODY_ERRORS, 500, 503),
        ),
    }
