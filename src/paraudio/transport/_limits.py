"""What a client may cost: seconds, bytes and connections."""

import time
from dataclasses import dataclass
from typing import Final
from wsgiref.handlers import format_date_time

from hypercorn.config import Config

READ_SIZE: Final = 65_536
"""The most bytes that one read takes from a socket."""

SEND_SIZE: Final = 2**18
"""The most bytes of an answer that are encrypted before others have their turn."""

INBOX_BYTES: Final = 65_536
"""How much of a body may wait for the application before the socket is no longer read."""

INBOX_MESSAGES: Final = 16
"""How many websocket messages may wait for the application before the socket is no longer read."""

LINGER_BYTES: Final = 16 * 2**20
"""The most bytes that are thrown away while an early answer travels."""

TURN: Final = 64
"""How many frames or pieces of a body a connection may bring before others have their turn.

Each takes some twenty microseconds, however few bytes it holds.
"""

MAX_FIELDS: Final = 256
"""The most header fields of one request."""

H2_STREAMS: Final = 100
"""How many requests one HTTP/2 connection may have open."""

H2_BURST: Final = 1_000
"""How many frames that cost more than they weigh an HTTP/2 client may send at once."""

H2_PER_S: Final = 50
"""How many more of them in a second."""

H2_STREAM_WINDOW: Final = 131_072
"""How many bytes of body an HTTP/2 client may send before the application has read any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds that the transport keeps by itself.

    Attributes:
        slow_client_timeout_s: How long a client may take for a TLS handshake or a whole request
            head; how long it may send nothing of a body that the application waits for; how long it
            may take nothing of an answer. After that it is cut off.
        keep_alive_s: How long a connection may wait for its next request before it is closed.
        max_connections: How many connections are served at a time; further ones wait in the
            system's backlog.
        half_close_grace_s: How long a client that has closed its sending side still gets the answer
            to what it sent. With 0 a half-close counts as leaving.
        max_header_bytes: The largest request head.
        linger_s: How long the rest of a body is thrown away after an answer that did not wait for
            it, so that the client reads the answer instead of a reset.
        max_message_bytes: The largest websocket message.
        sweep_s: How often clients are looked at whose socket is not being read.
    """

    slow_client_timeout_s: float = 20.0
    keep_alive_s: float = 30.0
    max_connections: int = 10_000
    half_close_grace_s: float = 0.0
    max_header_bytes: int = 32_768
    linger_s: float = 1.0
    max_message_bytes: int = 16 * 2**20
    sweep_s: float = 0.2


class ProtocolConfig(Config):
    """Hypercorn's configuration, as far as its protocol classes read it.

    Its loggers are off: errors go to the server's own hook, and access lines are not the
    transport's.
    """

    include_server_header = False
    accesslog = None
    errorlog = None
    h2_max_concurrent_streams = H2_STREAMS

    def __init__(self, limits: Limits) -> None:
        self.h11_max_incomplete_size = limits.max_header_bytes
        self.h2_max_header_list_size = limits.max_header_bytes
        self.websocket_max_message_size = limits.max_message_bytes
        self._second = -1
        self._headers: list[tuple[bytes, bytes]] = []

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:  # noqa: ARG002 - theirs
        """The headers of every answer; only the date, which is made once a second."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._headers = [(b"date", format_date_time(second).encode("ascii"))]
        return self._headers
