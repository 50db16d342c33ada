"""The column types of streams and relations, and what each is called in Arrow and DuckDB."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnType(StrEnum):
    """A column's type as a pipeline file names it. Timestamps are UTC with microseconds."""

    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"

    @property
    def duckdb(self) -> str:
        return _DUCKDB[self]

    @property
    def arrow(self) -> pa.DataType:
        import pyarrow as pa

        match self:
            case ColumnType.LONG:
                return pa.int64()
            case ColumnType.DOUBLE:
                return pa.float64()
            case ColumnType.STRING:
                return pa.string()
            case ColumnType.BOOLEAN:
                return pa.bool_()
            case ColumnType.TIMESTAMP:
                return pa.timestamp("us", "UTC")


_DUCKDB = {
    ColumnType.LONG: "BIGINT",
    ColumnType.DOUBLE: "DOUBLE",
    ColumnType.STRING: "VARCHAR",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.TIMESTAMP: "TIMESTAMPTZ",
}
