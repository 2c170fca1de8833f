"""Inspection, which is the same in every isolation: small files, read by a thread of the server."""

from paraudio.engines._protocols import Family
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.isolation._pending import Care
from paraudio.engines.isolation._protocols import Inspection
from paraudio.engines.isolation._threads import start_in_thread
from paraudio.engines.worker import attempt
from paraudio.errors import LoadError


async def inspect_in_thread(family: Family, load: Load, care: Care) -> Inspection:
    """Ask the family about a model without loading it.

    Raises:
        InvalidRequestError: The path is no such model.
        LoadError: The family failed.
    """
    what = f"model {load.model_id!r}: inspection"
    call = start_in_thread(
        what,
        lambda: attempt(
            lambda: Inspection(family.inspect(load), family.estimate(load)), what, kind=LoadError
        ),
    )
    return (await call.wait(Stop(), care)).unwrap()
