"""Sets of values as spans between cuts, and their one spelling in JSON.

A cut lies between neighbouring values. If the values of a type can be counted, a cut is the number of the
value above it. Otherwise a cut has a value, and 0 if it is below that value or 1 if it is above.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from endmark.domain import Domain
from endmark.types import ColumnType
from endmark.verify.formats.patterns import Bound

Cut = Any  # a number, or a tuple
Span = tuple[Cut, Cut]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=38)
# The number of the first value, and the number behind the last.
_COUNTED = {
    Domain.BOOLEAN: (0, 2),
    Domain.LONG: (-(2**63), 2**63),
    Domain.DATE: (date.min.toordinal(), date.max.toordinal() + 1),
    Domain.TIMESTAMP: (
        (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND,
        (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND + 1,
    ),
}
_UNCOUNTED = ((0,), (2,))


def cut_below(value: Any, kind: ColumnType) -> Cut:
    """Return the cut just below a value."""
    return _cut(value, 0, kind)


def spans_of(bound: Bound, kind: ColumnType) -> list[Span]:
    """Return the values of a bound as ascending spans that do not touch."""
    if bound.among is not None:
        joined: list[Span] = []
        for value in sorted(bound.among):
            low, high = _cut(value, 0, kind), _cut(value, 1, kind)
            if joined and joined[-1][1] == low:
                low = joined.pop()[0]
            joined.append((low, high))
        return joined
    first, behind = _ends(kind)
    low = first if bound.low is None else _cut(bound.low, int(bound.low_open), kind)
    high = behind if bound.high is None else _cut(bound.high, int(not bound.high_open), kind)
    return [(low, high)] if low < high else []


def written(spans: Sequence[Span], kind: ColumnType) -> dict[str, Any]:
    """Return the pattern of a set of values as JSON. Values are spelled as in data records.

    Decimals have no zeros at the end.

    Args:
        spans: the set, ascending and not empty.
        kind: the type of the values.
    """
    if len(spans) > 1:
        return {"one_of": [_spelled(value) for span in spans for value in _values(span, kind)]}
    ((low, high),) = spans
    if low == cut_below(value := _value(low, kind), kind) and high == _cut(value, 1, kind):
        return {"equals": _spelled(value)}
    first, behind = _ends(kind)
    counted = kind.domain in _COUNTED
    ends: dict[str, Any] = {}
    opens: dict[str, bool] = {}
    if low != first:
        ends["from"] = _spelled(value)
        opens |= {} if counted or low[2] == 0 else {"from_open": True}
    if high != behind:
        ends["to"] = _spelled(_value(high - 1 if counted else high, kind))
        opens |= {} if counted or high[2] == 1 else {"to_open": True}
    return {"between": ends | opens}  # the members are in the order of the job's own text


def _ends(kind: ColumnType) -> Span:
    return _COUNTED.get(kind.domain, _UNCOUNTED)


def _cut(value: Any, side: int, kind: ColumnType) -> Cut:
    match kind.domain:
        case Domain.BOOLEAN | Domain.LONG:
            return int(value) + side
        case Domain.DATE:
            return value.toordinal() + side
        case Domain.TIMESTAMP:
            return (value - _EPOCH) // _MICROSECOND + side
    # No text is below the empty text.
    return _UNCOUNTED[0] if value == "" and side == 0 else (1, value, side)


def _value(cut: Cut, kind: ColumnType) -> Any:
    match kind.domain:
        case Domain.BOOLEAN:
            return bool(cut)
        case Domain.LONG:
            return cut
        case Domain.DATE:
            return date.fromordinal(cut)
        case Domain.TIMESTAMP:
            return _EPOCH + cut * _MICROSECOND
    return cut[1] if len(cut) == 3 else ""


def _values(span: Span, kind: ColumnType) -> list[Any]:
    if kind.domain in _COUNTED:
        return [_value(number, kind) for number in range(*span)]
    return [_value(span[0], kind)]


def _spelled(value: Any) -> Any:
    match value:
        case Decimal():
            return format(_EXACT.normalize(value), "f") if value else "0"
        case datetime():
            return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        case date():
            return value.isoformat()
    return value
