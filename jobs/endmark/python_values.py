"""Values of Arrow columns that Python cannot hold: years beyond 9999 or before 1, and texts not in UTF-8.

Spark hands over all of them unchanged. Arrow raises an error when it turns one into a Python value.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST, _END = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH + 1  # days since 1970
_DAY = 86_400_000_000  # µs


def holdable(rows: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return a mask of the rows of which Python can hold every value.

    Args:
        rows: key columns, so none is nested, and timestamps are in µs.
    """
    mask = np.ones(rows.num_rows, bool)
    for column in rows.columns:
        if pa.types.is_date32(column.type):
            mask &= _within(column, pa.int32(), 1)
        elif pa.types.is_timestamp(column.type):
            mask &= _within(column, pa.int64(), _DAY)
        elif pa.types.is_string(column.type):
            mask &= _decodable(column)
    return mask


def python_value(scalar: pa.Scalar) -> Any:
    """Return the Python value of an Arrow scalar.

    A date or timestamp that Python cannot hold becomes a text, such as `12026-01-31`. A text that is not
    UTF-8 gets U+FFFD in place of each wrong byte.
    """
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        if isinstance(scalar, pa.StringScalar | pa.LargeStringScalar):
            return scalar.as_buffer().to_pybytes().decode(errors="replace")
    except (OverflowError, ValueError):
        if isinstance(scalar, pa.Date32Scalar | pa.TimestampScalar):
            return scalar.cast(pa.string()).as_py()
    match scalar:
        case pa.MapScalar():
            return [tuple(map(python_value, pair.values())) for pair in scalar.values]
        case pa.StructScalar():
            return {name: python_value(value) for name, value in scalar.items()}
    return [python_value(value) for value in scalar.values]  # it is a list, since other types never fail


def _within(column: pa.Array, integer: pa.DataType, day: int) -> NDArray[np.bool_]:
    numbers = np.asarray(column.view(integer).fill_null(0))
    inside: NDArray[np.bool_] = (numbers >= _FIRST * day) & (numbers < _END * day)
    return inside


def _decodable(column: pa.Array) -> NDArray[np.bool_]:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([_is_decodable(value) for value in column], bool)
    return np.ones(len(column), bool)


def _is_decodable(value: pa.StringScalar) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True
