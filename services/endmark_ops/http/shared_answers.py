"""Middleware that gives one answer to all clients that ask the same at about the same time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from endmark_ops.http.access import VISIBLE

_Asked = tuple[str, bytes, bytes, frozenset[str] | None]


@dataclass(frozen=True)
class _Answer:
    until: float  # by the monotonic clock
    messages: asyncio.Task[list[Message]]


class SharedAnswers:
    """ASGI middleware that gives equal GET requests the same answer while it is at most `seconds` old.

    Requests are equal if they have the same path, query and accepted types, and may see the same pipelines.

    The age counts from the beginning of the first request. A client that asks before the answer is ready
    waits for it. So many clients cause no more reads of the ops database than one client.

    Args:
        app: the application behind the middleware.
        paths: patterns of the paths whose answers are shared.
        seconds: the greatest age of an answer, in seconds.
    """

    def __init__(self, app: ASGIApp, paths: Iterable[str], seconds: float) -> None:
        self._app = app
        self._paths = re.compile("|".join(paths))
        self._seconds = seconds
        self._answers: dict[_Asked, _Answer] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = scope["type"] == "http" and scope["method"] == "GET" and self._paths.fullmatch(scope["path"])
        if not shared:
            await self._app(scope, receive, send)
            return
        # The answer is shielded, since others may still wait for it when this client goes away.
        for message in await asyncio.shield(self._answer(scope, receive)):
            await send(dict(message))  # a copy, since outer middleware adds headers to it

    def _answer(self, scope: Scope, receive: Receive) -> asyncio.Task[list[Message]]:
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
        visible = scope.get("state", {}).get(VISIBLE)  # an answer about all pipelines has these alone
        asked = (scope["path"], scope["query_string"], accept, visible)
        now = time.monotonic()
        found = self._answers.get(asked)
        if found is None or found.until <= now:
            found = _Answer(now + self._seconds, asyncio.ensure_future(self._made(scope, receive)))
            fresh = {each: answer for each, answer in self._answers.items() if answer.until > now}
            self._answers = {**fresh, asked: found}
        return found.messages

    async def _made(self, scope: Scope, receive: Receive) -> list[Message]:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        return messages
