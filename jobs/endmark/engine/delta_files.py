"""Files of Delta tables. Tasks write them from packed rows, and the sink commits them to a version.

Spark's own writer took 1.2 to 1.8 s for a few rows, and three fifths of the time of a batch of 150,000
records.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endmark.engine import channels
from endmark.errors import failing_at
from endmark.profile import Profile
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

_ORDERED = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_string,
)
_LONGEST = 32  # the most characters of a string in the statistics


@dataclass(frozen=True)
class FileTable:
    """A table that files are written for.

    Args:
        path: its directory.
        schema: its columns.
        number: the number of the batch, which is written to the last column; `None` for tables without such a
            column.
    """

    path: Path
    schema: pa.Schema
    number: int | None = None


class DeltaFiles:
    """A function for `mapInArrow` over channels and blobs that writes one file per table with rows.

    It passes on all blobs that belong to no table. For each file, it adds a blob of the channel `FILES` with
    the file's entry for Delta's log. Files of an attempt that is not committed stay until `endmark maintain`
    removes them.

    Args:
        tables: the tables by the channel of their rows.
    """

    def __init__(self, tables: Mapping[str, FileTable]) -> None:
        self._tables = dict(tables)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        profile = Profile()
        files: dict[str, DeltaFile] = {}
        tables = pa.array(list(self._tables), pa.string())
        for batch in batches:
            of_tables = pc.is_in(batch.column("channel"), tables)
            yield batch.filter(pc.invert(of_tables))
            rows = batch.filter(of_tables)
            for channel, blob in zip(rows.column("channel").to_pylist(), rows.column("blob"), strict=True):
                with profile.phase("files"), self._failing_at(channel):
                    if channel not in files:
                        files[channel] = DeltaFile(self._tables[channel])
                    files[channel].write(codec.decode(blob.as_buffer()))
        written = []
        with profile.phase("files"):
            for channel, file in files.items():
                with self._failing_at(channel):
                    written.append({"channel": channel, **file.close()})
        blobs = [json.dumps(each).encode() for each in written]
        spent = json.dumps({"samples": profile.take()}).encode()
        names = [channels.FILES] * len(blobs) + [channels.METRICS]
        yield pa.record_batch([pa.array(names), pa.array([*blobs, spent], pa.binary())], ["channel", "blob"])

    def _failing_at(self, channel: str) -> AbstractContextManager[None]:
        return failing_at(lambda: f"table {self._tables[channel].path}")


class DeltaFile:
    """One file of a table that is being written."""

    def __init__(self, table: FileTable) -> None:
        self._table = table
        self._name = f"part-{uuid.uuid4()}.snappy.parquet"
        self._writer = pq.ParquetWriter(table.path / self._name, table.schema, compression="snappy")
        self._rows = 0
        self._columns = {field.name: _Statistics(field.type) for field in table.schema}

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows, with the number of the batch if the table has one."""
        if self._table.number is not None:
            numbers = pa.repeat(pa.scalar(self._table.number, pa.int64()), rows.num_rows)
            rows = pa.record_batch([*rows.columns, numbers], schema=self._table.schema)
        rows = rows.cast(self._table.schema)
        self._writer.write_batch(rows)
        self._rows += rows.num_rows
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            self._columns[name].add(column)

    def close(self) -> dict[str, Any]:
        """Return the file's entry for the log: `path`, `size`, `modified` (Unix milliseconds) and `stats`."""
        self._writer.close()
        size = (self._table.path / self._name).stat().st_size
        now = time.time_ns() // 1_000_000
        return {"path": self._name, "size": size, "modified": now, "stats": self._stats()}

    def _stats(self) -> str:
        parts = {
            "minValues": {name: each.least for name, each in self._columns.items() if each.least is not None},
            "maxValues": {name: each.most for name, each in self._columns.items() if each.most is not None},
            "nullCount": {name: str(each.nulls) for name, each in self._columns.items()},
        }
        objects = [f'"numRecords":{self._rows}', *(f'"{name}":{_object(of)}' for name, of in parts.items())]
        return f"{{{','.join(objects)}}}"


class _Statistics:
    """Statistics of a column: its bounds as JSON, and its number of nulls. Readers skip files by them."""

    def __init__(self, kind: pa.DataType) -> None:
        self.nulls = 0
        self._ordered = any(is_such(kind) for is_such in _ORDERED)
        self._least: Any = None
        self._most: Any = None

    def add(self, column: pa.Array) -> None:
        self.nulls += column.null_count
        if not self._ordered or column.null_count == len(column):
            return
        found = pc.min_max(column).as_py()
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            self._ordered, self._least, self._most = False, None, None  # no bound holds for NaN
            return
        self._least = found["min"] if self._least is None else min(self._least, found["min"])
        self._most = found["max"] if self._most is None else max(self._most, found["max"])

    @property
    def least(self) -> str | None:
        # The beginning of a string is never greater than the string.
        return _literal(self._least[:_LONGEST] if isinstance(self._least, str) else self._least)

    @property
    def most(self) -> str | None:
        too_long = isinstance(self._most, str) and len(self._most) > _LONGEST
        return None if too_long else _literal(self._most)


def _object(members: Mapping[str, str]) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{value}' for name, value in members.items())}}}"


def _literal(value: Any) -> str | None:
    """Return a value as JSON in the form of Delta's log; `None` for a value that the log cannot have.

    Other than in data records, decimals are numbers, and times have milliseconds only.
    """
    match value:
        case None:
            return None
        case Decimal():
            return f"{value:f}"
        case datetime():  # cut to milliseconds, which readers allow for
            return json.dumps(value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        case date():
            return json.dumps(value.isoformat())
        case float() if not isfinite(value):
            return None
    return json.dumps(value, ensure_ascii=False)
