"""HYBRIDJOIN against the join's definition, on relations in a real database."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias
from unittest.mock import patch

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from endmark.joins import lookup_join
from endmark.joins.lookup_join import LookupJoin
from endmark.pipeline import Relation
from endmark.relation.contract import KeyRange, PageDirectory
from endmark.relation.sql import SqlRelation
from support.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from endmark.parts.mariadb import MariaDb

KEYS = st.integers(-3, 12)
Fill: TypeAlias = "Callable[[list[tuple[int, str]]], SqlRelation]"


def _relation(url: str) -> tuple[sa.Engine, sa.Table, SqlRelation]:
    engine = sa.create_engine(url)
    table = sa.Table(
        "lookup_oracle", sa.MetaData(), sa.Column("k", sa.BigInteger), sa.Column("v", sa.String(20))
    )
    table.drop(engine, checkfirst=True)
    table.create(engine)
    spec = Relation.model_validate(
        {"url": url, "table": "lookup_oracle", "key": "k", "columns": {"k": "long", "v": "string"}}
    )
    return engine, table, SqlRelation(spec)


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def fill(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fill:
    """Puts rows into a relation, in place of those of the example before."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('relation') / 'r.db'}"
    else:
        server: MariaDb = request.getfixturevalue("mariadb")
        url = server.url
    engine, table, relation = _relation(url)

    def replace(rows: list[tuple[int, str]]) -> SqlRelation:
        with engine.begin() as connection:
            connection.execute(table.delete())
            if rows:
                connection.execute(table.insert(), [{"k": key, "v": value} for key, value in rows])
        return relation

    return replace


def _stream(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(len(keys)), pa.int64()), "key": pa.array(keys, pa.int64())})


@cases(150)
@given(
    master=st.lists(KEYS, max_size=25),
    later=st.lists(KEYS, max_size=5),
    batches=st.lists(st.lists(KEYS, max_size=20), max_size=3),
    page_rows=st.integers(1, 7),
    pages_at_once=st.integers(1, 3),
)
def test_hybridjoin_equals_definition(
    fill: Fill,
    master: list[int],
    later: list[int],
    batches: list[list[int]],
    page_rows: int,
    pages_at_once: int,
) -> None:
    """Every stream row meets every relation row of its key once, keys that repeat, are missing, or came to
    the relation after its page directory was made included; no page is read twice in a batch."""
    rows = [(key, f"v{n}") for n, key in enumerate(master)]
    directory = fill(rows).directory(page_rows)
    rows += [(key, f"later{n}") for n, key in enumerate(later)]
    relation = fill(rows)
    join = LookupJoin(relation, directory, ["key"], {"v": "r_v"})

    for keys in batches:
        with patch.object(lookup_join, "PAGES_AT_ONCE", pages_at_once):
            output = join.resolve(_stream(keys))

        joined = zip(
            output.joined.column("n").to_pylist(), output.joined.column("r_v").to_pylist(), strict=True
        )
        expected = Counter((n, v) for n, key in enumerate(keys) for k, v in rows if k == key)
        assert expected == Counter(joined)
        present = {key for key, _ in rows}
        assert [n for n, key in enumerate(keys) if key not in present] == output.missed.column(
            "n"
        ).to_pylist()
        assert len({int(page) for page in directory.page_of(_keys(keys))}) == output.page_reads
        assert output.page_reads <= min(len(directory), len(set(keys)))


def _keys(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys, pa.int64())})


def test_oldest_pending_row_picks_the_next_page() -> None:
    """Pages are read in the order in which their oldest row arrived, `PAGES_AT_ONCE` at a time."""
    read: list[list[KeyRange]] = []

    class Recorder:
        schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
        key = ("k",)

        def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
            read.append(ranges)
            return self.read_keys(_keys([]))

        def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
            return pa.RecordBatch.from_pylist([], schema=self.schema)

        def scan(self) -> Iterator[pa.RecordBatch]:
            yield self.read_keys(_keys([]))

    directory = PageDirectory(_keys([0, 10, 20, 30]))
    join = LookupJoin(Recorder(), directory, ["key"], {"v": "r_v"})
    with patch.object(lookup_join, "PAGES_AT_ONCE", 1):
        output = join.resolve(_stream([25, 3, 31, 27, 3]))

    assert read == [[((20,), (30,))], [(None, (10,))], [((30,), None)]]
    assert output.missed.num_rows == 5
