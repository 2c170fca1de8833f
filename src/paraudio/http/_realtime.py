"""``WS /v1/realtime``: speech in while it is spoken, words out, over one websocket."""

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from quart.wrappers import Response

from paraudio.errors import ShuttingDownError, UpgradeRequiredError
from paraudio.http._ask import bound_field
from paraudio.http._core import Core, Route
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields
from paraudio.http._ingest import bounds_of
from paraudio.http._prepare import languages_of
from paraudio.http._realtime_config import Config, Hearing, Registered
from paraudio.http._realtime_events import Dialect
from paraudio.http._realtime_session import Opening, RealtimeSession
from paraudio.http._upgrade import Socket

PATH: Final = "/v1/realtime"

_PROTOCOL: Final = "realtime"
_BETA_HEADER: Final = "realtime=v1"
_BETA_PROTOCOL: Final = "openai-beta.realtime-v1"
_FAMILY: Final = "silero_vad"


async def refuse_plain(exchange: Exchange) -> Response:
    """Speech in while it is spoken, words out: a websocket, and a plain request is told so."""
    del exchange
    raise UpgradeRequiredError(
        f"this route is a websocket: open ws://…{PATH}?model=<id> with a websocket client"
    )


async def open_realtime(exchange: Exchange, socket: Socket) -> None:
    """Serve one session, from the handshake to the close.

    Cancelled: everything that the session waits for or holds is given up.

    Raises:
        ModelNotFoundError: The model in the address is not registered.
        InvalidRequestError: The address is wrong.
        ShuttingDownError: No new work is taken.
    """
    core = exchange.core
    opening = _opening(exchange, socket)
    if core.runtime.snapshot().phase != "running":
        raise ShuttingDownError("the server is shutting down and takes no new work")
    exchange.model = opening.config.hearing.model
    await socket.accept(_PROTOCOL if _PROTOCOL in socket.offered else None)
    await RealtimeSession(exchange, socket, opening).run()


def _opening(exchange: Exchange, socket: Socket) -> Opening:
    core = exchange.core
    fields = Fields(socket.websocket.args.to_dict(), form=True)
    fields.choice("intent", ("transcription",), default="transcription")
    models = registered(core)
    model = fields.text("model") or None
    if model is not None:
        models.checked(model, "asr", "model")
    spec = None if model is None else core.runtime.model(model).spec
    beta = _BETA_HEADER in socket.websocket.headers.get("OpenAI-Beta", "") or (
        _BETA_PROTOCOL in socket.offered
    )
    return Opening(
        config=Config(hearing=Hearing(model), detection=models.default_detection()),
        models=models,
        dialect=Dialect.BETA if beta else Dialect.CURRENT,
        flat=beta and fields.text("intent") is not None,
        bound_ms=bound_field(fields),
        bounds=bounds_of(core.settings, spec),
        idle_s=core.settings.realtime_idle_timeout_ms / 1000 or math.inf,
        longest_s=core.settings.realtime_session_max_ms / 1000 or math.inf,
    )


def registered(core: Core) -> Registered:
    """The models that a session may name, and the one that finds speech."""
    specs = [model.spec for model in core.runtime.snapshot().models]
    detectors = [spec for spec in specs if spec.task == "vad"]
    detectors.sort(key=lambda spec: spec.family != _FAMILY)
    return Registered(
        find=lambda model: core.runtime.model(model).spec,
        languages=partial(languages_of, core),
        detector=detectors[0].id if detectors else None,
    )


ROUTES: Final = (Route("GET", PATH, refuse_plain),)

SOCKETS: Final[Mapping[str, Callable[[Exchange, Socket], Awaitable[None]]]] = {PATH: open_realtime}
