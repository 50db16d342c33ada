"""Reads JSON records that are known to be well formed with Arrow's JSON reader.

Some values are still impossible, such as a 30th of February. One bad record makes the reader refuse the whole
block, so a refused block is halved until the bad records stand alone. The reader takes no date as a string
(PyArrow 26), so dates are cast afterwards.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from endmark.domain import Domain
from endmark.wire.spelling import WS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from endmark.state.search import Bools, Ints
    from endmark.types import ColumnType

Path = tuple[str, ...]
# An offset from UTC may lead out of the years 1 to 9999.
_FIRST, _LAST = pa.scalar(datetime.min.replace(tzinfo=UTC)), pa.scalar(datetime.max.replace(tzinfo=UTC))


class JsonReader:
    """Reads values of declared columns from JSON objects.

    Args:
        columns: the columns of the result; a record without a value of a nullable column has null there.
        paths: for each column the names of the nested members that lead to its value.
        ignoring: whether a record may have other members. They are ignored, even if one stands twice.
    """

    def __init__(
        self, columns: Mapping[str, ColumnType], paths: Mapping[str, Path], *, ignoring: bool = False
    ) -> None:
        self.schema = pa.schema([(name, kind.arrow) for name, kind in columns.items()])
        self._required = [not kind.nullable for kind in columns.values()]
        self._empty = pa.RecordBatch.from_pylist([], schema=self.schema)
        self._paths = paths
        read_as = {paths[name]: _as_read(kind) for name, kind in columns.items()}
        self._options = pa.json.ParseOptions(
            explicit_schema=pa.schema(_nested(read_as)),
            unexpected_field_behavior="ignore" if ignoring else "error",
        )

    def read(self, values: pa.Array, at: Ints) -> tuple[pa.RecordBatch, Ints]:
        """Read the records at the positions `at`.

        Returns:
            The rows that have a value in every column that is not nullable, and their positions.
        """
        pieces = list(self._readable(values, at)) if len(at) else []
        if not pieces:
            return self._empty, at[:0]
        table = pa.concat_tables([piece for piece, _ in pieces]).combine_chunks()
        row_at = np.concatenate([position for _, position in pieces])
        complete = np.ones(len(row_at), bool)
        for column, required in zip(table.columns, self._required, strict=True):
            if column.null_count and required:
                complete &= mask(column.is_valid())
            if pa.types.is_floating(column.type):
                complete &= ~mask(pc.is_inf(column))  # the reader makes infinity of a number of 400 digits
            if pa.types.is_timestamp(column.type):
                complete &= ~mask(pc.or_(pc.less(column, _FIRST), pc.greater(column, _LAST)))
        if not complete.all():
            table, row_at = table.filter(pa.array(complete)).combine_chunks(), row_at[complete]
        return next(iter(table.to_batches()), self._empty), row_at

    def _readable(self, values: pa.Array, at: Ints) -> Iterator[tuple[pa.Table, Ints]]:
        """Read tables of records, with their positions, and leave out those that cannot be read.

        A record cannot be read if it has a member twice, a number out of range, a 30th of February or bytes
        that are not UTF-8.
        """
        try:
            table = self._read(values.take(pa.array(at)))
        except (pa.ArrowInvalid, UnicodeDecodeError):
            table = None
        if table is not None and table.num_rows == len(at):
            yield table, at
        elif len(at) > 1:
            for half in np.array_split(at, 2):
                yield from self._readable(values, half)

    def _read(self, values: pa.Array) -> pa.Table:
        values.cast(pa.string())  # raises if a value is not UTF-8, which the reader does not check
        one_list = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        text = pc.binary_join(one_list, b"\n")[0].as_buffer()
        whole = pa.json.ReadOptions(use_threads=False, block_size=text.size + 1)
        table = pa.json.read_json(pa.BufferReader(text), read_options=whole, parse_options=self._options)
        columns = [_member(table, self._paths[field.name]).cast(field.type) for field in self.schema]
        return pa.table(columns, schema=self.schema)


def _as_read(kind: ColumnType) -> pa.DataType:
    return pa.string() if kind.domain is Domain.DATE else kind.arrow


def _nested(read_as: Mapping[Path, pa.DataType]) -> list[pa.Field]:
    """The Arrow fields, nested in structs, that have values of these types at these paths."""
    inner: dict[str, dict[Path, pa.DataType]] = {}
    for (first, *rest), kind in read_as.items():
        inner.setdefault(first, {})[tuple(rest)] = kind
    return [
        pa.field(first, below[()] if () in below else pa.struct(_nested(below)))
        for first, below in inner.items()
    ]


def _member(table: pa.Table, path: Path) -> pa.ChunkedArray:
    first, *rest = path
    return pc.struct_field(table[first], rest) if rest else table[first]


def matching(values: pa.Array, expression: str) -> Bools:
    """Return a mask of the texts that match an expression as a whole; white space around them is allowed."""
    return mask(pc.match_substring_regex(values, rf"^{WS}{expression}{WS}$"))


def mask(booleans: pa.Array) -> Bools:
    """Return Arrow booleans as a NumPy array; null becomes false."""
    return np.asarray(pc.fill_null(booleans, False).to_numpy(zero_copy_only=False), dtype=bool)
