"""DuckDB's recomputation of small worlds, held against the oracle's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pyarrow as pa

from endmark.pipeline import Pipeline
from endmark.verify.compare.partition_values import spell_partitions
from endmark.verify.compare.tables import check_conservation, compare_tables
from endmark.verify.expected_tables import expect
from endmark.verify.formats.registry import name_reasons
from endmark.verify.groups.closing import expect_groups
from endmark.verify.groups.rollup import expect_rollups
from endmark.verify.groups.running_groups import keep_latest
from endmark.verify.judge.classify import classify
from endmark.verify.judge.control import classify_control
from endmark.verify.promises.idle_partitions import note_idle_violations
from endmark.verify.promises.output_punctuations import expect_punctuations
from endmark.verify.read.added_columns import NOTHING_ADDED, AddedColumns
from endmark.verify.read.written_tables import spell_records
from endmark.verify.session import Session, name
from endmark.verify.verification import load_records
from support.hashable_rows import hashable_row
from support.published_topics import require_published
from support.verify_came import Expected, Sellers
from support.verify_oracle import recompute
from support.verify_others import OTHERS
from support.verify_places import arrow_schema, schema_of, to_kafka
from support.verify_world import EPOCH, TWO_EACH, Record, Row

SELLERS: Sellers = [(1, "Ann", 4.5), (2, "Bo", None), (3, None, -math.inf)]
# Two rows that differ, and two that do not.
_MANY: Sellers = [*SELLERS, (1, "Anna", -1.0), (2, "Bo", None)]
# Versions by seconds from when on: one seller's change each second, and one of them never holds.
_VERSIONS = [
    *((1, second) for second in range(20, 0, -1)),
    (1, None),
    (2, 5.000001),
    (3, -9),
    (3, 12),
    (3, 2),
]
# What the oracle knows of each table: not which pattern a row broke, nor why a record is a dead letter.
COMPARED = {
    "results": slice(None),
    "groups": slice(None),
    "dead_letters": slice(0, 4),
    "violations": slice(0, 5),
}
_CHANNELS = {"punctuations": "announced"}


def sellers_of(pipeline: Pipeline) -> Sellers:
    """R, as the pipeline expects it."""
    if "sellers" not in pipeline.relations:
        return SELLERS
    lookup = pipeline.lookup_in("sellers")
    if lookup.as_of is not None:
        return [
            (key, f"v{place}", float(place), None if since is None else EPOCH + timedelta(seconds=since))
            for place, (key, since) in enumerate(_VERSIONS)
        ]
    return SELLERS if lookup.unique else _MANY


@contextmanager
def recomputed(
    pipeline: Pipeline,
    records: list[Record],
    found: Mapping[str, list[dict[str, Any]]] | None = None,
    partitions: Mapping[str, int] = TWO_EACH,
    added: AddedColumns = NOTHING_ADDED,
    published: Sequence[Record] = (),
) -> Iterator[Session]:
    """A session in which DuckDB has recomputed everything, given an engine's tables as rows by channel.

    `added` are the columns that the engine did not have from the first record on. The records of topics that
    the engine has `published` are held against the recomputation at once.
    """
    topics = dict.fromkeys((record.topic for record in published), 1)
    ranges, batches = to_kafka([*records, *published], {**partitions, **topics})
    with Session() as session:
        session.run("SET threads = 1")  # a second one has no share in so few rows, but looks for it
        load_records(session, ranges, batches)
        classify(session, pipeline, added)
        classify_control(session, pipeline)
        name_reasons(session, pipeline, added)
        for relation in pipeline.relations:
            held = OTHERS[relation] if relation in OTHERS else sellers_of(pipeline)
            _fill(session, pipeline, relation, held)
        for table in tables_of(pipeline):
            given = (found or {}).get(_CHANNELS.get(table, table), [])
            arriving = pa.Table.from_pylist(given, schema_of(pipeline, table))
            session.run_on(arriving, "CREATE TABLE $table AS FROM arriving", table=name(f"actual_{table}"))
        note_idle_violations(session)
        expect(session, pipeline)
        expect_punctuations(session, pipeline)
        expect_groups(session, pipeline)
        uncompared = expect_rollups(session, pipeline)
        keep_latest(session, pipeline)
        spell_records(session, pipeline, added)
        if published:
            require_published(session, pipeline, ranges, uncompared, added)
        spell_partitions(session, pipeline)
        yield session


def _fill(session: Session, pipeline: Pipeline, relation: str, held: Sellers) -> None:
    columns = {f"{relation}_{name}": kind for name, kind in pipeline.relations[relation].columns.items()}
    session.create(f"relation_{relation}", columns)
    rows = [dict(zip(columns, row, strict=True)) for row in held]
    arriving = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
    session.run_on(arriving, "INSERT INTO $table SELECT * FROM arriving", table=f"relation_{relation}")


def require_within(session: Session, pipeline: Pipeline) -> None:
    """Assert that the tables found hold what DuckDB recomputed, and beyond it at most what it is unsure of,
    which is nothing unless partitions can be idle."""
    for table in compare_tables(session, pipeline, dict.fromkeys(tables_of(pipeline))):
        assert not table.differs, table
    assert check_conservation(session, pipeline) == []


def tables_of(pipeline: Pipeline) -> list[str]:
    return list(pipeline.outputs.directories)


def rows_of(session: Session, table: str) -> Counter[Row]:
    # What is named with a `#` is no column of the table.
    found = session.run("SELECT COLUMNS('^[^#]') FROM $table", table=name(f"expected_{table}"))
    return Counter(hashable_row(row.values()) for row in found)


def known_rows(rows: Counter[Row], table: str) -> Counter[Row]:
    return Counter(row[COMPARED[table]] for row in rows.elements())


def oracle_rows(expected: Expected, table: str) -> Counter[Row]:
    rows: list[Row] = getattr(expected, table)
    if table == "dead_letters":
        rows = [(*row[:3], row[5]) for row in rows]
    return known_rows(Counter(rows), table)


def agreed(pipeline: Pipeline, records: list[Record], table: str) -> list[Row]:
    """Rows of a table, which DuckDB and the oracle agree on."""
    with recomputed(pipeline, records) as session:
        role = pipeline.groups[0].final_role if table == "groups" else table
        found = rows_of(session, role)
    assert known_rows(found, table) == oracle_rows(recompute(pipeline, records, sellers_of(pipeline)), table)
    return list(found.elements())


def groups(pipeline: Pipeline, records: list[Record]) -> dict[int, int]:
    """Final groups as item -> number of results."""
    return {row[0]: row[1] for row in agreed(pipeline, records, "groups")}
