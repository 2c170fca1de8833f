"""Transport: sockets, bounded reads and sends, drain; the only room that knows hypercorn.

Hypercorn's protocol classes, under a nursery and on streams of our own: a connection can always be
ended, a slow client is bounded, a client that leaves cancels what runs for it, and nothing that one
client does reaches another.

Two border conditions for an application. Its scope is cancelled when the client leaves, and never
after it has sent its last message. And what it does not ``receive`` is not read from the socket,
so it may answer at any time and leave the rest of a body alone.
"""

from paraudio.transport._asgi import ASGIApp, Report
from paraudio.transport._call import AppCall, Patience, call_of
from paraudio.transport._lateness import Deadline
from paraudio.transport._limits import Limits
from paraudio.transport._listeners import inherited_sockets, open_tcp, open_unix, tls_context
from paraudio.transport._quart import (
    ClientLeftError,
    HttpConnection,
    Messages,
    PullBody,
    PullRequest,
    WebsocketConnection,
    Writer,
    WrittenBody,
    send_response,
)
from paraudio.transport._server import Connections, Server, log_error

__all__ = [
    "ASGIApp",
    "AppCall",
    "ClientLeftError",
    "Connections",
    "Deadline",
    "HttpConnection",
    "Limits",
    "Messages",
    "Patience",
    "PullBody",
    "PullRequest",
    "Report",
    "Server",
    "WebsocketConnection",
    "Writer",
    "WrittenBody",
    "call_of",
    "inherited_sockets",
    "log_error",
    "open_tcp",
    "open_unix",
    "send_response",
    "tls_context",
]
