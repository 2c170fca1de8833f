"""Recordings in, words out: transcriptions, their details, translations and alignments."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from quart.wrappers import Response

from paraudio.engines import Job
from paraudio.errors import InvalidRequestError
from paraudio.http._ask import transcription_ask
from paraudio.http._body import is_form, read_form, read_json
from paraudio.http._core import Route
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields, refusal
from paraudio.http._hearing import HEARING, HearingFrames
from paraudio.http._multipart import Form
from paraudio.http._render import details_json, word_json
from paraudio.http._respond import bytes_answer, json_answer
from paraudio.http._sources import Source, Uploaded, base64_field, source_field
from paraudio.http._transcripts import (
    CONTENT_TYPES,
    FORMATS,
    GRANULARITIES,
    RAW,
    short_json,
    text_of,
    verbose_json,
)
from paraudio.http._work import Done, Render, Watch, open_stream, perform
from paraudio.spec import Json

_BRACKETED: Final = "timestamp_granularities[]"
_PLAIN: Final = "timestamp_granularities"


@asynccontextmanager
async def recording(exchange: Exchange) -> AsyncIterator[tuple[Fields, Source, Form | None]]:
    """Read a request with one recording, from a form or from JSON with a path of the server.

    What a form holds on disk is freed when the block is left.

    Raises:
        InvalidRequestError: There is no recording, or more than one.
    """
    if not is_form(exchange.request):
        fields = await read_json(exchange, or_form=True)
        source = source_field(fields, "audio") or base64_field(fields, "audio_base64")
        if source is None:
            raise InvalidRequestError(
                "audio is missing: it must be the path of a file of the server; send a file of "
                "your own as multipart/form-data",
                param="audio",
            )
        yield fields, source, None
        return
    with await read_form(exchange) as form:
        yield Fields(form.values(), form=True), _only_file(form), form


def _only_file(form: Form) -> Source:
    if not form.files:
        raise InvalidRequestError("file is missing: it must be a sound file", param="file")
    if len(form.files) > 1:
        raise InvalidRequestError("file must be one file on this route, not several", param="file")
    return Uploaded(form.files[0], form.files[0].field)


async def create_transcription(exchange: Exchange) -> Response:
    """Write down what a recording says."""
    async with recording(exchange) as (fields, source, form):
        render = _renderer(fields, form)  # a wrong format is wrong for a stream too
        if fields.flag("stream"):
            ask = transcription_ask(fields, source, *HEARING)
            return await open_stream(exchange, ask, _frames)
        return await perform(exchange, transcription_ask(fields, source, "asr"), render)


def _frames(job: Job, watch: Watch) -> HearingFrames:
    rate = 0 if job.audio is None else job.audio.rate
    return HearingFrames(job.task, rate, watch)


def _renderer(fields: Fields, form: Form | None) -> Render:
    """What makes the answer, in the format that was asked for."""
    kind = fields.choice("response_format", FORMATS, default="json")
    wanted = _granularities(fields, form)
    temperature = fields.number("temperature", minimum=0, maximum=2) or 0.0

    async def render(done: Done) -> Response:
        headers = done.headers()
        if kind in RAW:
            text = RAW[kind](done.result, done.timing)
            return bytes_answer(text.encode(), CONTENT_TYPES[kind], headers=headers)
        if kind == "verbose_json":
            body = verbose_json(
                done.result, done.timing, granularities=wanted, temperature=temperature
            )
            return json_answer(body, headers=headers)
        return json_answer(short_json(done.result, done.timing), headers=headers)

    return render


def _granularities(fields: Fields, form: Form | None) -> tuple[str, ...]:
    """Which times are wanted, under either spelling of the key; both where nothing is said."""
    if form is not None:
        values = (form.fields.get(name, []) for name in (_BRACKETED, _PLAIN))
        given: object = [value for each in values for value in each if value]
    else:
        given = fields.get(_PLAIN) if fields.get(_BRACKETED) is None else fields.get(_BRACKETED)
    if given is None or given == []:
        return GRANULARITIES
    names = given if isinstance(given, list) else [given]
    for name in names:
        if name not in GRANULARITIES:
            raise refusal(_PLAIN, "word or segment", name)
    return tuple(str(name) for name in names)


async def create_translation(exchange: Exchange) -> Response:
    """Refuse: no family translates yet."""
    async with recording(exchange) as (fields, source, _):
        ask = transcription_ask(fields, source, "asr")
        spec = exchange.core.runtime.model(ask.model).spec
        raise InvalidRequestError(
            f"model must be one that translates; {spec.id!r} of family {spec.family} does not",
            param="model",
        )


async def create_details(exchange: Exchange) -> Response:
    """Write down what a recording says, with every place in samples."""

    async def render(done: Done) -> Response:
        body = {**details_json(done.result), "text": text_of(done.result)}
        return json_answer({**body, "timing": done.timing.json()}, headers=done.headers())

    async with recording(exchange) as (fields, source, _):
        if fields.flag("stream"):
            raise InvalidRequestError(
                "stream must be false: the details are one answer", param="stream"
            )
        return await perform(exchange, transcription_ask(fields, source, *HEARING), render)


async def create_alignment(exchange: Exchange) -> Response:
    """Find the places of known words in a recording."""

    async def render(done: Done) -> Response:
        rate = done.result.sample_rate
        body: dict[str, Json] = {
            "text": text_of(done.result) or done.job.text,
            "words": [word_json(word, rate) for word in done.result.words],
            "timing": done.timing.json(),
        }
        return json_answer(body, headers=done.headers())

    async with recording(exchange) as (fields, source, _):
        text = fields.filled("text", "the words that the recording says")
        ask = replace(transcription_ask(fields, source, "align"), text=text)
        return await perform(exchange, ask, render)


ROUTES = (
    Route("POST", "/v1/audio/transcriptions", create_transcription),
    Route("POST", "/v1/audio/transcriptions/details", create_details),
    Route("POST", "/v1/audio/translations", create_translation),
    Route("POST", "/v1/audio/alignments", create_alignment),
)
