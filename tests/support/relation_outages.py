"""Reads of a small relation while something happens to its database a little later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from endmark.relation.sql import SqlRelation
from support.relations import Database, rows_of

ROWS = [(n, f"v{n}") for n in range(300)]


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
