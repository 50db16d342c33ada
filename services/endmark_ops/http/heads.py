"""Middleware that answers HEAD requests."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from endmark_ops.http.limits import STREAMS


class Heads:
    """ASGI middleware that answers a HEAD request as the GET request of its path, without the body.

    A stream of events has no head, since its answer ends only after minutes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or STREAMS.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_head)
