"""``/v1/models``: what is registered and how it fares; registration and unload."""

from collections.abc import Mapping

from quart.wrappers import Response

from paraudio.config import STORE_PREFIX, parse_model
from paraudio.engines import Option
from paraudio.errors import ModelNotFoundError
from paraudio.http._ask import bound_field
from paraudio.http._body import read_json
from paraudio.http._core import Core, Gate, Route
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields
from paraudio.http._respond import json_answer
from paraudio.lifecycle import ModelSnapshot
from paraudio.spec import Json, ModelSpec, Task

OWNER = "paraudio"


async def list_models(exchange: Exchange) -> Response:
    """All models, as one atomic picture with its revision."""
    snapshot = exchange.core.runtime.snapshot()
    data = [_shown(exchange, model) for model in snapshot.models]
    return json_answer({"object": "list", "revision": snapshot.revision, "data": data})


async def show_model(exchange: Exchange, model_id: str) -> Response:
    """One model."""
    return json_answer(_shown(exchange, exchange.core.runtime.model(model_id)))


async def load_model(exchange: Exchange) -> Response:
    """Register a model or change one, and load it; with nothing but an ``id``, load what it names.

    A bare ``id`` is a registered model, which is loaded as it is, or one of the store's catalogue,
    which is registered first.
    """
    core = exchange.core
    fields = await read_json(exchange)
    if fields.all().keys() == {"id"}:
        known = _known(exchange, fields.filled("id", "the ID of a model"))
        if known is None:
            return await _load_registered(exchange, fields)
        spec = known
    else:
        spec = parse_model(
            fields.all(),
            parallel=core.settings.parallel_jobs,
            base=None,
            tasks=_only_tasks(core),
        )
    exchange.model = spec.id
    changed = await core.runtime.register(spec, request=exchange.id)
    return json_answer({"id": spec.id, "loaded": True, "reconfigured": changed})


async def _load_registered(exchange: Exchange, fields: Fields) -> Response:
    """Load a model as it is when its turn comes: another may be changing it now."""
    model_id = fields.filled("id")
    exchange.model = model_id
    async with exchange.core.runtime.use(model_id, request=exchange.id) as use:
        exchange.use = use
        await use.ready()
    return json_answer({"id": model_id, "loaded": True, "reconfigured": False})


def _known(exchange: Exchange, model_id: str) -> ModelSpec | None:
    """What the catalogue of the store says of a model; None for one that is registered.

    Raises:
        ModelNotFoundError: Neither knows it.
    """
    core = exchange.core
    try:
        core.runtime.model(model_id)
    except ModelNotFoundError as error:
        entries = () if core.shelf is None else core.shelf.store.entries()
        entry = next((entry for entry in entries if entry.name == model_id), None)
        if entry is None:
            raise ModelNotFoundError(
                f"{error.message}; to register a new model, say its family and path too", param="id"
            ) from None
        path = f"{STORE_PREFIX}{entry.name}" if entry.installed is None else ""
        return ModelSpec(id=entry.name, family=entry.family, path=path, task=entry.task)
    return None


def _only_tasks(core: Core) -> dict[str, Task]:
    """The task of each family that has but one, for a model that does not say it."""
    return {
        name: next(iter(family.tasks))
        for name, family in core.families.items()
        if len(family.tasks) == 1
    }


async def unload_model(exchange: Exchange) -> Response:
    """Unload a model; it stays registered."""
    fields = await read_json(exchange)
    fields.only(("id", "busy_timeout_ms"))
    model_id, bound_ms = fields.filled("id", "the ID of a model"), bound_field(fields)
    exchange.model = model_id
    try:
        await exchange.core.runtime.unload(model_id, bound_ms=bound_ms, request=exchange.id)
    except ModelNotFoundError as error:
        error.param = "id"
        raise
    return json_answer({"id": model_id, "loaded": False})


def _shown(exchange: Exchange, model: ModelSnapshot) -> dict[str, Json]:
    asked = Fields(exchange.request.args.to_dict(), form=True)
    shown = model_json(model, exchange.core.started_at)
    if asked.flag("include_session_options"):
        shown["session_options"] = dict(model.spec.session_options)
    if asked.flag("include_params"):
        shown["params"] = params_json(exchange.core, model)
    return shown


def model_json(model: ModelSnapshot, created: int) -> dict[str, Json]:
    """A model as clients see it: OpenAI's fields, then ours, then what its family says of it."""
    spec = model.spec
    own: dict[str, Json] = {
        "id": spec.id,
        "object": "model",
        "created": created,
        "owned_by": OWNER,
        "family": spec.family,
        "path": spec.path,
        "task": spec.task,
        "mode": spec.mode,
        "state": str(model.state),
        "loaded": model.loaded,
        "slots": model.slots,
        "active_slots": model.active_slots,
        "queued_requests": model.queued_requests,
        "queued_managers": model.queued_managers,
        "managed": model.managed,
        "stuck_slots": model.stuck_slots,
        "abandoned_calls": model.abandoned_calls,
        "max_parallel_slots": model.max_parallel_slots,
        "generation": model.generation,
        "config": model.config,
    }
    return own | {name: fact for name, fact in model.facts.items() if name not in own}


def params_json(core: Core, model: ModelSnapshot) -> dict[str, Json]:
    """What a request to the model can set, and what holds where it sets nothing."""
    schema = core.families[model.spec.family].request_options
    presets: list[Json] = [*sorted(model.spec.voice_presets)]
    return {
        "options": [_option(option, model.spec.default_request_options) for option in schema],
        "voice_presets": presets,
    }


def _option(option: Option, defaults: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "name": option.name,
        "type": option.kind.__name__,
        "default": defaults.get(option.name, option.default),
        "description": option.doc,
        "minimum": option.minimum,
        "maximum": option.maximum,
        "choices": list(option.choices),
    }


ROUTES = (
    Route("GET", "/v1/models", list_models),
    Route("GET", "/v1/models/<path:model_id>", show_model),
    Route("POST", "/v1/models/load", load_model, Gate.MANAGEMENT),
    Route("POST", "/v1/models/unload", unload_model, Gate.MANAGEMENT),
)
