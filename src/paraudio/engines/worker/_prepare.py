"""The small steps around a session: that it was built, and that a job is prepared for it."""

from collections.abc import Sequence
from typing import TypeVar

from paraudio.engines._protocols import LiveSession, Session
from paraudio.engines._stop import Stop
from paraudio.engines._values import Job
from paraudio.engines.worker._reply import Done, Failed, Reply, translated
from paraudio.errors import InvalidRequestError, LoadError

SessionT = TypeVar("SessionT", bound=Session)


def prepare(session: Session, job: Job, what: str) -> Reply[object]:
    """Prepare one job; a job that is wrong leaves the session untouched."""
    try:
        return Done(session.prepare(job))
    except InvalidRequestError as error:
        return Failed(error, touched=False)
    except BaseException as error:
        return Failed(translated(error, what))


def prepare_all(session: Session, jobs: Sequence[Job], what: str) -> Reply[list[object]]:
    """Prepare jobs in order, up to the first that fails."""
    prepared: list[object] = []
    for job in jobs:
        reply = prepare(session, job, what)
        if isinstance(reply, Failed):
            return reply
        prepared.append(reply.value)
    return Done(prepared)


def begin(session: LiveSession, job: Job, stop: Stop, what: str) -> Reply[None]:
    """Begin a live job; a job that is wrong leaves the session untouched."""
    try:
        session.begin(job, stop)
    except InvalidRequestError as error:
        return Failed(error, touched=False)
    except BaseException as error:
        return Failed(translated(error, what))
    return Done(None, touched=True)


def built(session: SessionT | None, what: str) -> SessionT:
    """Return the session that a family built.

    Raises:
        LoadError: It built none.
    """
    if session is None:
        raise LoadError(f"{what}: the family built no session")
    return session
