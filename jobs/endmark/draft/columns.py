"""Infers the columns of a stream from the rows of a sample: their types, and whether they are nullable."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, cast

from endmark.domain import DECIMAL_DIGITS, Domain, PunctuationError
from endmark.draft.members import can_name
from endmark.punctuation.scalars import TEXTS, from_scalar
from endmark.types import ColumnType, Spelling
from endmark.wire.json.spelling import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.draft.reading import Row, Spelled

_DECIMAL = re.compile(r'"?-?(0|[1-9][0-9]*)(?:\.([0-9]+))?"?')
_USUAL_DIGITS = 18
_LONG_DIGITS = 20  # with a sign; Python reads no number of any length
LIKE_A_KEY = re.compile(r"(.*_)?(id|key|no|nr|number|code)", re.IGNORECASE)
# Integers that are times in these years are taken for times. Milliseconds have 13 digits since 2001. Later
# years would be those of many barcodes, which have 13 digits, too. Seconds are guessed only if a stream has
# no other times, since too many numbers have ten digits.
_TIMES = (Spelling.MILLISECONDS, Spelling.MICROSECONDS)
_FIRST, _LAST = datetime(2001, 9, 10, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)
MOST = 0.9  # the share of values that must fit a type; the others are taken for errors of the producer


@dataclass(frozen=True)
class Inferred:
    """The columns of the rows of a sample.

    Args:
        columns: the types of the columns, in the order in which they occur.
        left_out: the members that cannot be columns, each with the reason.
        missing: the number of rows without a value, of each nullable column.
    """

    columns: dict[str, ColumnType]
    left_out: dict[str, str]
    missing: dict[str, int]


def infer(rows: Sequence[Row], *, nearly_times: bool = False, seconds: bool = False) -> Inferred:
    """Infer the columns of rows.

    Args:
        rows: the rows.
        nearly_times: whether a column is one of timestamps if nearly all values are, though all of them are
            texts or integers. The others are then dead letters, or times of other years.
        seconds: whether integers may be seconds since 1970, too.
    """
    spellings = (*_TIMES, Spelling.SECONDS) if seconds else _TIMES
    found = Inferred({}, {}, {})
    for name in dict.fromkeys(name for row in rows for name in row.values):
        values = [value for row in rows if (value := row.values.get(name)) is not None]
        kind = _time(name, values, MOST if nearly_times else 1.0, spellings) or kind_of(values)
        if reason := _unfit(name, values, kind):
            found.left_out[name] = reason
            continue
        missing = len(rows) - len(values)
        found.columns[name] = replace(kind or ColumnType.STRING, nullable=missing > 0)
        if missing:
            found.missing[name] = missing
    return found


def _unfit(name: str, values: Sequence[Spelled], kind: ColumnType | None) -> str | None:
    """Return the reason why a member cannot be a column; `None` if it can."""
    if not can_name(name):
        return "no name that a column can have"
    if not values:
        return "always null"
    if kind is None:
        nested = sum(value.plain[:1] in "{[" for value in values)
        return "a list, or an object that is empty or too deep" if nested else "values of several types"
    return None


def _time(
    name: str, values: Sequence[Spelled], share: float, spellings: Sequence[Spelling]
) -> ColumnType | None:
    """Return the type of timestamps that a share of the values seem to be; `None` if they seem to be none."""
    if not values or LIKE_A_KEY.fullmatch(name):
        return None
    kinds = [
        *(ColumnType(spelling.values, spelling=spelling) for spelling in spellings),
        ColumnType.TIMESTAMP,
    ]
    least = share * len(values)
    return next((kind for kind in kinds if sum(is_time(value, kind) for value in values) >= least), None)


def is_time(value: Spelled, kind: ColumnType) -> bool:
    """Return whether a value is a timestamp of a type, and of recent years if it is a number."""
    return fits(value, kind) and (kind.spelling is None or _FIRST <= time_of(value, kind) < _LAST)


def time_of(value: Spelled, kind: ColumnType) -> datetime:
    """Return the timestamp that a value spells, which fits the type."""
    if kind.spelling:
        return cast("datetime", kind.spelling.value_of(int(value.plain)))
    return datetime.fromisoformat(json.loads(value.quoted))


def kind_of(values: Sequence[Spelled]) -> ColumnType | None:
    """Return the narrowest type that all values fit, or nearly all if none fits all; `None` without any."""
    kinds = [
        ColumnType.BOOLEAN,
        ColumnType.LONG,
        *_in_digits(values, quoted=False),
        ColumnType.DOUBLE,
        ColumnType.TIMESTAMP,
        ColumnType.DATE,
        *_in_digits(values, quoted=True),
        ColumnType.STRING,
    ]
    best, most = None, math.ceil(MOST * len(values)) - 1
    for kind in kinds:
        fitting = sum(fits(value, kind) for value in values)
        if fitting > max(most, 0):
            best, most = kind, fitting
        if fitting == len(values):
            break
    return best


def fits(value: Spelled, kind: ColumnType) -> bool:
    """Return whether a value can be read as a type."""
    text = value.quoted if kind.spelled in TEXTS else value.plain
    if not re.fullmatch(pattern(kind), text):
        return False
    if kind.spelling:
        return len(text) <= _LONG_DIGITS and kind.spelling.holds(int(text))
    match kind.domain:
        case Domain.LONG:
            return len(text) <= _LONG_DIGITS and -(2**63) <= int(text) < 2**63
        case Domain.DOUBLE:
            return math.isfinite(float(text))
        case Domain.DATE | Domain.TIMESTAMP:
            try:
                from_scalar(json.loads(text), kind.domain)
            except PunctuationError:
                return False
    return True


def _in_digits(values: Sequence[Spelled], *, quoted: bool) -> list[ColumnType]:
    """Return the type of decimals that nearly all values have as decimals, if one of them has a point.

    Args:
        values: the values.
        quoted: whether to look at values in quotes, as in JSON. XML has decimals without any, where they
            come before doubles since they are exact.
    """
    written = [value.quoted for value in values if quoted == (value.quoted == value.plain)]
    found = [_DECIMAL.fullmatch(text) for text in written if text.startswith('"')]
    digits = [(len(each[1].lstrip("0")), len(each[2] or "")) for each in found if each]
    if len(digits) < MOST * len(values) or not any(scale for _, scale in digits):
        return []
    whole, scale = max(whole for whole, _ in digits), max(scale for _, scale in digits)
    if whole + scale > DECIMAL_DIGITS:
        return []
    return [ColumnType.decimal(_USUAL_DIGITS if whole + scale <= _USUAL_DIGITS else DECIMAL_DIGITS, scale)]


def is_rounded(value: Spelled) -> bool:
    """Return whether a value is a number with a point, which a double may round."""
    try:
        return Decimal(value.plain) % 1 != 0
    except ArithmeticError:
        return False
