"""The virtual isolation: stepped families on the event loop itself, without threads.

Under a mock clock all delays cost nothing, and whole servers run deterministically. Everything else
is as in the real isolations: the same handle, the same rule under cancellation, the same hangs.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from paraudio.engines._protocols import Family
from paraudio.engines._steps import SteppedFamily, SteppedModel
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.isolation import Inspection, ModelHandle, SessionHandle
from paraudio.engines.isolation._handle import Handle
from paraudio.engines.isolation._pending import Call, Care, Pending, obtain
from paraudio.engines.isolation._weights import Weights
from paraudio.engines.worker import Done, Reply, attempt, built
from paraudio.errors import LoadError
from paraudio.spec import MAX_SLOTS
from paraudio.testing._gates import Gates
from paraudio.testing._virtual_calls import Calls, pass_time
from paraudio.testing._virtual_port import Residence, VirtualPort


@asynccontextmanager
async def open_virtual_isolation(
    *, hang_timeout_s: float = 10.0, can_kill: bool = False, gates: Gates | None = None
) -> AsyncIterator["VirtualIsolation"]:
    """Open an isolation for stepped families in the time of the event loop's clock.

    Args:
        hang_timeout_s: How long a call may ignore its stop, in seconds.
        can_kill: Whether ``kill`` ends a call, as with processes, or cannot, as with threads.
        gates: Where calls report and may be held.

    Leaving it ends what still runs; calls in progress fail with `BackendError`.
    """
    async with trio.open_nursery() as nursery:
        calls = Calls(nursery, gates or Gates())
        try:
            yield VirtualIsolation(calls, hang_timeout_s=hang_timeout_s, can_kill=can_kill)
        finally:
            nursery.cancel_scope.cancel()


class VirtualIsolation:
    """Runs stepped families; see `paraudio.engines.isolation.Isolation`.

    Attributes:
        can_kill: Whether ``kill`` ends a call.
    """

    def __init__(self, calls: Calls, *, hang_timeout_s: float, can_kill: bool) -> None:
        self._calls = calls
        self._care = Care(hang_timeout_s)
        self.can_kill = can_kill
        self._ports: list[VirtualPort] = []

    async def inspect(self, family: Family, load: Load) -> Inspection:
        """Ask the family about a model without loading it."""
        await trio.lowlevel.checkpoint()
        return attempt(
            lambda: Inspection(family.inspect(load), family.estimate(load)),
            f"{_name(load)}: inspection",
            kind=LoadError,
        ).unwrap()

    async def load(self, family: Family, load: Load) -> ModelHandle:
        """Load weights.

        Raises:
            TypeError: The family has no steps.
        """
        if not isinstance(family, SteppedFamily):
            raise TypeError(f"family {family.name} has no steps, so it cannot run in virtual time")
        stepped: SteppedFamily = family

        async def work() -> Reply[SteppedModel]:
            await self._calls.enter("load", load)
            return Done(await pass_time(stepped.load_steps(load)))

        await trio.lowlevel.checkpoint_if_cancelled()
        stop = Stop()
        heeded = None if stepped.load_ignores_stop(load) else stop
        loading = self._calls.start(f"{_name(load)}: load", work, heeded, kind=LoadError)
        model = await obtain(
            loading, stop, self._care, lambda model: _free(self._calls, load, model)
        )
        return VirtualModel(
            Residence(
                family=stepped,
                load=load,
                model=model,
                weights=Weights(lambda: _free(self._calls, load, model)),
                calls=self._calls,
                care=self._care,
                ports=self._ports,
                can_kill=self.can_kill,
                name=_name(load),
            )
        )

    def abandoned_of(self, model_id: str) -> Sequence[Call]:
        """The calls of one model that ignored their stop and still run."""
        return self._care.abandoned.of(model_id)

    def abandoned(self) -> list[str]:
        """One line for each call that ignored its stop and still runs."""
        return self._care.abandoned.lines()

    def crash(self, model: str, session: int | None = None) -> int:
        """Let the workers of a model die, as processes can: what they run fails.

        Args:
            model: The model's ID.
            session: The number of one session, from 1; None is all.

        Returns:
            How many sessions were hit.
        """
        hit = [port for port in self._ports if port.is_of(model, session)]
        for port in hit:
            port.crash()
        return len(hit)


class VirtualModel:
    """Loaded weights in virtual time; see `paraudio.engines.isolation.ModelHandle`."""

    def __init__(self, home: Residence) -> None:
        self._home = home
        self._capacity = min(home.model.capacity(), MAX_SLOTS)
        self._voices = home.model.voices()
        self._built = 0

    @property
    def capacity(self) -> int:
        """How many sessions may exist at once."""
        return self._capacity

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the model itself."""
        return self._voices

    async def session(self) -> SessionHandle:
        """Build a session."""
        await trio.lowlevel.checkpoint_if_cancelled()
        home = self._home
        self._built += 1
        number = self._built

        async def work() -> Reply[VirtualPort]:
            await home.calls.enter("session", home.load, number)
            return Done(VirtualPort(home, built(home.model.session(), home.name), number))

        stop = Stop()
        building = home.calls.start(f"{home.name}: session", work, stop, kind=LoadError)
        home.weights.expect(building)
        port = await obtain(building, stop, home.care, VirtualPort.close)
        home.ports.append(port)
        return Handle(port, home.care, port.name)

    async def close(self) -> None:
        """Free the weights."""
        if (freeing := self._home.weights.close()) is not None:
            await freeing.outlast(self._home.care)


def _name(load: Load) -> str:
    return f"model {load.model_id!r}"


def _free(calls: Calls, load: Load, model: SteppedModel) -> Pending[None]:
    async def work() -> Reply[None]:
        await calls.enter("close_model", load)
        await pass_time(model.close_steps())
        return Done(None)

    return calls.start(f"{_name(load)}: unload", work)
