"""Inspection, which is the same in every isolation: small files, read by a thread of the server."""

import errno
from typing import Final

import trio

from paraudio.engines._protocols import Family
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.isolation._pending import Care
from paraudio.engines.isolation._protocols import Inspection
from paraudio.engines.isolation._threads import start_in_thread
from paraudio.engines.worker import attempt
from paraudio.errors import InvalidRequestError, LoadError, LoadTimeoutError

_FAULTS_OF_A_PATH: Final = {
    errno.EACCES,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
}
"""What the system says of a path that would do nowhere; anything else may be over in a moment."""


LOOK_S: Final = 60.0
"""The longest look at small files; a disk that does not answer keeps everybody who is to load."""


async def inspect_in_thread(family: Family, load: Load, care: Care) -> Inspection:
    """Ask the family about a model without loading it.

    Raises:
        InvalidRequestError: The path is no such model.
        LoadError: The family failed.
        LoadTimeoutError: The files did not let themselves be looked at.
    """
    what = f"model {load.model_id!r}: inspection"
    call = start_in_thread(
        what,
        lambda: attempt(lambda: _inspect(family, load), what, kind=LoadError),
    )
    with trio.move_on_after(LOOK_S):
        return (await call.wait(Stop(), care)).unwrap()
    raise LoadTimeoutError(f"{what} was not over within {LOOK_S:g} s; does its disk answer?")


def _inspect(family: Family, load: Load) -> Inspection:
    try:
        return Inspection(family.inspect(load), family.estimate(load))
    except OSError as error:
        if error.errno not in _FAULTS_OF_A_PATH:
            raise
        raise InvalidRequestError(
            f"path cannot be used: {error.strerror}: {error.filename!r}", param="path"
        ) from error
