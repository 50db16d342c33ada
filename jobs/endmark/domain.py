"""Domains: the values that a column may have, their order, and the gaps between neighbours.

A *cut* is a gap: every value of the domain is below it or above it. An interval lies between two cuts, so
open and closed ends need no separate cases. In a discrete domain, every value has a successor, and a cut is
the ordinal of the value above it. So the intervals [1, 2] and [3, 4] touch. In a dense domain, a cut is a
value and a side: 0 is below the value, 1 above it. Doubles and strings count as dense, although two doubles
may have no third between them, and nothing is between "a" and "a" followed by U+0000.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact
from enum import StrEnum
from typing import Any, NamedTuple, Self, cast

Value = bool | int | float | str | Decimal | date | datetime
Cut = Any  # an int in a discrete domain, a tuple in a dense one; cuts of one domain can be compared

DECIMAL_DIGITS = 38  # the most that Arrow, DuckDB, Spark and Delta all support
_EXACTLY = Context(prec=DECIMAL_DIGITS, traps=[Inexact])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)


class PunctuationError(ValueError):
    """A pattern or punctuation is invalid; the text says what is wrong and where."""


class _Ordinals(NamedTuple):
    """The numbers of a discrete domain's values, without gaps."""

    of: Callable[[Any], int]
    value: Callable[[int], Value]
    least: int
    greatest: int


def _boolean(value: bool) -> bool:
    return value


def _long(value: int) -> int:
    if not _LONGS.least <= value <= _LONGS.greatest:
        raise PunctuationError(f"{value} does not fit into 64 bits")
    return value


def _double(value: float) -> float:
    try:
        exact = float(value)
    except OverflowError:
        exact = float("inf")
    if exact != value:
        raise PunctuationError(f"{value} is between two doubles")
    return exact + 0.0  # -0.0 becomes 0.0


def _string(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PunctuationError(f"{value!r} is no Unicode text: it has half a surrogate pair") from None
    return value


def _decimal(value: Decimal | int) -> Decimal:
    try:
        number = _EXACTLY.normalize(Decimal(value)) if value else Decimal()  # -0 becomes 0
    except Inexact:
        raise PunctuationError(f"{value} has more than {DECIMAL_DIGITS} digits") from None
    exponent = cast("int", number.as_tuple().exponent)
    if max(number.adjusted() + 1, 0) + max(-exponent, 0) > DECIMAL_DIGITS:
        raise PunctuationError(f"{value} takes more than {DECIMAL_DIGITS} digits to write out")
    return number


def _date(value: date) -> date:
    return value


def _timestamp(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _days(value: date) -> int:
    return value.toordinal() - _EPOCH_DAY


def _microseconds(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


_BOOLEANS = _Ordinals(int, bool, 0, 1)
_LONGS = _Ordinals(int, int, -(2**63), 2**63 - 1)
_DATES = _Ordinals(_days, lambda days: date.fromordinal(days + _EPOCH_DAY), _days(date.min), _days(date.max))
_TIMESTAMPS = _Ordinals(
    _microseconds,
    lambda microseconds: _EPOCH + microseconds * _MICROSECOND,
    _microseconds(datetime.min.replace(tzinfo=UTC)),
    _microseconds(datetime.max.replace(tzinfo=UTC)),
)


class Domain(StrEnum):
    """The kind of a column's values.

    Timestamps are UTC with microseconds, longs have 64 bits, and decimals have at most 38 digits.
    `ColumnType` adds a decimal's own number of digits, and the names of types in Arrow and DuckDB.

    Attributes:
        discrete: whether every value but the greatest has a successor.
        bottom: the cut below all values.
        top: the cut above all values.
    """

    LONG = "long", (int,), _long, _LONGS
    DOUBLE = "double", (float, int), _double, None
    STRING = "string", (str,), _string, None
    BOOLEAN = "boolean", (bool,), _boolean, _BOOLEANS
    DATE = "date", (date,), _date, _DATES
    TIMESTAMP = "timestamp", (datetime,), _timestamp, _TIMESTAMPS
    DECIMAL = "decimal", (Decimal, int), _decimal, None

    # These are plain attributes of each member, since a lookup by an enum costs more than the rest of a cut.
    discrete: bool
    bottom: Cut
    top: Cut
    _types: tuple[type, ...]
    _exact: Callable[[Any], Value]
    _ordinals: _Ordinals | None

    def __new__(
        cls, word: str, types: tuple[type, ...], exact: Callable[[Any], Value], ordinals: _Ordinals | None
    ) -> Self:
        domain = str.__new__(cls, word)
        domain._value_ = word
        domain._types, domain._exact, domain._ordinals = types, exact, ordinals
        domain.discrete = ordinals is not None
        if ordinals:
            domain.bottom, domain.top = ordinals.least, ordinals.greatest + 1
        else:
            domain.bottom, domain.top = ((0, "", 0) if types == (str,) else (-1,)), (1,)
        return domain

    def holds(self, value: object) -> bool:
        """Return whether a value is of this domain's type; whole numbers are also doubles and decimals."""
        return type(value) in self._types

    def coerce(self, value: Value) -> Value:
        """Return a value in this domain's normal form: a whole number becomes a double, -0.0 becomes 0.0.

        Raises:
            PunctuationError: the domain does not have the value.
        """
        domain_of_value(value)
        if type(value) not in self._types:
            raise PunctuationError(f"{value!r} is no {self.value}")
        return self._exact(value)

    def below(self, value: Any) -> Cut:
        """Return the cut just below a value of this domain."""
        return self._ordinals.of(value) if self._ordinals else (0, value, 0)

    def above(self, value: Any) -> Cut:
        """Return the cut just above a value of this domain."""
        return self._ordinals.of(value) + 1 if self._ordinals else (0, value, 1)

    def value_at(self, ordinal: int) -> Value:
        """Return the value just above a cut of a discrete domain."""
        return cast("_Ordinals", self._ordinals).value(ordinal)


def domain_of_value(value: object) -> Domain:
    """Return the domain of a value that a pattern may hold.

    Raises:
        PunctuationError: the value is null, infinite, NaN, a time without a zone, or of another type.
    """
    kind = type(value)
    if kind not in _DOMAIN_OF:
        kinds = ", ".join(known.__name__ for known in _DOMAIN_OF)
        raise PunctuationError(f"a pattern holds {kinds}; {value!r} is {kind.__name__}")
    if kind in _UNFIT and _UNFIT[kind](value):
        raise PunctuationError(f"there are finite numbers and times with a zone, but not {value!r}")
    return _DOMAIN_OF[kind]


def common_domain(domains: set[Domain]) -> Domain:
    """Return the domain that all values of a pattern share; whole numbers go with doubles or decimals.

    Raises:
        PunctuationError: the domains do not go together.
    """
    others = domains - {Domain.LONG}
    if len(others) > 1 or (others < domains and not others <= {Domain.DOUBLE, Domain.DECIMAL}):
        raise PunctuationError(f"one pattern cannot mix {' and '.join(sorted(domains))}")
    return others.pop() if others else Domain.LONG


_DOMAIN_OF: dict[type, Domain] = {
    bool: Domain.BOOLEAN,
    int: Domain.LONG,
    float: Domain.DOUBLE,
    str: Domain.STRING,
    Decimal: Domain.DECIMAL,
    date: Domain.DATE,
    datetime: Domain.TIMESTAMP,
}
_UNFIT: dict[type, Callable[[Any], bool]] = {
    float: lambda value: value - value != 0,  # NaN and the infinities
    Decimal: lambda value: not value.is_finite(),
    datetime: lambda value: value.tzinfo is None,
}
