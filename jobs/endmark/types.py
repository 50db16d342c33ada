"""The types of columns and what each is called in Arrow and DuckDB, and the types of joins."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from decimal import Decimal

    import pyarrow as pa

DECIMAL_DIGITS = 38  # the most that Arrow, DuckDB, Spark and Delta agree on
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


class Kind(StrEnum):
    """The kinds of column types, the digits of a decimal aside."""

    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"


@dataclass(frozen=True)
class ColumnType:
    """A column's type; its text is how a pipeline file names it. Timestamps are UTC with microseconds.

    Args:
        precision, scale: a decimal's digits in all, and those after the point; 0 for every other kind.
        many: whether it holds an array of such values; no stream and no relation has one.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    many: bool = False

    LONG: ClassVar[ColumnType]
    DOUBLE: ClassVar[ColumnType]
    STRING: ClassVar[ColumnType]
    BOOLEAN: ClassVar[ColumnType]
    DATE: ClassVar[ColumnType]
    TIMESTAMP: ClassVar[ColumnType]

    @classmethod
    def decimal(cls, precision: int, scale: int) -> ColumnType:
        """Raises ValueError for digits that no decimal has."""
        if not (1 <= precision <= DECIMAL_DIGITS and scale <= precision):
            raise ValueError(
                f"decimal({precision},{scale}) cannot be: a decimal has 1 to {DECIMAL_DIGITS} digits in all, "
                "and no more than that after the point"
            )
        return cls(Kind.DECIMAL, precision, scale)

    @classmethod
    def parse(cls, text: str) -> ColumnType:
        """The type of that name; ValueError, which lists the names, when there is none."""
        if found := _DECIMAL.fullmatch(text):
            return cls.decimal(int(found[1]), int(found[2]))
        plain = [kind.value for kind in Kind if kind is not Kind.DECIMAL]
        if text in plain:
            return cls(Kind(text))
        hint = ""
        if text.startswith("decimal"):  # inside { }, YAML ends a text without quotes at its comma
            hint = '; between braces a decimal needs quotes: {price: "decimal(18,2)"}'
        raise ValueError(f"{text!r} is not one of {', '.join(plain)}, decimal(18,2){hint}")

    def __str__(self) -> str:
        one = f"decimal({self.precision},{self.scale})" if self.kind is Kind.DECIMAL else self.kind.value
        return f"array<{one}>" if self.many else one

    @property
    def array(self) -> ColumnType:
        """The type of arrays of this type's values."""
        return replace(self, many=True)

    def fits(self, number: Decimal) -> bool:
        """Return whether a number has no more digits before and after the point than this type.

        Zeros at the end count: 1.500 is no decimal(5,2).
        """
        _, digits, exponent = number.as_tuple()
        places = -int(exponent)
        whole = len(digits) - places if number else 0
        return places <= self.scale and whole <= self.precision - self.scale

    @property
    def duckdb(self) -> str:
        if self.many:
            return f"{replace(self, many=False).duckdb}[]"
        names = {Kind.LONG: "BIGINT", Kind.STRING: "VARCHAR", Kind.TIMESTAMP: "TIMESTAMPTZ"}
        return names.get(self.kind, str(self).upper())

    @property
    def arrow(self) -> pa.DataType:
        import pyarrow as pa

        if self.many:
            return pa.list_(replace(self, many=False).arrow)
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return {
            Kind.LONG: pa.int64(),
            Kind.DOUBLE: pa.float64(),
            Kind.STRING: pa.string(),
            Kind.BOOLEAN: pa.bool_(),
            Kind.DATE: pa.date32(),
            Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
        }[self.kind]


ColumnType.LONG = ColumnType(Kind.LONG)
ColumnType.DOUBLE = ColumnType(Kind.DOUBLE)
ColumnType.STRING = ColumnType(Kind.STRING)
ColumnType.BOOLEAN = ColumnType(Kind.BOOLEAN)
ColumnType.DATE = ColumnType(Kind.DATE)
ColumnType.TIMESTAMP = ColumnType(Kind.TIMESTAMP)


Direction = Literal["ascending", "descending"]


class JoinType(StrEnum):
    """The type of a join: the rows that it gives beside pairs.

    `semi` gives each left row with a partner, and no pairs.
    """

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"

    @property
    def keeps_left(self) -> bool:
        """True if left rows without a partner are results."""
        return self in (JoinType.LEFT, JoinType.FULL)

    @property
    def keeps_right(self) -> bool:
        """True if right rows without a partner are results."""
        return self in (JoinType.RIGHT, JoinType.FULL)
