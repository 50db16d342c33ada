"""Reads JSON records that are known to be well formed with Arrow's JSON reader.

Some values are still impossible, such as a 30th of February. One bad record makes the reader refuse the whole
block, so a refused block is halved until the bad records stand alone. The reader takes no date as a string
(PyArrow 26), so dates are cast afterwards. Times that are numbers in records are read as integers. They
become times when those out of range are left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from endmark.domain import Domain
from endmark.types import ColumnType
from endmark.wire.json.spelling import WS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from endmark.state.search import Bools, Ints

Path = tuple[str, ...]
# An offset from UTC may lead out of the years 1 to 9999.
FIRST, LAST = pa.scalar(datetime.min.replace(tzinfo=UTC)), pa.scalar(datetime.max.replace(tzinfo=UTC))


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
        self._kinds = list(columns.values())
        self._empty = pa.RecordBatch.from_pylist([], schema=self.schema)
        self._paths = paths
        self._numbers = pa.schema([(name, _numbers(kind)) for name, kind in columns.items()])
        read_as = {paths[name]: _as_read(kind) for name, kind in columns.items()}
        self._options = pa.json.ParseOptions(
            explicit_schema=pa.schema(_nested(read_as)),
            unexpected_field_behavior="ignore" if ignoring else "error",
        )

    def read(self, values: pa.Array, at: Ints) -> tuple[pa.RecordBatch, Ints]:
        """Read the records at the positions `at`.

        Returns:
            The rows that have a value in every column that is not nullable, and their positions. Their
            numbers and times are in range.
        """
        pieces = list(self._readable(values, at)) if len(at) else []
        if not pieces:
            return self._empty, at[:0]
        table = pa.concat_tables([piece for piece, _ in pieces]).combine_chunks()
        row_at = np.concatenate([position for _, position in pieces])
        complete = np.ones(len(row_at), bool)
        for column, kind in zip(table.columns, self._kinds, strict=True):
            if column.null_count and not kind.nullable:
                complete &= mask(column.is_valid())
            if kind.spelling:
                complete &= ~mask(
                    pc.or_(
                        pc.less(column, pa.scalar(kind.spelling.least, column.type)),
                        pc.greater(column, pa.scalar(kind.spelling.greatest, column.type)),
                    )
                )
            if pa.types.is_floating(column.type):
                complete &= ~mask(pc.is_inf(column))  # the reader makes infinity of a number of 400 digits
            if pa.types.is_timestamp(column.type):
                complete &= ~mask(pc.or_(pc.less(column, FIRST), pc.greater(column, LAST)))
        if not complete.all():
            table, row_at = table.filter(pa.array(complete)).combine_chunks(), row_at[complete]
        columns = [
            _from_numbers(column, kind) for column, kind in zip(table.columns, self._kinds, strict=True)
        ]
        return next(iter(pa.table(columns, schema=self.schema).to_batches()), self._empty), row_at

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
        columns = [_member(table, self._paths[field.name]).cast(field.type) for field in self._numbers]
        return pa.table(columns, schema=self._numbers)


def _as_read(kind: ColumnType) -> pa.DataType:
    return pa.string() if kind.spelled is Domain.DATE else _numbers(kind)


def _numbers(kind: ColumnType) -> pa.DataType:
    """Return the type of a column whose spelling as numbers is not yet undone."""
    return ColumnType(kind.spelled).arrow if kind.spelling else kind.arrow


def _from_numbers(column: pa.ChunkedArray, kind: ColumnType) -> pa.ChunkedArray:
    """Return the values of a column of numbers in range; a column in the usual spelling is returned as is."""
    if kind.spelling is None or kind.domain is kind.spelled:
        return column
    ordinals = pc.multiply(column, pa.scalar(kind.spelling.step, pa.int64()))
    return (ordinals.cast(pa.int32()) if kind.domain is Domain.DATE else ordinals).cast(kind.arrow)


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
