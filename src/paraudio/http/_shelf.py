"""``/v1/ui``: the model store over HTTP: its root, and what is fetched into it."""

from quart.wrappers import Response

from paraudio.errors import ConflictError, ModelNotFoundError, NotFoundError
from paraudio.http._body import read_json
from paraudio.http._core import Gate, Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import json_answer
from paraudio.spec import Json
from paraudio.store import Install, Shelf


async def show_root(exchange: Exchange) -> Response:
    """Where models are kept, and whether something is being brought there."""
    shelf = _shelf(exchange)
    return json_answer({"path": str(shelf.store.home), "busy": shelf.busy})


async def replace_root(exchange: Exchange) -> Response:
    """Keep models elsewhere from now on."""
    fields = await read_json(exchange)
    fields.only(("path",))
    store = await _shelf(exchange).replace(fields.filled("path", "the absolute path of a folder"))
    return json_answer({"path": str(store.home)})


async def install_model(exchange: Exchange) -> Response:
    """Begin to fetch a model; ``install-status`` tells how it fares."""
    shelf, name = _shelf(exchange), await _named(exchange)
    return json_answer(_install_json(shelf.install(name)))


async def stop_install(exchange: Exchange) -> Response:
    """Stop a fetch; the store is as it was before it."""
    shelf, name = _shelf(exchange), await _named(exchange)
    return json_answer({"id": name, "stopped": shelf.installer.stop(name)})


async def show_installs(exchange: Exchange) -> Response:
    """How the last fetch of each model stands."""
    data = [_install_json(install) for install in _shelf(exchange).installer.installs()]
    return json_answer({"object": "list", "data": data})


async def delete_model(exchange: Exchange) -> Response:
    """Remove a model's files from the store, unless a loaded model has them in use."""
    shelf, name = _shelf(exchange), await _named(exchange)
    for model in exchange.core.runtime.snapshot().models:
        if model.spec.path == f"store:{name}" and (model.loaded or model.active_slots):
            raise ConflictError(
                f"id must be of a model that is not in use; {model.spec.id!r} has loaded it",
                param="id",
            )
    return json_answer({"id": name, "deleted": await shelf.store.remove(name)})


def _shelf(exchange: Exchange) -> Shelf:
    shelf = exchange.core.shelf
    if shelf is None:
        raise NotFoundError("this server keeps no store of models")
    return shelf


async def _named(exchange: Exchange) -> str:
    """The name of a model of the catalogue.

    Raises:
        ModelNotFoundError: There is none of that name; ``param`` is ``id``.
    """
    fields = await read_json(exchange)
    fields.only(("id",))
    name = fields.filled("id", "the name of a model in the store's catalogue")
    try:
        _shelf(exchange).store.entry(name)
    except ModelNotFoundError as error:
        error.param = "id"
        raise
    return name


def _install_json(install: Install) -> dict[str, Json]:
    return {
        "id": install.name,
        "state": install.state,
        "done_bytes": install.done,
        "total_bytes": install.total,
        "error": install.error,
    }


ROUTES = (
    Route("GET", "/v1/ui/models-root", show_root, Gate.MANAGEMENT),
    Route("POST", "/v1/ui/models-root", replace_root, Gate.MANAGEMENT),
    Route("POST", "/v1/ui/models/install", install_model, Gate.MANAGEMENT),
    Route("POST", "/v1/ui/models/install/stop", stop_install, Gate.MANAGEMENT),
    Route("GET", "/v1/ui/models/install-status", show_installs, Gate.MANAGEMENT),
    Route("POST", "/v1/ui/models/delete", delete_model, Gate.MANAGEMENT),
)
