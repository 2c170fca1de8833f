"""The simulated family: it behaves like a model, in time and in failure, without being one.

It is for rehearsing operations, for load tests and for the contract's tests: how long loads, runs
and unloads take, how many sessions fit and what fails when are options. Each result names the
configuration, the load and the session that made it, so a caller can see who served whom.
"""

from collections.abc import Mapping

import numpy as np

from paraudio.engines._options import Option, check_options, flag_option, whole_option
from paraudio.engines._steps import Steps, drive
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.families._simulated_ledger import Ledger
from paraudio.engines.families._simulated_options import (
    LOAD_OPTIONS,
    REQUEST_OPTIONS,
    SESSION_OPTIONS,
)
from paraudio.engines.families._simulated_session import SimulatedSession
from paraudio.engines.families._simulated_sound import RATE
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

_MODES = frozenset({"offline", "streaming"})


class SimulatedFamily:
    """Tones for text; text, speech and speakers for sound; with delays and failures to order.

    What "the first N" counts belongs to one object of this class and, in it, to one configuration:
    a model's ID, path, load options and session options.
    """

    name: str = "simulated"
    tasks: Mapping[Task, frozenset[str]] = {
        "tts": _MODES,
        "asr": _MODES,
        "vad": _MODES,
        "diar": _MODES,
    }
    load_options: tuple[Option, ...] = LOAD_OPTIONS
    session_options: tuple[Option, ...] = SESSION_OPTIONS
    request_options: tuple[Option, ...] = REQUEST_OPTIONS
    isolation: IsolationName | None = None
    imitates: bool = True
    advertises: str = "up to 16 slots, as its capacity option says; its sessions share nothing"

    def __init__(self) -> None:
        self._ledger = Ledger()

    def inspect(self, load: Load) -> Mapping[str, Json]:
        """Say what the model would be; reads nothing, takes any path.

        Raises:
            InvalidRequestError: The task, the mode or an option is not one of the family's.
        """
        self._check(load)
        return {"sample_rate": RATE, "simulated": True}

    def estimate(self, load: Load) -> int:
        """The bytes that ``memory_mb`` asks for."""
        return whole_option(self._options(load), "memory_mb") * 2**20

    def load_ignores_stop(self, load: Load) -> bool:
        """What ``load_ignores_cancel`` says."""
        return flag_option(self._options(load), "load_ignores_cancel")

    def load_steps(self, load: Load) -> Steps["SimulatedModel"]:
        """The steps of ``load``, without holding memory."""
        options, session_options = self._check(load)
        yield whole_option(options, "load_ms") / 1000
        number = self._ledger.next("loads", load)
        if number <= whole_option(options, "fail_loads"):
            raise RuntimeError(f"simulated failure of load {number} of {load.path!r}")
        return SimulatedModel(load, options, session_options, self._ledger)

    def load(self, load: Load, stop: Stop) -> "SimulatedModel":
        """Let ``load_ms`` pass, fail if it is this load's turn, and hold ``memory_mb``."""
        model = drive(self.load_steps(load), None if self.load_ignores_stop(load) else stop)
        model.hold(self.estimate(load))
        return model

    def replica(self, load: Load, number: int) -> "SimulatedFamily":
        """The family for a worker process that will load ``load`` and build its session ``number``.

        Counts of loads and sessions stay with this object, which every worker of a model comes
        from; counts of runs and preparations are each worker's own.
        """
        copy = SimulatedFamily()
        copy._ledger = self._ledger.branch(load, number)
        return copy

    def _check(self, load: Load) -> tuple[dict[str, Json], dict[str, Json]]:
        if load.task not in self.tasks:
            raise InvalidRequestError(
                f"the simulated family has no task {load.task!r}; it has "
                + ", ".join(sorted(self.tasks)),
                param="task",
            )
        if load.mode not in self.tasks[load.task]:
            raise InvalidRequestError(
                f"the simulated family has no mode {load.mode!r}; it has "
                + ", ".join(sorted(_MODES)),
                param="mode",
            )
        session = check_options(load.session_options, self.session_options, param="session_options")
        return self._options(load), session

    def _options(self, load: Load) -> dict[str, Json]:
        return check_options(load.options, self.load_options, param="load_options")


class SimulatedModel:
    """Weights that are none; knows what its sessions are to do."""

    def __init__(
        self,
        load: Load,
        options: Mapping[str, Json],
        session_options: Mapping[str, Json],
        ledger: Ledger,
    ) -> None:
        self._load = load
        self._options = options
        self._session_options = session_options
        self._ledger = ledger
        self._sessions = ledger.first_session
        self._held: object = None

    def hold(self, size: int) -> None:
        """Hold ``size`` bytes of memory for real, every page of them touched."""
        self._held = np.ones(size, np.uint8) if size else None

    def capacity(self) -> int:
        """What the ``capacity`` option says."""
        return whole_option(self._options, "capacity")

    def voices(self) -> tuple[str, ...]:
        """None: any voice is taken, and changes the tone."""
        return ()

    def session(self) -> SimulatedSession | None:
        """Build the next session, unless it is the one to fail or to come out as nothing."""
        self._sessions += 1
        number = self._ledger.next("sessions", self._load)
        if number == whole_option(self._options, "fail_clone"):
            raise RuntimeError(f"simulated failure of session {number} of {self._load.path!r}")
        if number <= whole_option(self._options, "null_sessions"):
            return None
        return SimulatedSession(self._load, self._session_options, self._ledger, self._sessions)

    def close_steps(self) -> Steps[None]:
        """The steps of ``close``."""
        yield whole_option(self._options, "unload_ms") / 1000
        self._held = None

    def close(self) -> None:
        """Let ``unload_ms`` pass and free what was held."""
        drive(self.close_steps(), None)
