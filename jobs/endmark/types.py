"""The types of columns with their names in Arrow and DuckDB, and the types of joins."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal

from endmark.domain import DECIMAL_DIGITS, Domain

if TYPE_CHECKING:
    from decimal import Decimal

    import pyarrow as pa

_NULLABLE = "?"
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


@dataclass(frozen=True)
class ColumnType:
    """A column's type; `str` gives its name in a pipeline file. Timestamps are UTC with microseconds.

    A nullable type has a `?` behind its name. Only columns of streams say whether they are nullable: columns
    of relations and of tables may always be null.

    Args:
        domain: the kind of values.
        precision: a decimal's digits in all; 0 for every other domain.
        scale: a decimal's digits after the point; 0 for every other domain.
        many: whether the values are arrays; no column of a stream or a relation has arrays.
        nullable: whether a row of a stream may have no value in the column.
    """

    domain: Domain
    precision: int = 0
    scale: int = 0
    many: bool = False
    nullable: bool = False

    LONG: ClassVar[ColumnType]
    DOUBLE: ClassVar[ColumnType]
    STRING: ClassVar[ColumnType]
    BOOLEAN: ClassVar[ColumnType]
    DATE: ClassVar[ColumnType]
    TIMESTAMP: ClassVar[ColumnType]

    @classmethod
    def decimal(cls, precision: int, scale: int) -> ColumnType:
        """Return the type of decimals with these digits.

        Args:
            precision: the number of digits in all.
            scale: the number of digits after the point.

        Raises:
            ValueError: no decimal can have these digits.
        """
        if not (1 <= precision <= DECIMAL_DIGITS and scale <= precision):
            raise ValueError(
                f"decimal({precision},{scale}) cannot be: a decimal has 1 to {DECIMAL_DIGITS} digits in all, "
                "and no more than that after the point"
            )
        return cls(Domain.DECIMAL, precision, scale)

    @classmethod
    def parse(cls, text: str) -> ColumnType:
        """Return the type of a name in a pipeline file.

        Raises:
            ValueError: no type has the name; the text lists the names.
        """
        value = text.removesuffix(_NULLABLE)
        nullable = value != text
        if found := _DECIMAL.fullmatch(value):
            return replace(cls.decimal(int(found[1]), int(found[2])), nullable=nullable)
        plain = {domain.value: domain for domain in Domain if domain is not Domain.DECIMAL}
        if value in plain:
            return cls(plain[value], nullable=nullable)
        hint = ""
        if text.startswith("decimal"):  # within { }, YAML ends a text without quotes at its comma
            hint = '; between braces a decimal needs quotes: {price: "decimal(18,2)"}'
        raise ValueError(f"{text!r} is not one of {', '.join(plain)}, decimal(18,2){hint}")

    def __str__(self) -> str:
        one = (
            f"decimal({self.precision},{self.scale})" if self.domain is Domain.DECIMAL else self.domain.value
        )
        return f"array<{one}>" if self.many else f"{one}{_NULLABLE}" if self.nullable else one

    @property
    def array(self) -> ColumnType:
        """The type of arrays of this type's values."""
        return replace(self, many=True)

    @property
    def required(self) -> ColumnType:
        """The same type without nulls. Two columns have values of one type if these are equal."""
        return replace(self, nullable=False) if self.nullable else self

    def fits(self, number: Decimal) -> bool:
        """Return whether a number has no more digits before and after the point than this type.

        Zeros at the end count, so 1.500 does not fit decimal(5,2).
        """
        _, digits, exponent = number.as_tuple()
        places = -int(exponent)
        whole = len(digits) - places if number else 0
        return places <= self.scale and whole <= self.precision - self.scale

    @property
    def duckdb(self) -> str:
        if self.many:
            return f"{replace(self, many=False).duckdb}[]"
        names = {Domain.LONG: "BIGINT", Domain.STRING: "VARCHAR", Domain.TIMESTAMP: "TIMESTAMPTZ"}
        return names.get(self.domain, str(self.required).upper())

    @property
    def arrow(self) -> pa.DataType:
        import pyarrow as pa

        if self.many:
            return pa.list_(replace(self, many=False).arrow)
        if self.domain is Domain.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return {
            Domain.LONG: pa.int64(),
            Domain.DOUBLE: pa.float64(),
            Domain.STRING: pa.string(),
            Domain.BOOLEAN: pa.bool_(),
            Domain.DATE: pa.date32(),
            Domain.TIMESTAMP: pa.timestamp("us", "UTC"),
        }[self.domain]


ColumnType.LONG = ColumnType(Domain.LONG)
ColumnType.DOUBLE = ColumnType(Domain.DOUBLE)
ColumnType.STRING = ColumnType(Domain.STRING)
ColumnType.BOOLEAN = ColumnType(Domain.BOOLEAN)
ColumnType.DATE = ColumnType(Domain.DATE)
ColumnType.TIMESTAMP = ColumnType(Domain.TIMESTAMP)


Direction = Literal["ascending", "descending"]


class JoinType(StrEnum):
    """The type of a join, which says what it puts out beside pairs.

    A `semi` join puts out each left row that has a partner, and no pairs.
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
