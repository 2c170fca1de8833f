"""Requests to the server, and answers that are there whole."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import httpx
import trio

from paraudio.conformance._verdicts import BrokenError, NoServerError

_EVENT: Final = "data: "


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Its body as JSON.

        Raises:
            BrokenError: It is none.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            raise BrokenError(f"{self} is not JSON") from None

    @property
    def events(self) -> list[str]:
        """The data of its server-sent events."""
        lines = self.body.decode(errors="replace").splitlines()
        return [line.removeprefix(_EVENT) for line in lines if line.startswith(_EVENT)]

    def error(self, name: str) -> object:
        """A field of the error that it tells, or None."""
        try:
            return json.loads(self.body)["error"][name]
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def said(self) -> str:
        """Its status, and what its error tells a person."""
        message = self.error("message")
        return f"{self.status}: {message}" if isinstance(message, str) else str(self)

    def __str__(self) -> str:
        return f"{self.status} {self.body[:300].decode(errors='replace')}"


class Call:
    """One request under way.

    Attributes:
        label: What it is, for messages.
        sent_at: A moment before it was sent.
        ended_at: When its answer was whole, or it failed.
        begun: Set when the first piece of the answer's body is there.
        ended: Set when nothing more comes.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.sent_at: float = trio.current_time()
        self.ended_at: float = 0.0
        self.begun: Final = trio.Event()
        self.ended: Final = trio.Event()
        self._scope = trio.CancelScope()
        self._answer: Answer | None = None
        self._failure = "its client left"

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.ended.is_set()

    def leave(self) -> None:
        """Close its connection, whatever it has got by then."""
        self._scope.cancel()

    async def wait(self) -> Answer:
        """Wait for its whole answer.

        Raises:
            BrokenError: It ended without one.
        """
        await self.ended.wait()
        if self._answer is None:
            raise BrokenError(f"{self.label}: no answer, {self._failure}")
        return self._answer

    async def carry(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        """Send it and take its answer; swallows the cancellation of `leave`."""
        try:
            with self._scope:
                self._answer = await self._exchange(client, request)
        except httpx.HTTPError as error:
            self._failure = f"{type(error).__name__}: {_why(error)}"
        finally:
            self.ended_at = trio.current_time()
            self.ended.set()

    async def _exchange(self, client: httpx.AsyncClient, request: httpx.Request) -> Answer:
        response = await client.send(request, stream=True)
        try:
            body = b""
            async for piece in response.aiter_raw():
                body += piece
                self.begun.set()
            return Answer(response.status_code, dict(response.headers), body)
        finally:
            with trio.CancelScope(shield=True):
                await response.aclose()

    def __str__(self) -> str:
        return self.label


def _why(error: BaseException) -> str:
    """What an error says, or that which it came from: failures of TLS say nothing themselves."""
    below = error.__cause__ or error.__context__
    return str(error) or ("no more is known" if below is None else _why(below))


class _Body(httpx.AsyncByteStream):
    """A body in one piece.

    Httpx's own is a generator: a request that is cancelled while it is sent would leave it to the
    garbage collector.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Pieces([self._content])


class _Pieces:
    """Pieces of a body, once."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop(0)


class Wire:
    """The connections to one server; use it as a context manager.

    Args:
        url: ``http://HOST:PORT`` or ``https://…``.
        api_key: What to send as a bearer token, or None.

    Raises:
        NoServerError: The URL is none.
    """

    def __init__(self, url: str, api_key: str | None) -> None:
        headers = {"Accept-Encoding": "identity"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        try:
            self._client = httpx.AsyncClient(
                base_url=url,
                headers=headers,
                timeout=httpx.Timeout(None, connect=20),
                # Every request has a connection at once: what waits must wait in the server.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
                trust_env=False,
            )
        except httpx.InvalidURL as error:
            raise NoServerError(f"{url!r} is no URL: {error}") from None

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> None:
        """Close all connections."""
        with trio.CancelScope(shield=True):
            await self._client.aclose()

    def build(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Request:
        """A request; with a body it is JSON."""
        content = None if body is None else json.dumps(body).encode()
        kind = {} if content is None else {"Content-Type": "application/json"}
        request = self._client.build_request(
            method, path, content=content, headers={**kind, **(headers or {})}
        )
        if content is not None:
            request.stream = _Body(content)
        return request

    def start(
        self,
        nursery: trio.Nursery,
        label: str,
        request: httpx.Request,
    ) -> Call:
        """Send a request from a task of its own, and do not wait for anything."""
        call = Call(label)
        nursery.start_soon(call.carry, self._client, request)
        return call

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            BrokenError: There is no answer.
        """
        call = Call(f"{method} {path}")
        await call.carry(self._client, self.build(method, path, body))
        return await call.wait()
