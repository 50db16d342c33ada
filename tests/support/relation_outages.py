"""Reads of a small relation while something happens to its database a little later."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa

from endmark.embedded.mariadb import MariaDb
from endmark.pipeline import Relation
from endmark.relation.outage import RelationUnreachableError
from endmark.relation.sql import SqlRelation
from support.relations import Database, rows_of

ROWS = [(n, f"v{n}") for n in range(300)]


class Server(Protocol):
    """A database's, which ends with the thread that has started it."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


def reader_of(database: Database, retry: str = "90s") -> SqlRelation:
    """Return a reader of the table `r`, which holds `ROWS`."""
    return database.reader("r", "k", retry=retry, k="long", v="string")


def read(reader: SqlRelation) -> list[tuple[Any, ...]]:
    """All rows, of three pages at once."""
    directory = reader.directory(100)
    return rows_of(reader.pages([directory.range_of(page) for page in range(len(directory))]))


def seconds_to_give_up(reader: SqlRelation, soon: float) -> list[float]:
    """Begin batches while the database is away, and return how many seconds each took to fail.

    A busy machine may make one take long. So this tries again, three times in all, until one took less than
    `soon` seconds, which is then the last of the list.
    """
    found: list[float] = []
    while len(found) < 3 and (not found or found[-1] >= soon):
        started = time.monotonic()
        with pytest.raises(RelationUnreachableError), reader.batch():
            pass
        found.append(time.monotonic() - started)
    return found


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


def survive_kill_and_hang(directory: Path, away: float, **deadline: str) -> None:
    """Kill one server and stop another in the middle of a batch; require that both reads wait and succeed.

    Args:
        directory: where the two servers keep their files.
        away: how long both servers are away, in seconds.
        deadline: the relation's `retry`; without it the relation has its default, a minute.
    """

    def reader_at(server: MariaDb) -> SqlRelation:
        Database(server.url).create("r", "k BIGINT PRIMARY KEY, v VARCHAR(20) NOT NULL", ROWS)
        columns = {"k": "long", "v": "string"}
        told = {"url": server.url, "table": "r", "key": "k", "columns": columns}
        return SqlRelation(Relation.model_validate(told | deadline))

    with ExitStack() as until_end:
        killed, hung = (
            until_end.enter_context(MariaDb(directory / name, memory="16M")) for name in ("killed", "hung")
        )
        readers = reader_at(killed), reader_at(hung)
        aside = until_end.enter_context(ThreadPoolExecutor(2))
        for reader in readers:
            until_end.enter_context(reader.batch())
        whole = readers[0].directory(len(ROWS)).range_of(0)
        assert hung.pid is not None
        killed.kill()
        stall(hung.pid)
        try:
            reads = [aside.submit(reader.pages, [whole]) for reader in readers]
            time.sleep(away)
            assert [read.exception() for read in reads if read.done()] == []
        finally:
            resume(hung.pid)
            killed.start()  # here, since a server ends with the thread that started it
        assert [rows_of(read.result()) for read in reads] == [ROWS, ROWS]


def wait_out_a_lock(database: Database, lock: str, unlock: Callable[[sa.Connection], object]) -> None:
    """Give up a read that a lock holds up and try it again, until the lock is gone after 8 s."""
    reader = reader_of(database, retry="30s")
    assert read(reader) == ROWS
    with sa.create_engine(database.url).connect() as other:
        other.execute(sa.text(lock))
        started = time.monotonic()
        with later(8, lambda: unlock(other)):
            assert read(reader) == ROWS
    assert 7 < time.monotonic() - started < 28
