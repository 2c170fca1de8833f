"""The family that a worker process gets: a copy of the server's, as it is now."""

import pickle
from dataclasses import replace
from typing import Protocol, runtime_checkable

from paraudio.engines._protocols import Family
from paraudio.engines._values import Job, Load


@runtime_checkable
class Replicated(Protocol):
    """A family that remembers what it did, and so must tell each worker where it stands."""

    def replica(self, load: Load, number: int) -> Family:
        """The family for the worker that loads ``load`` and builds its session ``number``, from 1.

        Session 1 lives in the process that did the first load of the weights; each later one makes
        a load of its own, which is part of the same load as far as anyone else can see.
        """


def pickled_family(family: Family, load: Load, number: int) -> bytes:
    """Pickle a family for one worker.

    Raises:
        Exception: The family cannot be pickled, so it cannot run in a process.
    """
    copy = family.replica(load, number) if isinstance(family, Replicated) else family
    return pickle.dumps(copy, protocol=5)


def portable_load(load: Load) -> Load:
    """The load for a worker, which is one of several if the model has more than one session.

    Its dictionaries are plain: read-only views of them cannot be pickled.
    """
    return replace(
        load,
        options=dict(load.options),
        session_options=dict(load.session_options),
        shared=load.settled,
    )


def portable_job(job: Job) -> Job:
    """The job with plain dictionaries."""
    return replace(job, options=dict(job.options))
