"""The live routes: sound in while it is captured, text in while it is written."""

from collections.abc import Collection
from typing import Final

from quart.wrappers import Response

from paraudio.audio import MAX_RATE, MIN_RATE, RAW_FORMATS
from paraudio.errors import InvalidRequestError, UnsupportedMediaTypeError
from paraudio.http._ask import (
    Ask,
    bound_field,
    hint_fields,
    language_field,
    model_field,
    spoken_ask,
)
from paraudio.http._core import Route
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields
from paraudio.http._hearing import HEARING, HearingFrames
from paraudio.http._live_pieces import SoundFormat, SoundPieces, TextPieces
from paraudio.http._live_stream import open_live
from paraudio.http._speech import GROWING, STREAM_FORMATS, DeltaFrames, GrowingFrames

MAX_CHANNELS: Final = 16
DEFAULT_RATE: Final = 16_000

_ASKED: Final = (
    "model",
    "language",
    "seed",
    "options",
    "temperature",
    "instructions",
    "busy_timeout_ms",
)
_LISTENING: Final = (*_ASKED, "sample_rate", "channels", "sample_format", "prompt")
_SPEAKING: Final = (
    *_ASKED,
    "response_format",
    "stream_format",
    "voice",
    "voice_ref",
    "reference_text",
    "speed",
)

# What curl sends with bytes that nobody labelled.
_UNLABELLED: Final = frozenset({"", "application/x-www-form-urlencoded"})
_BYTES: Final = "application/octet-stream"


async def transcribe_live(exchange: Exchange) -> Response:
    """Write down what a microphone hears, while it hears it."""
    kind = exchange.request.mimetype
    if kind not in _UNLABELLED and kind != _BYTES and not kind.startswith("audio/"):
        raise UnsupportedMediaTypeError(
            f"this route takes bare samples, as {_BYTES} or audio/*, not {kind!r}"
        )
    fields = _query(exchange, _LISTENING)
    form = SoundFormat(
        rate=fields.whole("sample_rate", minimum=MIN_RATE, maximum=MAX_RATE) or DEFAULT_RATE,
        channels=fields.whole("channels", minimum=1, maximum=MAX_CHANNELS) or 1,
        sample_format=fields.choice("sample_format", RAW_FORMATS, default="s16le"),
    )
    ask = Ask(
        model=model_field(fields),
        tasks=HEARING,
        bound_ms=bound_field(fields),
        language=language_field(fields),
        prompt=fields.text("prompt") or None,
        seed=fields.seed(),
        options=fields.options("options"),
        hints=hint_fields(fields),
    )
    return await open_live(
        exchange,
        ask,
        SoundPieces(form),
        lambda job, watch: HearingFrames(job.task, form.rate, watch),
        "send the whole recording to /v1/audio/transcriptions",
    )


async def speak_live(exchange: Exchange) -> Response:
    """Speak a text while it is written: each sentence as soon as it is complete."""
    _check_text(exchange)
    fields = _query(exchange, _SPEAKING)
    kind = fields.choice("response_format", GROWING, default="wav")
    # Who names a container wants one.
    default = "sse" if fields.get("response_format") is None else "audio"
    streamed = fields.choice("stream_format", STREAM_FORMATS, default=default)
    ask = spoken_ask(fields, None)
    workers = exchange.core.workers
    return await open_live(
        exchange,
        ask,
        TextPieces(),
        lambda _, watch: (
            DeltaFrames(workers, watch) if streamed == "sse" else GrowingFrames(exchange, kind)
        ),
        "send the whole text to /v1/audio/speech",
    )


def _check_text(exchange: Exchange) -> None:
    """Refuse a body that is not text.

    Raises:
        InvalidRequestError: It is sound; the message says why.
        UnsupportedMediaTypeError: It is anything else.
    """
    request = exchange.request
    kind = request.mimetype
    if kind == _BYTES or kind.startswith("audio/"):
        raise InvalidRequestError(
            "the body must be text to speak, as text/plain; sound in needs a model that turns "
            "speech into speech, and no family here does",
            param="model",
        )
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if kind not in _UNLABELLED and not kind.startswith("text/"):
        raise UnsupportedMediaTypeError(f"this route takes text/plain, not {kind!r}")
    if charset not in {"utf-8", "utf8", "us-ascii"}:
        raise UnsupportedMediaTypeError(f"this route takes text in utf-8, not in {charset!r}")


def _query(exchange: Exchange, known: Collection[str]) -> Fields:
    """The fields of the address, which are text as those of a form are.

    Raises:
        InvalidRequestError: One is not known. Bare samples say nothing of themselves, so one that
            is misspelt would be heard as something else than it is, without a hint.
    """
    fields = Fields(exchange.request.args.to_dict(), form=True)
    fields.only(known)
    return fields


ROUTES = (
    Route("POST", "/v1/audio/speech/live", speak_live),
    Route("POST", "/v1/audio/transcriptions/live", transcribe_live),
)
