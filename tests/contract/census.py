"""A simulated family that counts what of it is open: weights, and the sessions over them."""

from collections.abc import Mapping

from paraudio.engines import Load
from paraudio.engines._steps import Steps
from paraudio.engines.families._simulated_session import SimulatedSession
from paraudio.engines.families.simulated import SimulatedFamily, SimulatedModel
from paraudio.spec import Json


class Census:
    """What is open, and what was wrong about how it was closed.

    A load that is made again in place of a dead worker dies with that worker, so only the first
    one of each load counts.

    Attributes:
        weights: Weights that are open, by an object that stands for them.
        sessions: Sessions that are open, the same.
        wrongs: What must never happen, in words.
    """

    def __init__(self) -> None:
        self.weights: dict[int, object] = {}
        self.sessions: dict[int, object] = {}
        self.wrongs: list[str] = []
        self._loads: list[Load] = []

    def is_first(self, load: Load) -> bool:
        """Whether this very load is made for the first time."""
        if any(load is known for known in self._loads):
            return False
        self._loads.append(load)
        return True


class CountedFamily(SimulatedFamily):
    """The simulated family, counted.

    Attributes:
        census: What of it is open.
    """

    def __init__(self) -> None:
        super().__init__()
        self.census = Census()

    def load_steps(self, load: Load) -> Steps["CountedModel"]:
        yield from super().load_steps(load)
        options, session_options = self._check(load)
        counted = CountedModel(load, options, session_options, self)
        if self.census.is_first(load):
            self.census.weights[id(counted)] = counted
        return counted


class CountedModel(SimulatedModel):
    """Weights that are noted until they are freed; nobody may be over them then."""

    def __init__(
        self,
        load: Load,
        options: Mapping[str, Json],
        session_options: Mapping[str, Json],
        family: CountedFamily,
    ) -> None:
        super().__init__(load, options, session_options, family._ledger)
        self._census = family.census
        self._name = f"{load.model_id} {load.path} {load.generation}"
        self._over = 0

    def session(self) -> "CountedSession | None":
        made = super().session()
        if made is None:
            return None
        session = CountedSession(self._load, self._session_options, self._sessions, self)
        self._over += 1
        self._census.sessions[id(session)] = session
        return session

    def close_steps(self) -> Steps[None]:
        yield from super().close_steps()
        if self._census.weights.pop(id(self), None) is None:
            self._census.wrongs.append(f"the weights of {self._name} were freed twice")
        if self._over:
            self._census.wrongs.append(
                f"the weights of {self._name} were freed under {self._over} sessions"
            )

    def part(self, session: "CountedSession") -> None:
        """A session is closed."""
        self._over -= 1
        if self._census.sessions.pop(id(session), None) is None:
            self._census.wrongs.append(f"a session of {self._name} was closed twice")


class CountedSession(SimulatedSession):
    """A session that is noted until it is closed."""

    def __init__(
        self,
        load: Load,
        options: Mapping[str, Json],
        number: int,
        model: CountedModel,
    ) -> None:
        super().__init__(load, options, model._ledger, number)
        self._counted = model

    def close(self) -> None:
        super().close()
        self._counted.part(self)
