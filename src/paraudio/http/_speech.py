"""``POST /v1/audio/speech``: text in, sound out, whole or as it is made."""

from collections.abc import Callable
from typing import Final, ParamSpec

from quart.wrappers import Response

from paraudio.audio import FORMATS, Growing, content_type, encode, open_growing
from paraudio.engines import Audio, StreamEvent
from paraudio.http._ask import Ask, speech_ask
from paraudio.http._body import read_json
from paraudio.http._core import Route
from paraudio.http._errors import Answer
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields
from paraudio.http._render import base64_audio, off_loop
from paraudio.http._respond import bytes_answer, json_answer
from paraudio.http._sse import EventFrames, Frames, no_result, sse
from paraudio.http._warnings import warning_fields
from paraudio.http._work import Done, Watch, open_stream, perform, rate_header
from paraudio.http._workers import Workers, check_cancelled

P = ParamSpec("P")

SPEECH_FORMATS: Final = (*FORMATS, "json")
STREAM_FORMATS: Final = ("sse", "audio")
GROWING: Final = FORMATS
"""The formats that can be sent while they grow."""

PLAIN: Final = ("wav", "pcm")
"""The formats whose making is a copy of memory; the others are worth a thread of their own."""


async def create_speech(exchange: Exchange) -> Response:
    """Speak a text."""
    core = exchange.core
    fields = await read_json(exchange)
    kind = fields.choice(
        "response_format", SPEECH_FORMATS, default=core.settings.default_response_format
    )
    streamed = _stream_format(fields)
    ask = speech_ask(fields)
    if streamed == "sse":
        return await open_stream(exchange, ask, lambda _, watch: DeltaFrames(core.workers, watch))
    if streamed == "audio" and kind in GROWING:
        return await open_stream(exchange, ask, lambda *_: GrowingFrames(exchange, kind))
    return await _whole(exchange, ask, kind)


def _stream_format(fields: Fields) -> str | None:
    """How the sound is to be streamed, if at all: ``stream: true`` means server-sent events."""
    if fields.get("stream_format") is not None:
        return fields.choice("stream_format", STREAM_FORMATS, default="audio")
    return "sse" if fields.flag("stream") else None


async def _whole(exchange: Exchange, ask: Ask, kind: str) -> Response:
    workers = exchange.core.workers

    async def render(done: Done) -> Response:
        audio = _sound(done)
        headers = {**done.headers(), **rate_header(audio)}
        if kind == "json":
            text = await off_loop(workers, audio, base64_audio, audio, "wav")
            body: dict[str, object] = {
                "audio": text,
                "format": "wav",
                "sample_rate": audio.rate,
                "timing": done.timing.json(),
            }
            return json_answer(body, headers=headers)
        if kind in PLAIN:
            data = await off_loop(workers, audio, encode, audio, kind)
        else:
            data = await workers.run(encode, audio, kind, check=check_cancelled)
        return bytes_answer(data, content_type(kind), headers=headers)

    return await perform(exchange, ask, render)


def _sound(done: Done) -> Audio:
    """The sound of a result; that there is one was checked when it came."""
    if done.result.audio is None:
        raise no_result()
    return done.result.audio


class DeltaFrames(EventFrames[StreamEvent]):
    """OpenAI's events of streamed speech: base64 pcm, then ``done``."""

    def __init__(self, workers: Workers, watch: Watch) -> None:
        super().__init__()
        self._workers = workers
        self._watch = watch

    async def event(self, event: StreamEvent) -> bytes:
        """A delta; the result itself is kept for the end."""
        audio = event.audio
        if event.result is not None:
            timing = self._watch.timing(event.result)
            told = warning_fields(event.result)
            self.done = {"type": "speech.audio.done", "timing": timing.json(), **told}
        if audio is None:
            return b""
        self._watch.delta(audio)
        text = await off_loop(self._workers, audio, base64_audio, audio, "pcm")
        return sse({"type": "speech.audio.delta", "audio": text, "sample_rate": audio.rate})


class GrowingFrames(Frames[StreamEvent]):
    """Sound in one file that grows while it is made. Its encoder is freed with the exchange."""

    def __init__(self, exchange: Exchange, kind: str) -> None:
        self.content_type = content_type(kind)
        self._workers = exchange.core.workers
        self._kind = kind
        self._file: Growing | None = None
        self._complete = False
        exchange.call_after(self._close)

    async def event(self, event: StreamEvent) -> bytes:
        """The bytes of a piece; the first one with the head, the last one with the end."""
        data = b""
        if event.audio is not None:
            data = await self._run(event.audio, self._push, event.audio)
        if event.result is not None:
            self._complete = True
            if self._file is not None:
                data += await self._run(event.audio, self._file.end)
        return data

    def _push(self, audio: Audio) -> bytes:
        if self._file is None:
            self._file = open_growing(self._kind, audio.rate)
        check = None if self._kind in PLAIN else check_cancelled
        return self._file.push(audio, check=check)

    async def _run(
        self, audio: Audio | None, call: Callable[P, bytes], *args: P.args, **kwargs: P.kwargs
    ) -> bytes:
        if self._kind in PLAIN:
            return await off_loop(self._workers, audio, call, *args, **kwargs)
        return await self._workers.run(call, *args, **kwargs)

    def end(self) -> bytes:
        """Nothing: the end came with the result."""
        if not self._complete:
            raise no_result()
        return b""

    def failed(self, answer: Answer) -> None:
        """There is no place for an error in a sound; the stream is cut off."""

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


ROUTES = (Route("POST", "/v1/audio/speech", create_speech),)
