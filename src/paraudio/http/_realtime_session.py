"""One realtime session: its client's events in, its own events out, and its end."""

import base64
import binascii
import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import trio

from paraudio.errors import InvalidRequestError, PayloadTooLargeError
from paraudio.http import _realtime_events as events
from paraudio.http._body import INLINE_BYTES
from paraudio.http._errors import answer_to
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields, loads, missing, refusal
from paraudio.http._ingest import Bounds
from paraudio.http._realtime_config import Config, Registered, flat_json, nested_json, updated
from paraudio.http._realtime_ears import Ears
from paraudio.http._realtime_events import Dialect, Event
from paraudio.http._realtime_machine import Machine
from paraudio.http._realtime_scribe import Scribe
from paraudio.http._realtime_sound import Format, Frames
from paraudio.http._realtime_utterance import Bell, Utterance
from paraudio.http._upgrade import GOING_AWAY, POLICY, Socket
from paraudio.transport import Deadline, call_of

T = TypeVar("T")

AHEAD_S: Final = 120.0
"""How much sound may wait for the models before the client is no longer read."""

MOST_WAITING: Final = 100
"""How many items may wait, however short they are, before the client is no longer read."""

MOST_UNSENT: Final = 2**18
"""How many characters may wait for a slow reader before it is no longer read itself."""


_CONVERSATION: Final = {
    "conversation.item.create",
    "conversation.item.truncate",
    "output_audio_buffer.clear",
    "response.cancel",
    "response.create",
}
"""What OpenAI's clients send in conversations only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a session begins.

    Attributes:
        config: What holds until the client changes it.
        models: What it may name.
        dialect: Which names the client knows.
        flat: Whether the first event is ``transcription_session.created``.
        bound_ms: The client's own bound of its waits, or None.
        bounds: What it may cost.
        idle_s: How long a client may send nothing.
        longest_s: How long the session may last.
    """

    config: Config
    models: Registered
    dialect: Dialect
    flat: bool
    bound_ms: int | None
    bounds: Bounds
    idle_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class _Close:
    code: int
    reason: str


class RealtimeSession:
    """Four tasks around one state: a reader, a writer, and one for each of the two models.

    They wait on one bell: whoever changes anything rings it.

    Args:
        exchange: The session among the requests.
        socket: The open websocket.
        opening: How it begins.
    """

    def __init__(self, exchange: Exchange, socket: Socket, opening: Opening) -> None:
        self._exchange = exchange
        self._socket = socket
        self._opening = opening
        self._pause_s = opening.bounds.idle_s
        self._call = call_of(cast("dict[str, Any]", socket.websocket.scope))
        self._id = events.new_id("sess")
        self._bell = Bell()
        self._unsent: deque[str] = deque()
        self._unsent_size = 0
        self._rest = b""
        self._reading = trio.CancelScope()
        self._over = _Close(GOING_AWAY, "the server is shutting down")
        self._machine = Machine(opening.config, opening.dialect, emit=self._emit, begin=self._begin)
        self._scribe = Scribe(
            exchange,
            opening.bound_ms,
            self._bell,
            self._emit,
            most_s=opening.bounds.total_s,
            cut=self._machine.cut,
            note=self._machine.items.write,
        )
        self._ears = Ears(exchange, opening.bound_ms, self._machine, self._bell)
        self._ends = exchange.started + opening.longest_s
        self._expires_at = 0
        if opening.longest_s < math.inf:
            self._expires_at = math.ceil(time.time() + opening.longest_s)
        self._handlers: Mapping[str, Callable[[Fields], Awaitable[None]]] = {
            "session.update": self._update,
            "transcription_session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.retrieve": self._retrieve,
            "conversation.item.delete": self._delete,
        }

    async def run(self) -> None:
        """Serve the client until it leaves, runs out of time, or the server drains.

        Cancelled: what runs is stopped, and every slot is given back.
        """
        if self._call is not None:
            self._call.patience.send_stall_s = self._opening.bounds.send_s
        self._tell_session("transcription_session" if self._opening.flat else "session", "created")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            nursery.start_soon(self._ears.run)
            nursery.start_soon(self._scribe.run)
            nursery.start_soon(self._watch_drain)
            with self._reading:
                self._over = await self._read()
            await self._finish()
            nursery.cancel_scope.cancel("the session is over")
        await self._socket.close(self._over.code, self._over.reason)

    async def _finish(self) -> None:
        """Let what was said so far be written down, and sent."""
        self._machine.end()
        self._bell.ring()
        await self._scribe.wait_done()
        while self._unsent_size:
            await self._bell.wait()

    async def _watch_drain(self) -> None:
        await self._exchange.core.runtime.wait_draining()
        self._reading.cancel("the server drains")

    def _begin(self, item: Utterance) -> None:
        self._scribe.add(item)

    # The writer.

    def _emit(self, event: Event) -> None:
        text = json.dumps(event, separators=(",", ":"))
        self._unsent.append(text)
        self._unsent_size += len(text)
        self._bell.ring()

    async def _write(self) -> None:
        while True:
            while not self._unsent:
                await self._bell.wait()
            text = self._unsent.popleft()
            await self._socket.send(text)
            self._unsent_size -= len(text)
            self._bell.ring()

    # The reader.

    async def _read(self) -> _Close:
        """Read until the client has run out of time; returns why."""
        while True:
            await self._wait_for_room()
            message = await self._receive()
            if isinstance(message, _Close):
                return message
            await self._take(message)

    async def _receive(self) -> str | bytes | _Close:
        """Wait for the next message, or for the end of the session.

        A client that stops in the midst of a sentence has spoken: else it would hold a slot for as
        long as it likes.
        """
        rested, paused = self._within(self._opening.idle_s), self._within(self._pause_s)
        while True:
            first = min(rested, paused, key=lambda deadline: deadline.at)
            with trio.move_on_at(min(first.at, self._ends)):
                return await self._socket.receive()
            if self._ends <= first.at:
                return self._expired()
            if not await first.is_over():
                continue
            if first is rested:
                return self._idle()
            paused = self._within(self._pause_s if self._machine.unheard else math.inf)
            if not self._machine.unheard and self._machine.speaking:
                self._machine.end()
                self._bell.ring()

    def _within(self, seconds: float) -> Deadline:
        return Deadline(trio.current_time() + seconds, self._waits)

    def _waits(self) -> bool:
        return self._call is not None and self._call.waiting()

    def _expired(self) -> _Close:
        # The code of the error and of the close are OpenAI's; clients know them, and connect again.
        reason = (
            f"the session has lasted for {self._opening.longest_s:g} s, the longest time that one "
            "may (realtime_session_max_ms); connect again"
        )
        return self._tell_end("session_expired", reason, GOING_AWAY)

    def _idle(self) -> _Close:
        reason = (
            f"nothing came for {self._opening.idle_s:g} s (realtime_idle_timeout_ms); connect again"
        )
        return self._tell_end("idle_timeout", reason, POLICY)

    def _tell_end(self, error_code: str, reason: str, close_code: int) -> _Close:
        error: Event = {"message": reason, "type": "invalid_request_error", "code": error_code}
        self._emit(events.error_event({**error, "param": None}, None))
        return _Close(close_code, reason)

    async def _wait_for_room(self) -> None:
        """Read no further while the models or the client's own reading are behind."""
        while self._unsent_size > MOST_UNSENT or self._is_ahead():
            await self._bell.wait()

    def _is_ahead(self) -> bool:
        if self._scribe.waiting > MOST_WAITING:
            return True
        return self._scribe.ahead_s + self._machine.unheard / self._machine.rate > AHEAD_S

    async def _take(self, message: str | bytes) -> None:
        """Do what an event says; what is wrong with it is told, and the session goes on."""
        cause: str | None = None
        try:
            fields = await self._parsed(message)
            given = fields.get("event_id")
            cause = given[:200] if isinstance(given, str) else None
            await self._handler(fields)(fields)
        except Exception as error:  # whatever failed, the session goes on
            answer = answer_to(error, self._exchange.id)
            self._emit(events.error_event(answer.error, cause))
        self._bell.ring()

    def _handler(self, fields: Fields) -> Callable[[Fields], Awaitable[None]]:
        kind = fields.filled("type", "the kind of the event")
        handler = self._handlers.get(kind)
        if handler is None:
            wanted = "one of " + ", ".join(self._handlers)
            if kind in _CONVERSATION:
                wanted += ", for speech is written down here and never answered"
            raise refusal("type", wanted, kind)
        return handler

    async def _parsed(self, message: str | bytes) -> Fields:
        if isinstance(message, bytes):
            raise InvalidRequestError(
                "an event must be a text message with a JSON object, not a binary message"
            )
        value = await self._work(len(message), lambda: loads(message.encode(), whole="the event"))
        if not isinstance(value, dict):
            raise InvalidRequestError("an event must be a JSON object")
        return Fields(value)

    async def _work(self, size: int, call: Callable[[], T]) -> T:
        """Do what takes a while for something large in a thread."""
        return call() if size <= INLINE_BYTES else await self._exchange.core.workers.run(call)

    # What a client can ask for.

    async def _update(self, fields: Fields) -> None:
        session = fields.inner("session")
        if session is None:
            raise missing("session", "an object")
        await self._ears.wait_caught_up()
        machine = self._machine
        before = machine.config.format
        machine.update(updated(machine.config, session, self._opening.models))
        if machine.config.format != before:
            self._rest = b""
        self._scribe.partials = machine.config.partials
        self._tell_session(str(fields.get("type")).removesuffix(".update"), "updated")

    async def _append(self, fields: Fields) -> None:
        text = fields.text("audio")
        if text is None:
            raise missing("audio", "base64 of sound")
        most = self._opening.bounds.chunk_bytes
        if len(text) // 4 * 3 > most + 2:
            raise PayloadTooLargeError(
                f"audio must be at most {most} bytes in one event (live_ingest.max_chunk_bytes), "
                f"not {len(text) // 4 * 3}; send it in pieces",
                param="audio",
            )
        form, rest = self._machine.config.format, self._rest
        frames, rest = await self._work(len(text), lambda: _frames(text, form, rest))
        self._machine.append(frames)
        self._rest = rest

    async def _commit(self, _: Fields) -> None:
        await self._ears.wait_caught_up()
        self._rest = b""
        self._machine.commit()

    async def _clear(self, _: Fields) -> None:
        self._rest = b""
        self._machine.clear()

    async def _retrieve(self, fields: Fields) -> None:
        item_id = fields.filled("item_id", "the ID of an item")
        self._emit(events.retrieved(item_id, self._machine.items.text(item_id)))

    async def _delete(self, fields: Fields) -> None:
        item_id = fields.filled("item_id", "the ID of an item")
        self._machine.items.delete(item_id)
        self._emit(events.deleted(item_id))

    def _tell_session(self, kind: str, what: str) -> None:
        flat = kind == "transcription_session" or self._opening.dialect is Dialect.BETA
        shown = (flat_json if flat else nested_json)(
            self._machine.config, self._id, self._expires_at
        )
        self._emit(events.event(f"{kind}.{what}", session=shown))


def _frames(text: str, form: Format, rest: bytes) -> tuple[Frames, bytes]:
    """The frames in base64 text behind ``rest`` of the last one, and what is left of the next."""
    try:
        data = rest + base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequestError("audio must be base64", param="audio") from error
    whole = len(data) - len(data) % form.frame_bytes
    return form.read(data[:whole]), data[whole:]
