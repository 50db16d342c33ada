"""A TCP proxy between a job and a server. It harms replies, or answers reads with an error."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from endmark.embedded.ports import LOOPBACK, free_port

_CHUNK = 64 * 1024
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: a close sends a reset
# Each harm with what is done to a reply.
HARMS = {
    "delay": "each reply comes 50 to 2,000 ms late",
    "reset": "half of a reply comes, and then the connection is reset",
    "truncate": "half of a reply comes, and then the connection is closed",
    "swallow": "no reply comes, and the connection stays open",
}
# MySQL's reply to a query that was the victim of a deadlock, with the header of a packet.
DEADLOCK = "deadlock"
_ERROR = b"\xff" + struct.pack("<H", 1213) + b"#40001Deadlock found when trying to get lock"
_DEADLOCK = struct.pack("<I", len(_ERROR) | 1 << 24) + _ERROR
_QUERY = re.compile(rb".{4}\x03\s*SELECT", re.DOTALL | re.IGNORECASE)  # a packet of MySQL with a read


class Link:
    """A proxy on 127.0.0.1 in a thread of its own.

    Attributes:
        port: the port to connect to.
        target: the port of the server.
        harmed: the number of replies that were harmed.

    Args:
        target: the port of the server.
        seed: equal seeds give equal delays, and harm the same share of replies.
    """

    def __init__(self, target: int, seed: int) -> None:
        self.port = free_port()
        self.harmed = 0
        self.target = target
        self._chance = random.Random(seed)
        self._harm: str | None = None
        self._share = 1.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serve = asyncio.start_server(self._serve, LOOPBACK, self.port)
        asyncio.run_coroutine_threadsafe(serve, self._loop).result(10)
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @contextmanager
    def harming(self, harm: str, share: float) -> Iterator[None]:
        """Harm a share of the replies while the body runs; a deadlock ends a share of MySQL's reads."""
        self._harm, self._share = harm, share
        try:
            yield
        finally:
            self._harm = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The end of the link cancels this, of which Python's server would print a traceback.
        with suppress(asyncio.CancelledError):
            await self._pass_on(reader, writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, to_server = await asyncio.open_connection(LOOPBACK, self.target)
        except OSError:
            _reset(writer)
            return
        forward = asyncio.ensure_future(self._forward(reader, to_server, writer))
        with suppress(OSError):
            await self._reply(upstream, writer)
        forward.cancel()
        for each in (to_server, writer):
            each.close()

    async def _forward(
        self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._harm == DEADLOCK and _QUERY.match(data) and self._chance.random() < self._share:
                    self.harmed += 1
                    back.write(_DEADLOCK)
                    await back.drain()
                    continue
                to_server.write(data)
                await to_server.drain()
        to_server.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            harm = self._harm
            if harm in HARMS and self._chance.random() < self._share:
                self.harmed += 1
                if harm == "delay":
                    await asyncio.sleep(self._chance.uniform(0.05, 2.0))
                elif harm == "swallow":
                    while await reader.read(_CHUNK):
                        pass
                    return
                else:
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    if harm == "reset":
                        _reset(writer)
                    return
            writer.write(data)
            await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=5)
