"""Headers that keep a browser from running or framing anything that is not ours."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Host names a request may be addressed to, against DNS rebinding. `testserver` is what test clients send.
TRUSTED_HOSTS = ["127.0.0.1", "localhost", "testserver"]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Revalidate always: a new version's view must not run with an old version's scripts.
    "Cache-Control": "no-cache",
}


class SecurityHeaders:
    """ASGI middleware that adds `HEADERS` to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
