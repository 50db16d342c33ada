"""Reads of a small relation while something happens to its database a little later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
