"""Reads of a small relation while something happens to its database a little later."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from endmark.relation.sql import SqlRelation
from support.relations import Database, rows_of

ROWS = [(n, f"v{n}") for n in range(300)]


class Server(Protocol):
    """A database's, which ends with the thread that has started it."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


def reader_of(database: Database, retry: str = "20s") -> SqlRelation:
    """Of the table `r`, which holds `ROWS`."""
    return database.reader("r", "k", retry=retry, k="long", v="string")


def read(reader: SqlRelation) -> list[tuple[Any, ...]]:
    """All rows, of three pages at once."""
    directory = reader.directory(100)
    return rows_of(reader.pages([directory.range_of(page) for page in range(len(directory))]))


@contextmanager
def later(seconds: float, action: Callable[[], object]) -> Iterator[None]:
    """Around what is to be in the way of it."""
    timer = threading.Timer(seconds, action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def stall(pid: int) -> None:
    """Stop all processes of a server, given its first one, and wait until each thread of them stands: on a
    busy machine they answer for a while after the signal."""
    group = os.getpgid(pid)
    os.killpg(group, signal.SIGSTOP)
    while not set(_states(group)) <= {"T", "Z"}:
        time.sleep(0.01)


def resume(pid: int) -> None:
    os.killpg(os.getpgid(pid), signal.SIGCONT)


def _states(group: int) -> Iterator[str]:
    for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group:
                yield state


def survive_a_restart(server: Server, database: Database) -> None:
    """Killed in the middle of a batch and started again within the deadline, it answers as if nothing was."""
    reader = reader_of(database)
    with reader.batch(), ThreadPoolExecutor(1) as aside:
        assert read(reader) == ROWS
        server.kill()
        waiting = aside.submit(read, reader)
        time.sleep(3)
        assert not waiting.done()
        server.start()
        assert waiting.result() == ROWS
