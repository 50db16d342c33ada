"""Limits to the size of a request, to its time, and to the number of requests at a time."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from endmark_ops.http.access import READS

REQUESTS = 200  # the most requests at a time; up to `feed.LISTENERS` of them listen for events
HEAD_BYTES = 16_384
BODY_BYTES = 8_000_000  # room for a record of a megabyte, if JSON writes each of its bytes with six
# Reads have no use for a body, and may need no token: 100 bodies of 8 MB are more than compose gives.
BODY_BYTES_OF_READS = 10_000
HEAD_SECONDS = 5.0
SENT_SECONDS = 60.0
STREAM_SECONDS = 600.0  # a listener then asks again, and a listener that is gone frees its place
STREAMS = re.compile(r"/api/pipelines/[^/]+/events")
ALWAYS = "/healthz"


class Limits:
    """ASGI middleware that refuses large heads and bodies, and more requests at a time than `REQUESTS`.

    A body is read whole before the application is called, so no body takes more memory than `BODY_BYTES`, or
    `BODY_BYTES_OF_READS` if the request only reads.
    `/healthz` is always answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == ALWAYS:
            await self._app(scope, receive, send)
        elif self._running >= REQUESTS:
            await _refused(503, "too many requests at a time; ask again later")(scope, receive, send)
        else:
            self._running += 1
            try:
                await self._answer(scope, receive, send)
            finally:
                self._running -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if _head_bytes(scope) > HEAD_BYTES:
            refusal = _refused(431, f"a request's head may have {HEAD_BYTES} bytes")
            await refusal(scope, receive, send)
        elif "content-length" in headers or "transfer-encoding" in headers:
            most = BODY_BYTES_OF_READS if scope["method"] in READS else BODY_BYTES
            whole = await _read(int(headers.get("content-length", 0)), most, receive)
            if whole is None:
                refusal = _refused(413, f"the body of this request may have {most} bytes")
                await refusal(scope, receive, send)
            else:
                await self._app(scope, _first(whole, receive), send)
        else:
            await self._app(scope, receive, send)


async def _read(announced: int, most: int, receive: Receive) -> Message | None:
    """Return the body in one message, or the message that the sender is gone; `None` if it is too long.

    Args:
        announced: the length of the body by its header; 0 if no header says it.
        most: the most bytes that the body may have.
        receive: gives the messages of the request.
    """
    pieces: list[bytes] = []
    size, more = announced, True
    while more and size <= most:
        message = await receive()
        if message["type"] != "http.request":
            return message
        pieces.append(message.get("body", b""))
        size = max(announced, sum(map(len, pieces)))
        more = message.get("more_body", False)
    return None if size > most else {"type": "http.request", "body": b"".join(pieces), "more_body": False}


def _first(message: Message, then: Receive) -> Receive:
    waiting = [message]

    async def receive() -> Message:
        return waiting.pop() if waiting else await then()

    return receive


def _head_bytes(scope: Scope) -> int:
    line = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return line + sum(len(name) + len(value) for name, value in scope["headers"])


def _refused(status: int, detail: str) -> JSONResponse:
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse({"detail": detail}, status_code=status, headers=headers)
