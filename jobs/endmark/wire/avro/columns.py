"""Reads columns of a stream from Avro values: the types of a writer that a column takes, and their values."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.domain import DECIMAL_DIGITS, Domain
from endmark.types import Spelling
from endmark.wire.avro.schema import ZONED
from endmark.wire.json.reader import mask
from endmark.wire.json.unquoted import UnquotedReader
from endmark.wire.values import Values, doubles_of, longs_of, sound, spelled_of, texts_of, times_of, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.state.search import Bools, Ints
    from endmark.types import ColumnType
    from endmark.wire.avro.cursor import Cursor
    from endmark.wire.avro.schema import AvroType

    Reader = Callable[[Cursor, Ints], Values]

_INTEGERS = ("int", "long")
_NUMBERS = (*_INTEGERS, "float", "double")
_INTEGER = pa.decimal128(DECIMAL_DIGITS, 0)
_BYTES = 16  # of a decimal in Arrow
_UNITS = {
    "timestamp-millis": Spelling.MILLISECONDS,
    "timestamp-micros": Spelling.MICROSECONDS,
    "date": Spelling.DAYS,
}


def reader_of(written: AvroType, kind: ColumnType) -> Reader | None:
    """Return what reads a column from values of a writer's type; `None` if the column does not take them.

    Args:
        written: the type in the writer's schema. Each branch of a union but null must fit.
        kind: the type of the column, of which null is no part: a null is read wherever the writer has it.
    """
    if written.kind == "null":
        return partial(_nulls, kind)
    if written.kind == "union":
        branches = [reader_of(each, kind) for each in written.inner]
        found = [each for each in branches if each is not None]
        return partial(_union, found) if len(found) == len(branches) else None
    return _plain_reader(written, kind)


def _plain_reader(written: AvroType, kind: ColumnType) -> Reader | None:
    match kind.domain:
        case Domain.LONG:
            return partial(_longs, written, kind) if written.kind in _INTEGERS else None
        case Domain.DOUBLE:
            return partial(_doubles, written, kind) if written.kind in _NUMBERS else None
        case Domain.STRING:
            return _text_reader(written)
        case Domain.BOOLEAN:
            return _booleans if written.kind == "boolean" else None
        case Domain.DECIMAL:
            fits = written.logical == "decimal" and written.scale <= kind.scale
            return partial(_decimals, written, kind) if fits else None
    return _time_reader(written, kind)


def _time_reader(written: AvroType, kind: ColumnType) -> Reader | None:
    if written.logical == ZONED:
        zoned = kind.domain is Domain.TIMESTAMP and kind.spelling is None
        return partial(_zoned, written, UnquotedReader(kind)) if zoned else None
    unit = unit_of(written, kind)
    return None if unit is None else partial(_times, written, kind, unit)


def _text_reader(written: AvroType) -> Reader | None:
    if written.kind == "enum":
        return partial(_symbols, written)
    plain = written.kind in ("string", "bytes") and written.logical != "decimal"
    return partial(_strings, written) if plain else None


def unit_of(written: AvroType, kind: ColumnType) -> Spelling | None:
    """Return the unit of the numbers that a writer has for times; `None` if they are no times of this type.

    The logical type says it, or else the spelling of the column. If both do, they agree.
    """
    if written.logical is not None:
        unit = _UNITS.get(written.logical)
        fits = unit is not None and unit.values is kind.domain and kind.spelling in (None, unit)
        return unit if fits else None
    return kind.spelling if written.kind in _INTEGERS else None


def _nulls(kind: ColumnType, _: Cursor, rows: Ints) -> Values:
    return sound(pa.nulls(len(rows), kind.arrow))


def _union(branches: list[Reader], cursor: Cursor, rows: Ints) -> Values:
    branch = cursor.index(rows, len(branches))
    there = [np.flatnonzero(branch == number) for number in range(len(branches))]
    return together([each(cursor, rows[at]) for each, at in zip(branches, there, strict=True)], there)


def _numbers(written: AvroType, cursor: Cursor, rows: Ints) -> Ints:
    return cursor.ints(rows) if written.kind == "int" else cursor.longs(rows)


def _longs(written: AvroType, kind: ColumnType, cursor: Cursor, rows: Ints) -> Values:
    return longs_of(_numbers(written, cursor, rows), kind)


def _doubles(written: AvroType, kind: ColumnType, cursor: Cursor, rows: Ints) -> Values:
    if written.kind in _INTEGERS:
        found = _numbers(written, cursor, rows).astype(np.float64)
    else:
        width = "<f4" if written.kind == "float" else "<f8"
        found = cursor.fixed(rows, written.least).copy().view(width)[:, 0].astype(np.float64)
    return doubles_of(found, kind)


def _strings(written: AvroType, cursor: Cursor, rows: Ints) -> Values:
    return texts_of(cursor.texts(*cursor.bytes_of(rows, written)))


def _symbols(written: AvroType, cursor: Cursor, rows: Ints) -> Values:
    if not written.symbols:  # no value can have this type
        cursor.index(rows, 0)
        return sound(pa.array([""] * len(rows), pa.string()))
    index = cursor.index(rows, len(written.symbols))
    return sound(pa.array(written.symbols, pa.string()).take(pa.array(index)))


def _booleans(cursor: Cursor, rows: Ints) -> Values:
    return sound(pa.array(cursor.booleans(rows)))


def _times(written: AvroType, kind: ColumnType, unit: Spelling, cursor: Cursor, rows: Ints) -> Values:
    return times_of(_numbers(written, cursor, rows), kind, unit)


def _zoned(written: AvroType, reader: UnquotedReader, cursor: Cursor, rows: Ints) -> Values:
    """Read times as texts, which end with `Z` or with an offset from UTC."""
    return spelled_of(_strings(written, cursor, rows), reader)


def _decimals(written: AvroType, kind: ColumnType, cursor: Cursor, rows: Ints) -> Values:
    unscaled, bad = _unscaled(cursor.data, *cursor.bytes_of(rows, written))
    limit = Decimal(10 ** (kind.precision - kind.scale + written.scale) - 1)
    for far in (pc.greater(unscaled, _digits(limit)), pc.less(unscaled, _digits(limit.copy_negate()))):
        bad |= mask(far)
    buffers = pc.if_else(pa.array(bad), _digits(Decimal(0)), unscaled).buffers()
    scaled = pa.Array.from_buffers(pa.decimal128(DECIMAL_DIGITS, written.scale), len(rows), buffers)
    return sound(scaled.cast(kind.arrow), bad)


def _digits(value: Decimal) -> pa.Scalar:
    return pa.scalar(value, _INTEGER)


def _unscaled(data: np.ndarray, start: Ints, length: Ints) -> tuple[pa.Array, Bools]:
    """Return big-endian integers of any number of bytes, and a mask of those that have none or too many.

    Args:
        data: the bytes.
        start: the position of each integer's first byte.
        length: the number of its bytes.
    """
    sign = np.where((length > 0) & (data[start] >= 0x80), 0xFF, 0).astype(np.uint8)
    digits = np.repeat(sign[:, None], _BYTES, axis=1)  # least first
    last = start + length - 1
    for digit in range(min(_BYTES, int(length.max(initial=0)))):
        there = digit < length
        digits[there, digit] = data[last[there] - digit]
    bad = length == 0
    for row in np.flatnonzero(length > _BYTES):  # a writer may repeat the sign, which few do
        more = data[start[row] : last[row] - _BYTES + 1]
        bad[row] = (more != sign[row]).any() or (digits[row, -1] ^ sign[row]) & 0x80
    return pa.Array.from_buffers(_INTEGER, len(start), [None, pa.py_buffer(digits)]), bad
