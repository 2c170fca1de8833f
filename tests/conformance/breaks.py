"""Ways to break a server, each with the cells that must notice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
import trio

from paraudio.admission import Claim
from paraudio.admission._line import Line
from paraudio.admission._rules import grantable
from paraudio.admission._ticket import Ticket
from paraudio.engines.families._simulated_session import SimulatedSession
from paraudio.errors import ServerBusyError, UnavailableError
from paraudio.http import _models
from paraudio.lifecycle._bulk import Bulk
from paraudio.lifecycle._load import Loader
from paraudio.lifecycle._manage import Management
from paraudio.lifecycle._reconfigure import Reconfiguration

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Break:
    """A way to break a server.

    Attributes:
        name: What is wrong then.
        do: Breaks it.
        cells: Those that must fail.
        says: A part of what one of them must say.
    """

    name: str
    do: Callable[[Patch], None]
    cells: tuple[str, ...]
    says: str


def _serve(patch: Patch, choose: Callable[[list[Ticket]], Ticket]) -> None:
    def settle(line: Line) -> None:
        while waiting := line._inbox.waiting():
            head = choose(waiting)
            if not grantable(head.claim, line._slots.free, line._slots.total):
                return
            line._grant(head)

    patch.setattr(Line, "settle", settle)


def newest_first(patch: Patch) -> None:
    _serve(patch, lambda waiting: waiting[-1])


def requests_pass_managers(patch: Patch) -> None:
    def first_request(waiting: list[Ticket]) -> Ticket:
        return next((each for each in waiting if each.claim is Claim.REQUEST), waiting[0])

    _serve(patch, first_request)


def busy_is_success(patch: Patch) -> None:
    patch.setattr(ServerBusyError, "status", 200)


def no_retry_after(patch: Patch) -> None:
    patch.setattr(UnavailableError, "default_retry_after_s", None)


def _show(patch: Patch, **lies: object) -> None:
    truth = _models.model_json

    def model_json(*args: Any) -> dict[str, Any]:
        return {**truth(*args), **lies}

    patch.setattr(_models, "model_json", model_json)


def nobody_queues(patch: Patch) -> None:
    _show(patch, queued_requests=0)


def always_loaded(patch: Patch) -> None:
    _show(patch, loaded=True, max_parallel_slots=16)


def runs_ignore_their_stop(patch: Patch) -> None:
    patch.setattr(SimulatedSession, "_heeded", lambda *_: None)


def nothing_is_validated(patch: Patch) -> None:
    async def check(_: Reconfiguration) -> None:
        await trio.lowlevel.checkpoint()

    patch.setattr(Reconfiguration, "_check_capacity", check)


def one_load_at_a_time(patch: Patch) -> None:
    lock, load = trio.Lock(), Loader.load

    async def alone(*args: Any) -> None:
        async with lock:
            await load(*args)

    patch.setattr(Loader, "load", alone)


def unloads_answer_at_once(patch: Patch) -> None:
    async def unload(*_: object) -> None:
        await trio.lowlevel.checkpoint()

    patch.setattr(Management, "unload", unload)


def fences_see_nothing(patch: Patch) -> None:
    patch.setattr(Bulk, "watch", lambda *_: None)


BREAKS: Final = (
    Break(
        "the newest is served first",
        newest_first,
        ("order/request_then_request", "order/manager_then_manager"),
        "which came first",
    ),
    Break(
        "requests pass managers",
        requests_pass_managers,
        ("two/a_running_spare_b_ready/reconfigure_a", "two/a_loading_b_ready/reconfigure_a"),
        "served by '/one', not by '/three'",
    ),
    Break(
        "busy is answered as success",
        busy_is_success,
        ("time/admission_timeout_request", "order/manager_then_request"),
        "it should be 503 server_busy",
    ),
    Break(
        "a 503 does not say when to come again",
        no_retry_after,
        ("time/admission_timeout_request", "beyond/g07_queue_bound"),
        "without Retry-After",
    ),
    Break("counters say that nobody queues", nobody_queues, ("phase/queued",), "never showed"),
    Break(
        "status says that all is loaded",
        always_loaded,
        ("state/models_counters", "beyond/g06_atomic_status", "ops/loading/status"),
        "loading, and loaded is True",
    ),
    Break(
        "runs ignore their stop",
        runs_ignore_their_stop,
        ("beyond/g03_running_inference_cancelled",),
        "never showed",
    ),
    Break(
        "nothing is validated before the commit",
        nothing_is_validated,
        ("fail/unsupported_capacity_on_existing", "fail/capacity_probe_of_changed_replacement"),
        "left its mark",
    ),
    Break(
        "models wait for each other's loads",
        one_load_at_a_time,
        ("register_new/different_ids_independent",),
        "for which it must not wait",
    ),
    Break(
        "unloads answer before anything is unloaded",
        unloads_answer_at_once,
        ("ops/ready/unload", "two/a_full_queued_b_ready/unload_a"),
        "did not wait for",
    ),
    Break(
        "fences see nothing",
        fences_see_nothing,
        ("beyond/g12_fenced_bulk_unload",),
        "a fence takes what comes meanwhile",
    ),
)
