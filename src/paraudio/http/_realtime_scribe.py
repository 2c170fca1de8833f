"""Writing down what is said in one session, item by item, in order.

An item holds a slot of its model from the moment at which there is something to transcribe. For a
model that can listen that is when the speech begins: words come while it goes on, and the whole
is there soon after its end. For any other it is when the item is committed. Between two items
nothing is held, so a microphone that hears nothing keeps no slot.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

import numpy as np
import trio

from paraudio.audio import from_int16
from paraudio.engines import Audio, Result, Samples, StreamEvent
from paraudio.errors import InvalidRequestError
from paraudio.http import _realtime_events as events
from paraudio.http._ask import Ask
from paraudio.http._errors import answer_to, split_cancelled
from paraudio.http._exchange import Exchange
from paraudio.http._prepare import prepare_live
from paraudio.http._realtime_events import Emit
from paraudio.http._realtime_sound import Frames
from paraudio.http._realtime_utterance import Bell, Utterance
from paraudio.http._sse import no_result
from paraudio.http._transcripts import text_of
from paraudio.http._work import Stopwatch, lease, start_events

log = logging.getLogger(__name__)

_NO_MODEL: Final = (
    "no model transcribes in this session: name one in the address (?model=) or in session.update "
    "(audio.input.transcription.model)"
)


INLINE_FRAMES: Final = 480_000
"""So many frames are turned into floats where they are: under a millisecond."""


class Scribe:
    """Transcribes the items of one session.

    Args:
        exchange: The session among the requests.
        bound_ms: The client's own bound of its waits, or None.
        bell: Rung when an item has ended.
        emit: Takes deltas, transcripts and failures.
        most_s: How long an item that is being spoken may hold its slot.
        cut: Ends the item that is being spoken.
        note: Takes what was said in an item, by its ID.

    Attributes:
        partials: Whether the client wants to know what is heard so far.
    """

    def __init__(
        self,
        exchange: Exchange,
        bound_ms: int | None,
        bell: Bell,
        emit: Emit,
        *,
        most_s: float,
        cut: Callable[[], None],
        note: Callable[[str, str], None],
    ) -> None:
        self.partials = False
        self._exchange = exchange
        self._bound_ms = bound_ms
        self._bell = bell
        self._emit = emit
        self._most_s = most_s
        self._cut = cut
        self._note = note
        self._items: deque[Utterance] = deque()
        self._deaf: tuple[str, int] | None = None

    @property
    def ahead_s(self) -> float:
        """How many seconds of sound wait to be transcribed."""
        return sum(item.waiting / item.rate for item in self._items)

    @property
    def waiting(self) -> int:
        """How many items are not done."""
        return len(self._items)

    def add(self, item: Utterance) -> None:
        """Take an item on; its turn comes when those before it are done."""
        self._items.append(item)
        self._bell.ring()

    async def wait_done(self) -> None:
        """Wait until every item is done."""
        while self._items:
            await self._bell.wait()

    async def run(self) -> None:
        """Transcribe items for ever.

        Cancelled: what runs is stopped, and the slot is given back when the model is free.
        """
        while True:
            while not self._items:
                await self._bell.wait()
            item = self._items[0]
            try:
                with item.scope:
                    await self._serve(item)
            finally:
                self._items.popleft()
                item.forget()
                self._bell.ring()

    async def _serve(self, item: Utterance) -> None:
        try:
            text = await self._transcribe(item)
        except (Exception, BaseExceptionGroup) as error:
            if split_cancelled(error)[0]:
                raise
            answer = answer_to(error, self._exchange.id)
            # An item has its end before it has its failure.
            await item.wait_complete()
            self._emit(events.failed(item.item_id, answer.error))
        else:
            self._note(item.item_id, text)
            self._emit(events.completed(item.item_id, text, item.seconds))

    async def _transcribe(self, item: Utterance) -> str:
        if item.hearing.model is None:
            raise InvalidRequestError(_NO_MODEL, param="model")
        if item.live and not item.complete and not self._is_deaf(item.hearing.model):
            text = await self._transcribe_live(item)
            if text is not None:
                return text
        pieces = await item.whole()
        return await self._transcribe_whole(item, pieces) if pieces else ""

    async def _transcribe_live(self, item: Utterance) -> str | None:
        """Transcribe an item while it is spoken; None where the model cannot do that."""
        ask = self._ask(item)
        async with lease(self._exchange, ask) as use:
            job = await prepare_live(self._exchange.core, use, ask)
            if not use.can_live:
                self._deaf = self._load_of(ask.model)
                return None
            said = _Said(self._emit, item.item_id, partials=self.partials)
            work = Stopwatch()
            until = trio.current_time() + self._most_s
            async with use.live(job) as live:
                while (frames := await self._take(item, until)) is not None:
                    with work:
                        heard = await live.feed(Audio(from_int16(frames), item.rate))
                    said.tell(heard)
                with work:
                    heard = await live.finish()
                said.tell(heard)
            self._measure(item, work)
            return said.text()

    async def _take(self, item: Utterance, until: float) -> Frames | None:
        """Wait for the next piece of an item, which ends where it has taken too long."""
        with trio.move_on_at(until):
            return await item.take()
        if not item.complete:
            self._cut()
        return await item.take()

    async def _transcribe_whole(self, item: Utterance, pieces: Sequence[Frames]) -> str:
        ask = self._ask(item)
        async with AsyncExitStack() as stack:
            use = await stack.enter_async_context(lease(self._exchange, ask))
            job = await prepare_live(self._exchange.core, use, ask)
            job = replace(job, audio=Audio(await self._floats(pieces), item.rate))
            said = _Said(self._emit, item.item_id, partials=self.partials)
            work = Stopwatch()
            with work:
                async for event in await start_events(stack, use, job, ask):
                    said.tell([event])
            self._measure(item, work)
            return said.text()

    async def _floats(self, pieces: Sequence[Frames]) -> Samples:
        """The frames as floats, made in a thread where they are many."""
        if sum(map(len, pieces)) <= INLINE_FRAMES:
            return _joined(pieces)
        return await self._exchange.core.workers.run(_joined, pieces)

    def _ask(self, item: Utterance) -> Ask:
        hearing = item.hearing
        return Ask(
            model=hearing.model or "",
            tasks=("asr",),
            bound_ms=self._bound_ms,
            language=hearing.language,
            prompt=hearing.prompt,
        )

    def _is_deaf(self, model: str) -> bool:
        """Whether the model, as it is loaded, is known to hear nothing before it has all."""
        return self._deaf is not None and self._deaf == self._load_of(model)

    def _load_of(self, model: str) -> tuple[str, int]:
        return model, self._exchange.core.runtime.model(model).generation

    def _measure(self, item: Utterance, work: Stopwatch) -> None:
        if item.frames and item.hearing.model is not None:
            self._exchange.core.meters.worked(item.hearing.model, work.spent_s / item.seconds)


def _joined(pieces: Sequence[Frames]) -> Samples:
    return from_int16(np.concatenate(pieces))


class _Said:
    """What is known of the transcript of one item."""

    def __init__(self, emit: Emit, item_id: str, *, partials: bool) -> None:
        self._emit = emit
        self._item_id = item_id
        self._partials = partials
        self._told = False
        self._result: Result | None = None

    def tell(self, heard: Sequence[StreamEvent]) -> None:
        """Pass on what was heard."""
        for one in heard:
            if one.text:
                self._emit(events.delta(self._item_id, one.text))
                self._told = True
            elif one.partial is not None and self._partials:
                self._emit(events.partial(self._item_id, one.partial))
            elif one.result is not None:
                self._result = one.result

    def text(self) -> str:
        """The whole, which is told in one piece where nothing was told before."""
        if self._result is None:
            raise no_result()
        text = text_of(self._result)
        if text and not self._told:
            self._emit(events.delta(self._item_id, text))
        return text
