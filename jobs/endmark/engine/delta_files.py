"""Files of Delta tables. Tasks write them from their output, and the sink commits them to a version.

Spark's own writer took 1.2 to 1.8 s for a few rows, and three fifths of the time of a batch of 150,000
records.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from endmark.engine import channels
from endmark.engine.delta_partitions import partitioned
from endmark.errors import failing_at
from endmark.state import codec
from endmark.storage import write_parquet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from contextlib import AbstractContextManager

    from endmark.engine.delta_partitions import Values
    from endmark.profile import Profile
    from endmark.storage import Location

_WAITING_BYTES = 64 << 20  # of a table's rows in a task, before they are written
_ORDERED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_string,
)
_LONGEST = 32  # characters of a string in the statistics; a greatest one that is cut there gets one more
_GREATEST = "\U0010ffff"


@dataclass(frozen=True)
class FileTable:
    """A table that files are written for.

    Args:
        path: its directory.
        schema: its columns.
        numbered: whether the last column is the number of the batch, which the rows of tasks do not have.
        partition_by: the columns that Delta partitions the table by.
    """

    path: Location
    schema: pa.Schema
    numbered: bool = False
    partition_by: tuple[str, ...] = ()

    def rows(self, batch: pa.RecordBatch, number: int) -> pa.Table:
        """Return rows with the types of the table, and with the number of the batch if the table has one."""
        if self.numbered:
            numbers = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
            batch = pa.record_batch([*batch.columns, numbers], schema=self.schema)
        return pa.Table.from_batches([batch.cast(self.schema)])


@dataclass(frozen=True)
class OutputFiles:
    """The tables that tasks write files for. It is pickled and travels to the tasks.

    Args:
        tables: the tables by the channel of their rows.
        published: the channels whose rows topics get, so that they leave the task, too.
    """

    tables: Mapping[str, FileTable]
    published: frozenset[str] = frozenset()

    def before_last(self, awaited: Collection[str]) -> OutputFiles:
        """Return the tables that a stage before the last one writes.

        Published rows go through all later stages on their way to the sink, and final groups go through the
        stage of other groups on their way to groups of groups. If each stage wrote a file of such rows, a
        table would have them once for each stage. So the last stage that they go through writes their table.

        Args:
            awaited: the channels of rows that a stage behind the next one takes.
        """
        leaving = {*self.published, *awaited}
        tables = {channel: table for channel, table in self.tables.items() if channel not in leaving}
        return OutputFiles(tables, self.published)


class TaskFiles:
    """Writes the files of one task from its output.

    A task writes one file for each partition of a table, and more if it has more than 64 MB of rows. Files of
    an attempt that is not committed stay until `endmark maintain` removes them.

    Args:
        output: the tables.
        number: the number of the batch.
        profile: the profile of the task.
    """

    def __init__(self, output: OutputFiles, number: int, profile: Profile) -> None:
        self._tables = output.tables
        self._published = output.published
        self._number = number
        self._profile = profile
        self._waiting: dict[str, list[pa.Table]] = {}
        self._sizes: Counter[str] = Counter()
        self._written: list[dict[str, Any]] = []

    def take(self, channel: str, rows: bytes | pa.RecordBatch) -> bool:
        """Take a part of the task's output, and return whether it need not leave the task.

        Args:
            channel: the channel of the output.
            rows: a blob, or rows as a record batch.
        """
        if channel in self._tables:
            with self._profile.phase("files"), self._failing_at(channel):
                batch = rows if isinstance(rows, pa.RecordBatch) else codec.decode(rows)
                found = self._tables[channel].rows(batch, self._number)
                self._waiting.setdefault(channel, []).append(found)
                self._sizes[channel] += found.nbytes
                if self._sizes[channel] > _WAITING_BYTES:
                    self._write(channel)
        return channel in self._tables and channel not in self._published

    def finish(self) -> Iterator[tuple[str, bytes]]:
        """Write what is left; yield the entry of each file for Delta's log, and the task's last profile."""
        with self._profile.phase("files"):
            for channel in list(self._waiting):
                with self._failing_at(channel):
                    self._write(channel)
        for file in self._written:
            yield channels.FILES, json.dumps(file).encode()
        yield channels.METRICS, json.dumps({"samples": self._profile.take()}).encode()

    def _write(self, channel: str) -> None:
        rows = pa.concat_tables(self._waiting.pop(channel))
        del self._sizes[channel]
        self._written += [{"channel": channel, **file} for file in write_files(self._tables[channel], rows)]

    def _failing_at(self, channel: str) -> AbstractContextManager[None]:
        return failing_at(lambda: f"table {self._tables[channel].path}")


def write_files(table: FileTable, rows: pa.Table) -> list[dict[str, Any]]:
    """Write a file for each partition of the table with rows; return the files' entries for the log.

    An entry has `path`, `size` (bytes), `modified` (Unix milliseconds), `partition` (its values) and `stats`.
    """
    return [_write_file(table.path, values, rest) for values, rest in partitioned(rows, table.partition_by)]


def _write_file(directory: Location, values: Values, rows: pa.Table) -> dict[str, Any]:
    name = f"part-{uuid.uuid4()}.snappy.parquet"
    return {
        "path": name,
        "size": write_parquet(directory, name, rows),
        "modified": time.time_ns() // 1_000_000,
        "partition": values,
        "stats": _stats(rows),
    }


class _UnboundedError(ValueError):
    """The log can have no bounds of a column that has values."""


def _stats(rows: pa.Table) -> str:
    """Return the statistics of a file, by which readers skip it: rows, and bounds and nulls by column.

    A file has all bounds that a reader may ask for, or no statistics but the number of its rows. delta-rs
    takes a bound that is missing as null, and skips the file for each filter on that column.
    """
    bounds: dict[str, tuple[str, str]] = {}
    try:
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if any(is_such(column.type) for is_such in _ORDERED) and column.null_count < len(column):
                bounds[name] = _bounds(column)
    except _UnboundedError:
        return f'{{"numRecords":{rows.num_rows}}}'
    parts = {
        "minValues": {name: least for name, (least, _) in bounds.items()},
        "maxValues": {name: most for name, (_, most) in bounds.items()},
        "nullCount": {name: str(rows.column(name).null_count) for name in rows.column_names},
    }
    objects = [f'"numRecords":{rows.num_rows}', *(f'"{name}":{_object(of)}' for name, of in parts.items())]
    return f"{{{','.join(objects)}}}"


def _bounds(column: pa.ChunkedArray) -> tuple[str, str]:
    """Return a column's least and greatest value as JSON.

    Raises:
        _UnboundedError: JSON has no number for one of them, or no short text is greater than all texts.
    """
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
        raise _UnboundedError
    least, most = pc.min_max(column).as_py().values()
    if isinstance(most, str):  # the beginning of a string is never greater than the string
        least = least[:_LONGEST]
        if len(most) > _LONGEST:
            most, whole = most[:_LONGEST] + _GREATEST, most
            if most < whole:
                raise _UnboundedError
    return _literal(least), _literal(most)


def _object(members: Mapping[str, str]) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{value}' for name, value in members.items())}}}"


def _literal(value: Any) -> str:
    """Return a value as JSON in the form of Delta's log.

    Other than in data records, decimals are numbers, and times have milliseconds only.
    """
    match value:
        case Decimal():
            return f"{value:f}"
        case datetime():  # cut to milliseconds, which readers allow for
            return json.dumps(value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        case date():
            return json.dumps(value.isoformat())
    return json.dumps(value, ensure_ascii=False)
