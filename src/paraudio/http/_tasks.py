"""``/v1/tasks/*``: any task of any model, one job or several, and bulk unloads."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from quart.wrappers import Response

from paraudio.engines import Job, Result, StreamEvent
from paraudio.errors import InvalidRequestError
from paraudio.http._ask import Ask, bound_field, model_field, task_ask
from paraudio.http._batch import BatchFrames, open_batch
from paraudio.http._body import read_json
from paraudio.http._core import Route
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields, refusal
from paraudio.http._multipart import MAX_PARTS
from paraudio.http._prepare import prepare
from paraudio.http._render import base64_audio, off_loop, result_json, turn_json
from paraudio.http._respond import json_answer
from paraudio.http._sse import no_result
from paraudio.http._warnings import warning_headers
from paraudio.http._work import Done, Measured, Watch, lease, perform, start_events, timing_of
from paraudio.lifecycle import Unloaded
from paraudio.spec import Json

_IDS: Final = "a list of model IDs"
_REQUESTS: Final = "a list of requests that is not empty"


async def run_task(exchange: Exchange) -> Response:
    """Run one job of whatever task the model has."""
    workers = exchange.core.workers

    async def render(done: Done) -> Response:
        result = done.result
        body = await off_loop(workers, result.audio, result_json, result, done.timing)
        return json_answer(body, headers=done.headers())

    return await perform(exchange, await _read(exchange), render)


async def stream_task(exchange: Exchange) -> Response:
    """Run one job as a stream, and answer with all its events at once."""
    ask = await _read(exchange)
    async with lease(exchange, ask) as use, AsyncExitStack() as stack:
        job = await prepare(exchange.core, use, ask)
        watch = Watch(exchange, job)
        begun = await watch.spent(start_events(stack, use, job, ask))
        result: Result | None = None
        told: list[object] = []
        async for event in Measured(exchange, job, watch, begun):
            result = event.result
            if result is None:
                told.append(await _event(exchange, event, job))
        if result is None:
            raise no_result()
        timing = timing_of(job, result, watch.spent_s)
        whole = await off_loop(exchange.core.workers, result.audio, result_json, result, timing)
        headers = {**timing.headers(), **warning_headers(result)}
        return json_answer({"events": told, "result": whole}, headers=headers)


async def _event(exchange: Exchange, event: StreamEvent, job: Job) -> Mapping[str, object]:
    audio = event.audio
    if audio is None:
        return _heard(event, 0 if job.audio is None else job.audio.rate)
    text = await off_loop(exchange.core.workers, audio, base64_audio, audio, "pcm")
    return {"type": "audio", "audio": text, "sample_rate": audio.rate}


def _heard(event: StreamEvent, rate: int) -> Mapping[str, Json]:
    """What is heard, in as few words as the route has; places count frames of the recording."""
    if event.boundary is not None:
        at = event.boundary.at
        return {"type": "boundary", "kind": event.boundary.kind, "at_sample": at}
    if event.turns:
        turns: list[Json] = [turn_json(turn, rate) for turn in event.turns]
        return {"type": "speaker_turns", "speaker_turns": turns, "sample_rate": rate}
    if event.partial is not None:
        return {"type": "partial", "text": event.partial}
    return {"type": "text", "text": event.text or ""}


async def _read(exchange: Exchange) -> Ask:
    """One job: under ``request``, or with its fields at the top."""
    fields = await read_json(exchange)
    inner = fields.inner("request") or fields
    return task_ask(inner, model=model_field(fields), bound_ms=_bound(fields, inner))


def _bound(fields: Fields, inner: Fields) -> int | None:
    bound = bound_field(fields)
    return bound_field(inner) if bound is None else bound


async def run_batch(exchange: Exchange) -> Response:
    """Run several jobs under one lease, and send each result as it comes."""
    fields = await read_json(exchange)
    model, bound_ms = model_field(fields), bound_field(fields)
    given = fields.items("requests", _REQUESTS)
    if not given:
        raise refusal(fields.param("requests"), _REQUESTS, given)
    if len(given) > MAX_PARTS:
        raise InvalidRequestError(
            f"requests must be up to {MAX_PARTS} requests, not {len(given)}", param="requests"
        )
    asks = []
    for index, one in enumerate(given):
        where = f"{fields.param('requests')}[{index}]"
        if not isinstance(one, dict):
            raise refusal(where, "an object", one)
        asks.append(task_ask(Fields(one, prefix=f"{where}."), model=model, bound_ms=bound_ms))
    workers = exchange.core.workers

    async def render(index: int, done: Done) -> dict[str, object]:
        result = await off_loop(workers, done.result.audio, result_json, done.result, done.timing)
        return {"type": "task.batch.result", "index": index, "result": result}

    frames = partial(BatchFrames, exchange, render, "task.batch.done")
    return await open_batch(exchange, asks, frames, native=False)


async def unload_models(exchange: Exchange) -> Response:
    """Unload some models; unknown ones are named and do no harm."""
    fields = await read_json(exchange)
    fields.only(("model_ids", "fence"))
    ids: list[str] = []
    for index, one in enumerate(fields.items("model_ids", _IDS)):
        if not isinstance(one, str):
            raise refusal(f"model_ids[{index}]", "the ID of a model", one)
        ids.append(one)
    fence = fields.flag("fence")
    done = await exchange.core.runtime.unload_many(ids, fence=fence, request=exchange.id)
    return json_answer(
        {"unloaded": list(done.unloaded), "not_found": list(done.not_found), **_failed(done)}
    )


async def unload_all_models(exchange: Exchange) -> Response:
    """Unload every model."""
    fields = await read_json(exchange, empty=True)
    fields.only(("fence",))
    fence = fields.flag("fence")
    done = await exchange.core.runtime.unload_many(None, fence=fence, request=exchange.id)
    return json_answer({"unloaded": list(done.unloaded), **_failed(done)})


def _failed(done: Unloaded) -> dict[str, Json]:
    """The models that a bulk could not unload, each with its error; nothing where it did all."""
    if not done.stuck:
        return {}
    return {
        "failed": [
            {
                "id": name,
                "error": {"message": error.message, "type": error.type, "code": error.code},
            }
            for name, error in done.stuck.items()
        ]
    }


ROUTES = (
    Route("POST", "/v1/tasks/run", run_task),
    Route("POST", "/v1/tasks/stream", stream_task),
    Route("POST", "/v1/tasks/batch", run_batch),
    Route("POST", "/v1/tasks/unload_models", unload_models),
    Route("POST", "/v1/tasks/unload_all_models", unload_all_models),
)
