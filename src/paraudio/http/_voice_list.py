"""``GET /v1/audio/voices`` and ``/v1/audio/models``: what a request can speak with.

Two shapes of the voices are out there under one key: names, as the clients of this family of
servers read them, and objects with ``id`` and ``name``, as Open WebUI does, which cannot say so. It
is known by its HTTP library, which no client of the other kind is known to use; ``objects`` says
it for any other.
"""

from collections.abc import Iterable
from typing import Final

from quart.wrappers import Response

from paraudio.http._core import Route
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields
from paraudio.http._respond import json_answer
from paraudio.http._voices import recordings
from paraudio.lifecycle import ModelSnapshot
from paraudio.spec import Json

_OPEN_WEBUI: Final = "aiohttp/"


async def list_voices(exchange: Exchange) -> Response:
    """The names of all voices, or of those of one model."""
    runtime = exchange.core.runtime
    fields = Fields(exchange.request.args.to_dict(), form=True)
    agent = exchange.request.headers.get("User-Agent", "")
    objects = fields.flag("objects", default=_OPEN_WEBUI in agent)
    wanted = fields.text("model") or None
    if wanted is not None:
        models: Iterable[ModelSnapshot] = [runtime.model(wanted)]
    else:
        models = [model for model in runtime.snapshot().models if model.spec.task == "tts"]
    names = {name for model in models for name in _own(model)}
    of_all = wanted is None or any(_imitates(exchange, model) for model in models)
    if of_all and exchange.core.settings.voice_dir is not None:
        names.update(await exchange.core.workers.run(recordings, exchange.core.settings))
    voices: list[Json] = [_object(name) if objects else name for name in sorted(names)]
    return json_answer({"voices": voices}, headers={"Vary": "User-Agent"})


async def list_speakers(exchange: Exchange) -> Response:
    """The models that speak, as Open WebUI asks for them."""
    models = exchange.core.runtime.snapshot().models
    told: list[Json] = [_object(model.spec.id) for model in models if model.spec.task == "tts"]
    return json_answer({"models": told})


def _object(name: str) -> dict[str, Json]:
    return {"id": name, "name": name}


def _imitates(exchange: Exchange, model: ModelSnapshot) -> bool:
    """Whether a recording can be a voice of a model."""
    return model.spec.task == "tts" and exchange.core.families[model.spec.family].imitates


def _own(model: ModelSnapshot) -> Iterable[str]:
    """The presets of a model, and the voices that its family says it has."""
    yield from model.spec.voice_presets
    told = model.facts.get("voices")
    if isinstance(told, list):
        yield from (voice for voice in told if isinstance(voice, str))


ROUTES = (
    Route("GET", "/v1/audio/voices", list_voices),
    Route("GET", "/v1/audio/models", list_speakers),
)
