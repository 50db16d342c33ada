"""Where the small worlds of `verify` are written: batches of Kafka's records, R in SQLite, Delta tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from deltalake import write_deltalake

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.read.consume import SCHEMA, Range
from support.verify_world import TWO_EACH, Record, Row, locate


def to_kafka(
    records: Iterable[Record], partitions: Mapping[str, int] = TWO_EACH
) -> tuple[list[Range], list[pa.RecordBatch]]:
    """Return the ranges and Arrow batches that `Log` would read; ranges of all partitions are counted by
    topic."""
    located = locate(records)
    ranges = []
    for topic, count in partitions.items():
        for partition in range(count):
            end = sum((found[0], found[1]) == (topic, partition) for found in located)
            ranges.append(Range(topic, partition, 0, end))
    rows = [(*each[:6], [{"name": name, "value": value} for name, value in each.headers]) for each in located]
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    half = len(located) // 2
    batch = pa.record_batch(
        [pa.array(cells, field.type) for cells, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return ranges, [batch.slice(0, half), batch.slice(half)]


def seed_sellers(url: str, sellers: Sequence[Row]) -> None:
    meta = sa.MetaData()
    table = sa.Table(
        "sellers",
        meta,
        sa.Column("seller_id", sa.BigInteger, index=True),
        sa.Column("name", sa.String(40)),
        sa.Column("rating", sa.Double),
        sa.Column("since", sa.DateTime),
    )
    engine = sa.create_engine(url)
    meta.create_all(engine)
    rows = [dict(zip(table.columns.keys(), seller, strict=False)) for seller in sellers]
    with engine.begin() as connection:
        if rows:
            connection.execute(table.insert(), rows)
    engine.dispose()


COORDINATES = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
TEXTS = [("reason", pa.string()), ("error", pa.string()), ("value", pa.binary())]
JUDGEMENT = [
    ("reason", pa.string()),
    ("event_time", pa.timestamp("us", "UTC")),
    ("record", pa.string()),
    ("promise", pa.string()),
    ("promise_partition", pa.int32()),
    ("promise_offset", pa.int64()),
]


def arrow_schema(columns: Mapping[str, ColumnType]) -> pa.Schema:
    return pa.schema([(column, kind.arrow) for column, kind in columns.items()])


def schema_of(pipeline: Pipeline, table: str) -> pa.Schema:
    if table in pipeline.outputs.tables_by_role:
        return arrow_schema(pipeline.outputs.columns_of(table))
    return {
        "dead_letters": pa.schema(COORDINATES + TEXTS),
        "violations": pa.schema(COORDINATES + JUDGEMENT),
        "punctuations": pa.schema([("punctuation", pa.string()), ("completed_by", pa.string())]),
    }[table]


def write_table(pipeline: Pipeline, warehouse: Path, table: str, rows: Sequence[Row]) -> None:
    """Append the rows, in the order of the columns of a table, given by its name, in two commits."""
    [role] = [role for role, directory in pipeline.outputs.directories.items() if directory == table]
    schema = schema_of(pipeline, role)
    for part in (rows[::2], rows[1::2]):
        columns = list(zip(*part, strict=True)) or [()] * len(schema)
        arrays = [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
        write_deltalake(str(warehouse / table), pa.table(arrays, schema=schema), mode="append")
