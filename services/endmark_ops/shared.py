"""Answers that many ask for are made once for all who ask at about the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_Asked = tuple[str, bytes, bytes]


@dataclass(frozen=True)
class _Answer:
    until: float  # by the monotonic clock
    messages: asyncio.Task[list[Message]]


class SharedAnswers:
    """ASGI middleware that answers some reads by an answer at most `seconds` old.

    The age counts from the beginning of an answer. A client that asks while an answer is made waits for it.
    So the ops database is read as often as by one client, however many ask.

    Args:
        app: the application behind it.
        paths: the paths that it answers.
        seconds: the greatest age.
    """

    def __init__(self, app: ASGIApp, paths: Collection[str], seconds: float) -> None:
        self._app = app
        self._paths = frozenset(paths)
        self._seconds = seconds
        self._answers: dict[_Asked, _Answer] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        # Shielded, since others wait for what one who goes away has asked for.
        for message in await asyncio.shield(self._answer(scope, receive)):
            await send(dict(message))  # to which middleware outside adds headers

    def _answer(self, scope: Scope, receive: Receive) -> asyncio.Task[list[Message]]:
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
        asked = (scope["path"], scope["query_string"], accept)
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
