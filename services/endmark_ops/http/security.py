"""Protection of browsers: headers against foreign scripts and frames, and a check of the host's name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from endmark.errors import ConfigError

_LOOPBACK = ("127.0.0.1", "localhost")
_ADDRESSED = re.compile(r"([^:]*)(?::[0-9]*)?")  # the header Host of a request, with its port
_SHOWN_LETTERS = 100  # of an unknown name
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


class KnownHosts:
    """ASGI middleware that refuses requests to host names that the sidecar is not known by.

    Without this, DNS rebinding would let a web page read the sidecar's answers. Starlette has such a
    middleware, but its answer is a bare text that does not say what to do.

    Args:
        app: the application behind the middleware.
        names: the names in lower case; `*.example` stands for all names below `example`, and `*` for any.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "") if scope["type"] == "http" else ""
        if scope["type"] != "http" or self._knows(host):
            await self._app(scope, receive, send)
            return
        detail = (
            f"this sidecar does not answer to the host name {host[:_SHOWN_LETTERS]!r}; ask for localhost, or "
            "start the sidecar with --known-as and this name"
        )
        await JSONResponse({"detail": detail}, status_code=400)(scope, receive, send)

    def _knows(self, host: str) -> bool:
        addressed = _ADDRESSED.fullmatch(host.lower())
        return addressed is not None and any(
            known in ("*", addressed[1]) or (known.startswith("*.") and addressed[1].endswith(known[1:]))
            for known in self._names
        )


def checked_names(known_as: Iterable[str]) -> list[str]:
    """Return the host names that requests may be addressed to, in lower case and with those of loopback.

    Args:
        known_as: the names besides those of loopback.

    Raises:
        ConfigError: one of them is no host name.
    """
    names = list(known_as)
    for name in names:
        if _HOST.fullmatch(name) is None:
            raise ConfigError(
                f"--known-as {name!r}: give a host name without a scheme and a port, such as ops.example"
            )
    return [*_LOOPBACK, *map(str.lower, names)]


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
