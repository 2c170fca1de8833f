"""Management: registering, replacing and unloading models, one or many."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TypeAlias

import trio

from paraudio.admission import Claim, Lease, effective_bound_s
from paraudio.engines.isolation import Inspection
from paraudio.errors import ConfigError, InvalidRequestError, ShuttingDownError
from paraudio.lifecycle._bulk import Bulk, Unloaded
from paraudio.lifecycle._candidate import Candidate
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._promise import Promise
from paraudio.lifecycle._reconfigure import Reconfiguration
from paraudio.lifecycle._registry import Registry
from paraudio.lifecycle._retire import hand_over_retirement
from paraudio.spec import ModelSpec

log = logging.getLogger(__name__)

Present: TypeAlias = Callable[[ModelSpec], Awaitable[bool]]
"""Tells whether the files of a model are there."""


async def always(_: ModelSpec) -> bool:
    """All files are taken to be there; a checkpoint."""
    await trio.lowlevel.checkpoint()
    return True


class Management:
    """The operations on the registry; their contracts stand at `Runtime`.

    Each takes its place in a queue, and then hands its lease, with what is to be done, to the
    model's own task. So a caller that leaves loses its place while it waits, and nothing after.

    Args:
        context: The runtime's.
        registry: The runtime's.
    """

    def __init__(self, context: Context, registry: Registry) -> None:
        self._context = context
        self._registry = registry
        self._fences: set[Bulk] = set()

    def add(self, spec: ModelSpec) -> None:
        """See `Runtime.add`."""
        if spec.id in self._registry:
            raise ConfigError(f"two models have the ID {spec.id!r}", param="id")
        try:
            candidate = self._context.checker.check(spec)
        except InvalidRequestError as error:
            raise ConfigError(f"model {spec.id!r}: {error.message}", param=error.param) from error
        self._registry.publish(self._registry.prepare(candidate))

    async def load_eager(self) -> None:
        """See `Runtime.load_eager`."""
        eager = [entry for entry in self._registry.entries() if not entry.spec.lazy]
        limit = self._context.settings.max_loaded_models or len(eager)
        for entry in eager[limit:]:
            log.warning(
                "model %r is loaded at its first request: max_loaded_models is %d", entry.id, limit
            )
        async with trio.open_nursery() as nursery:
            for entry in eager[:limit]:
                nursery.start_soon(self._load, entry)

    async def survey(self, present: Present) -> None:
        """See `Runtime.survey`."""
        for entry in tuple(self._registry.entries()):
            if not self._context.phases.running:
                return
            if entry.inspection is None:
                await self._look_at(entry, present)

    async def inspect(self, spec: ModelSpec) -> Inspection:
        """See `Runtime.inspect`."""
        return await self._inspect(self._context.checker.check(spec))

    async def register(self, spec: ModelSpec, bound_ms: int | None, request: str | None) -> bool:
        """See `Runtime.register`."""
        self._context.phases.check()
        candidate = self._context.checker.check(spec)
        inspection = await self._inspect(candidate)
        self._context.phases.check()
        if spec.id in self._registry:
            return await self._replace(candidate, inspection, bound_ms, request)
        return await self._register(candidate, inspection, bound_ms, request).wait()

    async def unload(self, model_id: str, bound_ms: int | None, request: str | None) -> None:
        """See `Runtime.unload`."""
        entry = self._registry.get(model_id).entry
        bound_s = self._bound_s(bound_ms, entry.spec)
        lease = await entry.queue.admit(Claim.MANAGER, bound_s=bound_s, request=request)
        await hand_over_retirement(self._context, entry, lease, "unload").wait()

    async def unload_many(
        self, ids: Sequence[str] | None, fence: bool, request: str | None
    ) -> Unloaded:
        """See `Runtime.unload_many`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._context.phases.check()
        everything = {entry.id: entry for entry in self._registry.entries()}
        wanted = tuple(dict.fromkeys(everything if ids is None else ids))
        chosen = [everything[each] for each in wanted if each in everything]
        covers = None if ids is None else frozenset(wanted)
        bulk = Bulk(self._context, chosen, covers=covers, request=request)
        if fence:
            self._fences.add(bulk)
        try:
            await bulk.drain()
        finally:
            self._fences.discard(bulk)
        seen = dict.fromkeys([each for each in wanted if each in everything] + bulk.late)
        return Unloaded(
            tuple([each for each in seen if each not in bulk.stuck]),
            tuple([each for each in wanted if each not in seen]),
            bulk.stuck,
        )

    async def _load(self, entry: Entry) -> None:
        async def operation(lease: Lease) -> None:
            await self._registry.loader.ensure(entry, lease.ticket, inf)

        try:
            lease = await entry.queue.admit(Claim.MANAGER)
            await entry.hand_over(lease, operation).wait()
        except Exception as error:  # whatever it is, the server has other models to serve
            log.warning("model %r was not loaded: %s", entry.id, error)

    async def _look_at(self, entry: Entry, present: Present) -> None:
        candidate = entry.candidate
        with trio.move_on_after(self._context.hang_s):
            try:
                if await present(candidate.spec):
                    entry.inspected(await self._inspect(candidate))
            except ShuttingDownError:
                return
            except Exception as error:  # nothing depends on it, the server least of all
                log.info("nothing is known of model %r until it is loaded: %s", entry.id, error)

    async def _inspect(self, candidate: Candidate) -> Inspection:
        with self._context.phases.interruptible():
            return await candidate.inspect()

    def _register(
        self,
        candidate: Candidate,
        inspection: Inspection,
        bound_ms: int | None,
        request: str | None,
    ) -> Promise[bool]:
        """Publish an entry that its registration holds already, and load it there."""
        model = self._registry.prepare(candidate, inspection)
        entry, bound_s = model.entry, self._bound_s(bound_ms, candidate.spec)
        lease = entry.queue.admit_nowait(Claim.MANAGER, request=request)
        if lease is None:
            raise RuntimeError(f"the new entry {entry.id!r} is held by somebody")

        async def operation(held: Lease) -> bool:
            await self._registry.loader.ensure(entry, held.ticket, bound_s)
            return False

        self._registry.publish(model)
        self._watch(entry)
        return entry.hand_over(lease, operation)

    async def _replace(
        self,
        candidate: Candidate,
        inspection: Inspection,
        bound_ms: int | None,
        request: str | None,
    ) -> bool:
        """Queue on the entry of the same ID, and replace its configuration there."""
        entry = self._registry.get(candidate.spec.id).entry
        bound_s = self._bound_s(bound_ms, entry.spec)
        ticket = entry.queue.enter(Claim.MANAGER, bound_s=bound_s, request=request)
        self._watch(entry)
        lease = await entry.queue.wait(ticket)
        replacement = Reconfiguration(
            self._context, self._registry.loader, entry, candidate, inspection, bound_s
        )
        return await entry.hand_over(lease, replacement.run).wait()

    def _watch(self, entry: Entry) -> None:
        """Tell the fences of a registration, in the step in which it took its place."""
        for fence in self._fences:
            fence.watch(entry)

    def _bound_s(self, bound_ms: int | None, spec: ModelSpec) -> float:
        return effective_bound_s(
            bound_ms, spec.busy_timeout_ms, self._context.settings.busy_timeout_ms
        )
