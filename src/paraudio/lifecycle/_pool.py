"""The complete set of sessions of a loaded model, over their shared weights."""

from collections.abc import Sequence
from typing import NamedTuple

import trio

from paraudio.engines import Load
from paraudio.engines.isolation import ModelHandle, SessionHandle
from paraudio.errors import InvalidRequestError, LoadError, ParaudioError
from paraudio.lifecycle._candidate import Candidate
from paraudio.lifecycle._phases import Phases


class Seat(NamedTuple):
    """A session of a pool, bound to the lease that holds its slot."""

    pool: "Pool"
    session: SessionHandle


class Pool:
    """Weights and one session a slot; published whole, retired whole.

    Attributes:
        model: The weights.
        sessions: One a slot.
        generation: Which load of its model this is, from 1.
        broken: Whether a session could be neither reset nor replaced; nobody new takes one then.
    """

    # Invariant: a slot in ``users`` belongs to exactly one request lease of the model.

    def __init__(
        self, model: ModelHandle, sessions: Sequence[SessionHandle], generation: int
    ) -> None:
        self.model = model
        self.sessions = tuple(sessions)
        self.generation = generation
        self.broken = False
        self._users: set[int] = set()

    @property
    def capacity(self) -> int:
        """How many sessions the weights allow at once."""
        return self.model.capacity

    @property
    def in_use(self) -> bool:
        """Whether anybody has a session of it."""
        return bool(self._users)

    def take(self, slot: int) -> Seat:
        """Bind the session of a slot to the lease that holds the slot."""
        if slot in self._users:
            raise RuntimeError(f"the session of slot {slot} is in use")
        self._users.add(slot)
        return Seat(self, self.sessions[slot])

    def put(self, slot: int) -> None:
        """End `take`."""
        self._users.remove(slot)


async def build(candidate: Candidate, load: Load, slots: int, phases: Phases) -> Pool:
    """Build weights, the primary session and its clones, in that order and privately.

    Whatever goes wrong, cancellation included, all that was built is destroyed before this raises:
    clones, primary, weights.

    Raises:
        InvalidRequestError: The path or an option is wrong, or the weights allow fewer sessions.
        LoadError: The load failed.
    """
    try:
        return await _build(candidate, load, slots, phases)
    except ParaudioError:
        raise
    except Exception as error:
        raise LoadError(f"model {candidate.spec.id!r} could not be loaded: {error}") from error


async def _build(candidate: Candidate, load: Load, slots: int, phases: Phases) -> Pool:
    model = await candidate.isolation.load(candidate.family, load)
    sessions: list[SessionHandle] = []
    try:
        check_capacity(candidate.spec.id, model.capacity, slots)
        while len(sessions) < slots:
            sessions.append(await model.session())
    except BaseException:
        with phases.shielded():
            await destroy(model, sessions)
        raise
    return Pool(model, sessions, load.generation)


async def probe(candidate: Candidate, load: Load, phases: Phases) -> int:
    """Learn the capacity of a configuration from private weights and a private primary session.

    Nothing is left of them when this returns or raises.

    Raises:
        InvalidRequestError: The path or an option is wrong.
        LoadError: The load failed.
    """
    pool = await build(candidate, load, 1, phases)
    try:
        return pool.capacity
    finally:
        with phases.shielded():
            await destroy(pool.model, pool.sessions)


def check_capacity(model_id: str, capacity: int, slots: int) -> None:
    """Raise `InvalidRequestError` for more slots than the weights allow sessions."""
    if slots > capacity:
        would_do = "1" if capacity == 1 else f"1 to {capacity}"
        raise InvalidRequestError(
            f"slots must be {would_do} for model {model_id!r}, not {slots}: "
            "its weights allow no more sessions at once",
            param="slots",
        )


async def destroy(model: ModelHandle, sessions: Sequence[SessionHandle]) -> tuple[int, ...]:
    """Free clones, primary and weights, in that order.

    A session whose call ignores its stop is killed where its isolation can; else it is abandoned.
    Its isolation then keeps the weights until that call has ended.

    Cancelled: what is being freed is, the rest is not; an isolation may shield each single close,
    and the sum of them would have no bound.

    Returns:
        The slots whose sessions were abandoned.
    """
    abandoned = []
    for slot, session in reversed(tuple(enumerate(sessions))):
        if session.busy and not await session.kill():
            abandoned.append(slot)
        await session.close()
        await trio.lowlevel.checkpoint_if_cancelled()
    await model.close()
    return tuple(reversed(abandoned))
