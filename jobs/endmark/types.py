"""The types of columns with their names in Arrow and DuckDB, spellings in records, and the types of joins."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal, Self, cast

from endmark.domain import DECIMAL_DIGITS, Domain, PunctuationError

if TYPE_CHECKING:
    from decimal import Decimal

    import pyarrow as pa

    from endmark.domain import Value

_NULLABLE = "?"
# Names of types in SQL, Flink, Spark and JSON Schema, which people write first.
_ELSEWHERE = {
    **dict.fromkeys(("bigint", "int64", "int32", "integer", "smallint"), "long"),
    **dict.fromkeys(("number", "real", "float64"), "double"),
    **dict.fromkeys(("text", "varchar", "char", "str", "uuid"), "string"),
    **dict.fromkeys(("datetime", "timestamptz", "timestamp_ltz"), "timestamp"),
    "bool": "boolean",
    "numeric": "decimal(18,2)",
}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")

# The greatest double that rounds to a finite float of 32 bits. Java writes the greatest float as
# 3.4028235E38, which is a little above that float itself.
_GREATEST_FLOAT = math.nextafter(float.fromhex("0x1.ffffffp127"), 0)


class Spelling(StrEnum):
    """A way to spell a column's values as JSON numbers in records, other than the usual one.

    `int` and `float` are longs and doubles in the range of 32 bits. The others are times as the number of
    units since 1970 in UTC. Only records differ: rows, state and tables have the usual values.

    Attributes:
        values: the domain of the values.
        numbers: the domain of the numbers in records.
        step: the number of ordinals of `values` in a unit; 1 where the numbers are the values.
        least: the least number.
        greatest: the greatest number.
    """

    INT = "int", Domain.LONG, Domain.LONG, 1, -(2**31), 2**31 - 1
    FLOAT = "float", Domain.DOUBLE, Domain.DOUBLE, 1, -_GREATEST_FLOAT, _GREATEST_FLOAT
    SECONDS = "timestamp(s)", Domain.TIMESTAMP, Domain.LONG, 1_000_000
    MILLISECONDS = "timestamp(ms)", Domain.TIMESTAMP, Domain.LONG, 1_000
    MICROSECONDS = "timestamp(us)", Domain.TIMESTAMP, Domain.LONG, 1
    DAYS = "date(days)", Domain.DATE, Domain.LONG, 1

    values: Domain
    numbers: Domain
    step: int
    least: float
    greatest: float

    def __new__(
        cls,
        word: str,
        values: Domain,
        numbers: Domain,
        step: int,
        least: float | None = None,
        greatest: float | None = None,
    ) -> Self:
        spelling = str.__new__(cls, word)
        spelling._value_ = word
        spelling.values, spelling.numbers, spelling.step = values, numbers, step
        spelling.least = -(-values.bottom // step) if least is None else least
        spelling.greatest = (values.top - 1) // step if greatest is None else greatest
        return spelling

    def holds(self, number: float) -> bool:
        """Return whether a number is in range."""
        return self.least <= number <= self.greatest

    def value_of(self, number: float) -> Value:
        """Return the value of a number.

        Raises:
            PunctuationError: the number is out of range.
        """
        if not self.holds(number):
            raise PunctuationError(f"{number} is out of the range of {self}")
        if self.values is self.numbers:
            return number
        return self.values.value_at(cast("int", number) * self.step)

    def number_of(self, value: Value) -> float:
        """Return the number of a value of the domain `values`.

        Raises:
            PunctuationError: the number is out of range, or the value is between two numbers.
        """
        if self.values is self.numbers:
            return cast("float", self.value_of(cast("float", value)))
        number, rest = divmod(self.values.below(value), self.step)
        if rest:
            raise PunctuationError(f"{value} is between two values of {self}; round it first")
        return cast("int", number)

    def floor(self, value: Value) -> Value:
        """Return the last time that has a number and is not after a time."""
        ordinal = self.values.below(value)
        return self.values.value_at(ordinal - ordinal % self.step)


@dataclass(frozen=True)
class ColumnType:
    """A column's type; `str` gives its name in a pipeline file. Timestamps are UTC with microseconds.

    A nullable type has a `?` behind its name. Only columns of streams say whether they are nullable, and how
    records spell them: columns of relations and of tables may always be null.

    Args:
        domain: the kind of values.
        precision: a decimal's digits in all; 0 for every other domain.
        scale: a decimal's digits after the point; 0 for every other domain.
        many: whether the values are arrays; no column of a stream or a relation has arrays.
        nullable: whether a row of a stream may have no value in the column.
        spelling: how records of a stream spell the values; `None` for the usual spelling.
    """

    domain: Domain
    precision: int = 0
    scale: int = 0
    many: bool = False
    nullable: bool = False
    spelling: Spelling | None = None

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
        if spelling := next((each for each in Spelling if each == value), None):
            return cls(spelling.values, nullable=nullable, spelling=spelling)
        hint = ""
        if text.startswith("decimal"):  # within { }, YAML ends a text without quotes at its comma
            hint = '; between braces a decimal needs quotes: {price: "decimal(18,2)"}'
        if meant := _ELSEWHERE.get(value.lower()):
            hint = f"; for {value} write {meant}"
        raise ValueError(f"{text!r} is not one of {', '.join([*plain, *Spelling])}, decimal(18,2){hint}")

    def __str__(self) -> str:
        one = self.spelling or self.domain.value
        if self.domain is Domain.DECIMAL:
            one = f"decimal({self.precision},{self.scale})"
        return f"array<{one}>" if self.many else f"{one}{_NULLABLE}" if self.nullable else one

    @property
    def array(self) -> ColumnType:
        """The type of arrays of this type's values."""
        return replace(self, many=True)

    @property
    def required(self) -> ColumnType:
        """The same type without nulls."""
        return replace(self, nullable=False) if self.nullable else self

    @property
    def of_values(self) -> ColumnType:
        """The same type in the usual spelling, as rows, state and tables have it."""
        return replace(self, spelling=None) if self.spelling else self

    @property
    def spelled(self) -> Domain:
        """The domain of the JSON values in records."""
        return self.spelling.numbers if self.spelling else self.domain

    def fits(self, number: Decimal) -> bool:
        """Return whether a number has no more digits before and after the point than this type.

        Zeros at the end count, so 1.500 does not fit decimal(5,2).
        """
        _, digits, exponent = number.as_tuple()
        decimals = -int(exponent)
        whole = len(digits) - decimals if number else 0
        return decimals <= self.scale and whole <= self.precision - self.scale

    @property
    def duckdb(self) -> str:
        if self.many:
            return f"{replace(self, many=False).duckdb}[]"
        names = {Domain.LONG: "BIGINT", Domain.STRING: "VARCHAR", Domain.TIMESTAMP: "TIMESTAMPTZ"}
        return names.get(self.domain, str(self.required.of_values).upper())

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
