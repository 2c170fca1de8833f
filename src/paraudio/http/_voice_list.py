"""``GET /v1/audio/voices``: the names that a request can speak with."""

from collections.abc import Iterable

from quart.wrappers import Response

from paraudio.http._core import Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import json_answer
from paraudio.http._voices import recordings
from paraudio.lifecycle import ModelSnapshot
from paraudio.spec import Json


async def list_voices(exchange: Exchange) -> Response:
    """The names of all voices, or of those of one model."""
    runtime = exchange.core.runtime
    wanted = exchange.request.args.get("model") or None
    if wanted is not None:
        models: Iterable[ModelSnapshot] = [runtime.model(wanted)]
    else:
        models = [model for model in runtime.snapshot().models if model.spec.task == "tts"]
    names = {name for model in models for name in _own(model)}
    if exchange.core.settings.voice_dir is not None:
        names.update(await exchange.core.workers.run(recordings, exchange.core.settings))
    voices: list[Json] = [*sorted(names)]
    return json_answer({"voices": voices})


def _own(model: ModelSnapshot) -> Iterable[str]:
    """The presets of a model, and the voices that its family says it has."""
    yield from model.spec.voice_presets
    told = model.facts.get("voices")
    if isinstance(told, list):
        yield from (voice for voice in told if isinstance(voice, str))


ROUTES = (Route("GET", "/v1/audio/voices", list_voices),)
