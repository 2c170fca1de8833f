"""One request of HTTP: hypercorn's stream, except that its own error answers have a body."""

from hypercorn.protocol.events import Body, EndBody, Response
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream

from paraudio.transport._refusals import failed, rendered


class HttpRequest(HTTPStream):
    """One request, over either version of HTTP."""

    async def _send_error_response(self, status_code: int) -> None:
        """Answer for an application that ended before it answered."""
        headers, body = rendered(failed())
        if self.scope["http_version"] != "2":
            headers.append((b"connection", b"close"))
        await self.send(Response(self.stream_id, headers=headers, status_code=status_code))
        if self.scope["method"] != "HEAD":
            await self.send(Body(self.stream_id, data=body))
        await self.send(EndBody(self.stream_id))
        self.state = ASGIHTTPState.CLOSED
