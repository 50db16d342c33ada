"""Headers that keep a browser from running foreign scripts and from framing our views."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from endmark.errors import ConfigError

_LOOPBACK = ("127.0.0.1", "localhost")
_HOST = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9_][A-Za-z0-9._-]*")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A browser must always revalidate, since a new version's view must not run an old version's scripts.
    "Cache-Control": "no-cache",
}

_ADDED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_NAMES = frozenset(name for name, _ in _ADDED)


def trusted_hosts(known_as: Iterable[str]) -> list[str]:
    """Return the host names that requests may be addressed to. Others are refused against DNS rebinding.

    Args:
        known_as: the names besides those of loopback; `*.example` stands for all names below `example`.

    Raises:
        ConfigError: one of them is no host name.
    """
    for name in known_as:
        if _HOST.fullmatch(name) is None:
            raise ConfigError(
                f"--known-as {name!r}: give a host name without a scheme and a port, such as ops.example"
            )
    return [*_LOOPBACK, *known_as]


class SecurityHeaders:
    """ASGI middleware that sets `HEADERS` in every response, and drops other headers of these names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [pair for pair in message.get("headers", ()) if pair[0] not in _NAMES]
                message["headers"] = own + _ADDED
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
