"""Patterns applied to whole Arrow columns: the vectorised counterpart of `matches` and `contains`.

No Python runs per row. In a dense domain, rows and bounds are ranked together, and a cut becomes twice the
rank of its value plus its side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.domain import Cut, Domain, PunctuationError, Value
from endmark.punctuation.algebra import Span, normal, spans_of
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

_DOMAINS = {
    pa.bool_(): Domain.BOOLEAN,
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], Domain.LONG),
    pa.float64(): Domain.DOUBLE,
    pa.string(): Domain.STRING,
    pa.date32(): Domain.DATE,
    pa.timestamp("us", "UTC"): Domain.TIMESTAMP,
}
_ANY_DECIMAL = pa.decimal256(76, 38)  # holds every decimal128, and every bound, exactly


def domain_of_type(arrow: pa.DataType) -> Domain:
    """Return the domain of a column's type.

    Raises:
        PunctuationError: no pattern can restrict columns of the type.
    """
    if pa.types.is_decimal128(arrow):
        return Domain.DECIMAL
    if arrow not in _DOMAINS:
        known = ", ".join(map(str, [*_DOMAINS, "decimal128"]))
        raise PunctuationError(f"no pattern speaks of a column of {arrow}; there are {known}")
    return _DOMAINS[arrow]


def matches(pattern: Pattern, array: pa.Array) -> Bools:
    """Return a mask of the values that a pattern matches."""
    domain = domain_of_type(array.type)
    column = _ordered(array, domain)
    match normal(pattern, domain):
        case Anything():
            return np.ones(len(array), bool)
        case Nothing():
            return np.zeros(len(array), bool)
        case Equals(value):
            return _mask(pc.equal(column, pa.scalar(value, column.type)))
        case OneOf(values):
            return _mask(pc.is_in(column, value_set=pa.array(list(values), column.type)))
        case Between() as interval:
            return _between(interval, column)


def matched(patterns: Sequence[Pattern], pieces: Sequence[pa.Array]) -> Bools:
    """Return a mask of the patterns that match some value of a column. None of them is `Anything`.

    Args:
        patterns: the patterns.
        pieces: the values of the column.
    """
    if not pieces:
        return np.zeros(len(patterns), bool)
    domain = domain_of_type(pieces[0].type)
    if domain.discrete:
        return _spans_with_values([spans_of(pattern, domain) for pattern in patterns], pieces, domain)
    values = pc.unique(pa.chunked_array(pieces))
    ordered, found = _ordered(values, domain), np.zeros(len(patterns), bool)
    constants: dict[int, Value] = {}
    for at, pattern in enumerate(patterns):
        match normal(pattern, domain):
            case Equals(value):
                constants[at] = value
            case other:
                found[at] = matches(other, values).any()
    listed = pa.array(list(constants.values()), ordered.type)
    found[list(constants)] = _mask(pc.is_in(listed, value_set=ordered))
    return found


def _spans_with_values(lists: Sequence[Sequence[Span]], pieces: Sequence[pa.Array], domain: Domain) -> Bools:
    """Return a mask of the lists of spans in which there is a value of a discrete domain.

    The values between every two cuts are counted. To compare 5,000 patterns with 5,000 values took 0.2 s.
    """
    owners = np.repeat(np.arange(len(lists)), [len(spans) for spans in lists])
    lows = np.array([low for spans in lists for low, _ in spans], np.int64)
    lasts = np.array([high - 1 for spans in lists for _, high in spans], np.int64)
    edges = np.unique(np.concatenate([lows, lasts[lasts < domain.top - 1] + 1]))  # the top cut is no int64
    counts = np.zeros(len(edges) + 1, np.int64)
    for piece in pieces:
        values = _ordinals(_ordered(piece.drop_null(), domain), domain)
        counts += np.bincount(np.searchsorted(edges, values, "right"), minlength=len(counts))
    below = np.cumsum(counts)  # the number of values below each edge, and then of all
    filled = below[np.searchsorted(edges, lasts, "right")] > below[np.searchsorted(edges, lows)]
    found = np.zeros(len(lists), bool)
    found[owners[filled]] = True
    return found


def contains_all(ranges: Ranges, array: pa.Array) -> Bools:
    """Return a mask of the values that are in a punctuated range."""
    _require(ranges.domain, array)
    if ranges.everything:
        return np.ones(len(array), bool)
    return _locate(ranges.spans(), array) >= 0


def _locate(spans: Iterable[Span], array: pa.Array) -> Ints:
    """Return the position of the span of each value, or -1 for none. Spans ascend and do not overlap."""
    domain = domain_of_type(array.type)
    column = _ordered(array, domain)
    cuts = [cut for span in spans for cut in span]
    if not cuts:
        return np.full(len(array), -1, np.int64)
    if domain.discrete:
        rows = _ordinals(column, domain)
        lows = np.array(cuts[::2], np.int64)
        lasts = np.array([high - 1 for high in cuts[1::2]], np.int64)  # the top cut of longs is no int64
    else:
        rows, bounds = _positions(column, cuts)
        lows, lasts = bounds[::2], bounds[1::2] - 1
    at = np.searchsorted(lows, rows, "right") - 1  # -1 below all spans, which is also the answer for them
    inside = _mask(column.is_valid()) & (rows <= lasts[at])
    return np.where(inside, at, -1)


def _positions(column: pa.Array, cuts: list[Cut]) -> tuple[Ints, Ints]:
    """Numbers that stand for the rows and cuts of a dense domain and compare like them."""
    values = [cut[1] for cut in cuts if len(cut) == 3]
    together = pa.concat_arrays([column, pa.array(values, column.type)])
    twice = 2 * pc.rank(together, tiebreaker="dense").to_numpy().astype(np.int64)
    ranked = iter(twice[len(column) :].tolist())
    ends = {-1: -1, 1: 2 * len(together) + 2}  # the cuts below and above all values
    bounds = [next(ranked) + cut[2] if len(cut) == 3 else ends[cut[0]] for cut in cuts]
    return twice[: len(column)], np.array(bounds, np.int64)


def _ordered(array: pa.Array, domain: Domain) -> pa.Array:
    """The column in the form that patterns compare: no NaN, no -0.0, integers and decimals of one type."""
    if domain is Domain.DOUBLE:
        array = pc.if_else(pc.is_nan(array), None, array)
        return pc.add(array, 0.0)
    widest = {Domain.LONG: pa.int64(), Domain.DECIMAL: _ANY_DECIMAL}
    return array.cast(widest[domain]) if domain in widest else array


def _ordinals(array: pa.Array, domain: Domain) -> Ints:
    """Return `Domain.below` of each value, and 0 for null."""
    days = array.cast(pa.int32()) if domain is Domain.DATE else array
    ordinals: Ints = pc.fill_null(days.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return ordinals


def _between(interval: Between, column: pa.Array) -> Bools:
    inside = _mask(column.is_valid())
    if interval.low is not None:
        reaches_down = pc.greater if interval.low_open else pc.greater_equal
        inside &= _mask(reaches_down(column, pa.scalar(interval.low, column.type)))
    if interval.high is not None:
        reaches_up = pc.less if interval.high_open else pc.less_equal
        inside &= _mask(reaches_up(column, pa.scalar(interval.high, column.type)))
    return inside


def _mask(booleans: pa.Array) -> Bools:
    return np.array(pc.fill_null(booleans, False).to_numpy(zero_copy_only=False), dtype=bool)


def _require(domain: Domain, array: pa.Array) -> None:
    if domain_of_type(array.type) is not domain:
        raise PunctuationError(f"the attribute is {domain.value}, its column {array.type}")
