"""The lookup join against its definition, on relations in a real database."""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.lookup.cache import CacheSpec, FrontCache
from endmark.operators.lookup.join import LookupJoin, LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.strategies import STRATEGIES, Name
from endmark.pipeline import Relation
from endmark.relation.sql import SqlRelation
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from endmark.embedded.mariadb import MariaDb
    from support.postgresql import PostgreSql

KEYS = st.integers(-3, 12)
# Texts that differ only in case, accents or blanks at the end, and one that latin1 does not have.
TEXTS = st.sampled_from(["", " ", "a", "A", "\u00e1", "a ", "A ", "b", "\u2603"])
Key = TypeVar("Key", int, str)
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


@pytest.fixture(scope="module", params=["sqlite", "mariadb", "mysql", "postgresql"])
def fill(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fill:
    """Puts rows into a relation, in place of those of the example before."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('relation') / 'r.db'}"
    else:
        server: MariaDb | PostgreSql = request.getfixturevalue(request.param)
        url = server.url
    engine, table, relation = _relation(url)

    return partial(_replaced, engine, table, relation)


def _replaced(
    engine: sa.Engine, table: sa.Table, relation: SqlRelation, rows: Sequence[tuple[int | str, str]]
) -> SqlRelation:
    with engine.begin() as connection:
        connection.execute(table.delete())
        if rows:
            connection.execute(table.insert(), [{"k": key, "v": value} for key, value in rows])
    return relation


def _stream(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(len(keys)), pa.int64()), "key": pa.array(keys, pa.int64())})


def _partners(keys: list[Key], rows: list[tuple[Key, str]]) -> Iterator[tuple[int, str | None]]:
    for n, key in enumerate(keys):
        values = [value for of, value in rows if of == key]
        yield from ((n, value) for value in values)
        if not values:
            yield n, None


@cases(25)
@given(
    master=st.lists(KEYS, max_size=25),
    later=st.lists(KEYS, max_size=5),
    batches=st.lists(st.lists(KEYS, max_size=20), max_size=3),
    page_rows=st.integers(1, 7),
    strategy=st.sampled_from(list(STRATEGIES)),
)
def test_answers_of_a_database_equal_the_definition(
    fill: Fill,
    master: list[int],
    later: list[int],
    batches: list[list[int]],
    page_rows: int,
    strategy: Name,
) -> None:
    """Every stream row meets every relation row of its key once, keys that repeat, are missing, or came to
    the relation after its page directory was made included; no page is read twice in a batch."""
    rows = [(key, f"v{n}") for n, key in enumerate(master)]
    directory = fill(rows).directory(page_rows)
    rows += [(key, f"later{n}") for n, key in enumerate(later)]
    relation = fill(rows)
    spec = LookupSpec(_stream([]).schema, KeySpec.of(["key"], [pa.int64()]), {"v": "r_v"}, Misses("nulls"))
    with tempfile.TemporaryDirectory() as local:
        store = SegmentStore(MemoryBlobs(), Path(local))
        join = LookupJoin(spec, Source(relation, directory, strategy, measure(relation, directory)), store)
        for keys in batches:
            output = join.process(_stream(keys), now=0)

            joined = Counter(
                pair
                for batch in output.joined
                for pair in zip(batch.column("n").to_pylist(), batch.column("r_v").to_pylist(), strict=True)
            )
            assert joined == Counter(_partners(keys, rows))
            if strategy == "hybrid":
                wanted = _stream(keys).select(["key"])
                assert len(set(directory.page_of(wanted).tolist())) == output.figures.pages


@pytest.fixture(scope="module", params=["mariadb utf8mb4_general_ci", "mysql latin1_swedish_ci"])
def folded(request: pytest.FixtureRequest) -> Callable[[list[tuple[str, str]]], SqlRelation]:
    """Puts rows into a relation whose text keys the database compares without case, accents and blanks."""
    server, collation = request.param.split()
    url = request.getfixturevalue(server).url
    engine, key = sa.create_engine(url), sa.Column("k", sa.String(20, collation=collation))
    table = sa.Table(
        "folded_oracle", sa.MetaData(), key, sa.Column("v", sa.String(20)), sa.Index("folded_k", "k")
    )
    table.create(engine)
    columns = {"k": "string", "v": "string"}
    spec = Relation.model_validate({"url": url, "table": "folded_oracle", "key": "k", "columns": columns})
    relation = SqlRelation(spec)
    relation.check(unique=False)

    return partial(_replaced, engine, table, relation)


@cases(25)
@given(
    master=st.lists(TEXTS.filter(lambda text: text != "\u2603"), max_size=15),
    batches=st.lists(st.lists(TEXTS, max_size=12), max_size=3),
    strategy=st.sampled_from([each.name for each in STRATEGIES.values() if not each.by_pages]),
    cached=st.booleans(),
)
def test_answers_under_a_collation_equal_the_definition(
    folded: Callable[[list[tuple[str, str]]], SqlRelation],
    master: list[str],
    batches: list[list[str]],
    strategy: Name,
    cached: bool,
) -> None:
    """Keys are equal if their bytes are, whatever the database takes for equal, in the cache, too."""
    rows = [(key, f"v{n}") for n, key in enumerate(master)]
    relation = folded(rows)
    directory, key = relation.directory(2), KeySpec.of(["key"], [pa.string()])
    schema = pa.schema([("n", pa.int64()), ("key", pa.string())])
    spec = LookupSpec(schema, key, {"v": "r_v"}, Misses("nulls"))
    cache = FrontCache(CacheSpec(1 << 20, 10, 10), KeySpec.of(["k"], [pa.string()]), relation.schema)
    with tempfile.TemporaryDirectory() as local:
        store = SegmentStore(MemoryBlobs(), Path(local))
        source = Source(relation, directory, strategy, measure(relation, directory))
        join = LookupJoin(spec, source, store, cache if cached else None)
        for keys in batches:
            output = join.process(pa.record_batch([range(len(keys)), keys], schema=schema), now=0)

            joined = Counter(
                pair
                for batch in output.joined
                for pair in zip(batch.column("n").to_pylist(), batch.column("r_v").to_pylist(), strict=True)
            )
            assert joined == Counter(_partners(keys, rows))
            assert output.figures.pages == 0
