"""A database that is away for half a minute, as the deadline of a pipeline that names none has it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from endmark.embedded.mariadb import MariaDb
from endmark.pipeline import Relation
from endmark.relation.sql import SqlRelation
from support.relation_outages import resume, stall
from support.relations import Database, rows_of

ROWS = [(n, f"v{n}") for n in range(300)]
AWAY = 30


def reader_of(server: MariaDb) -> SqlRelation:
    """Of a table of `ROWS`."""
    Database(server.url).create("r", "k BIGINT PRIMARY KEY, v VARCHAR(20) NOT NULL", ROWS)
    columns = {"k": "long", "v": "string"}
    return SqlRelation(
        Relation.model_validate({"url": server.url, "table": "r", "key": "k", "columns": columns})
    )


def test_half_a_minute_costs_time_only(tmp_path: Path) -> None:
    """One server is killed and one hangs, both for so long, in the middle of a batch."""
    with ExitStack() as until_end:
        killed, hung = (
            until_end.enter_context(MariaDb(tmp_path / name, memory="16M")) for name in ("killed", "hung")
        )
        readers = reader_of(killed), reader_of(hung)
        aside = until_end.enter_context(ThreadPoolExecutor(2))
        for reader in readers:
            until_end.enter_context(reader.batch())
        whole = readers[0].directory(len(ROWS)).range_of(0)
        assert hung.pid is not None
        killed.kill()
        stall(hung.pid)
        try:
            reads = [aside.submit(reader.pages, [whole]) for reader in readers]
            time.sleep(AWAY)
            assert [read.exception() for read in reads if read.done()] == []
        finally:
            resume(hung.pid)
            killed.start()  # here, since a server ends with the thread that started it
        assert [rows_of(read.result()) for read in reads] == [ROWS, ROWS]
