"""Measures of groups: usual ones, random ones, and each by its definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Measure, Pipeline
from endmark.types import JoinType

Placed = tuple[tuple[Any, ...], Any]  # what rows go by, and a value
_NUMBERS = {
    "bids": ["seller_id", "price", "tip"],
    "items": ["seller_id"],
    "sellers": ["seller_id", "rating"],
}
_OTHERS = {"bids": ["urgent", "note", "due", "bid_at"], "items": ["listed_at"], "sellers": ["name"]}
_OF_ANY = ["min", "max", "first", "last", "count_distinct", "sorted"]
_OF_NO_VALUE = {"count_distinct": 0, "sorted": []}
_OF_NUMBERS = ["sum", "avg", *_OF_ANY]


def usual_measures(lookup: str, kind: JoinType) -> dict[str, Any]:
    measures: dict[str, Any] = {"bids": "count"}
    if kind is not JoinType.SEMI:
        measures |= {"best": {"max": "bids.price"}, "last": {"max": "bids.bid_at"}}
        measures |= {"late": {"max": "bids.due"}, "most": {"max": "bids.tip"}}
    if kind is not JoinType.SEMI or lookup == "items":
        measures |= {"seller": {"max": "sellers.seller_id"}, "name": {"max": "sellers.name"}}
    return measures


def any_measures(lookup: str, kind: JoinType) -> st.SearchStrategy[dict[str, Any]]:
    """A few of all there are."""
    every = every_measure(lookup, kind)
    return st.lists(st.sampled_from(list(every)), min_size=1, max_size=8, unique=True).map(
        lambda names: {name: every[name] for name in names}
    )


def every_measure(lookup: str, kind: JoinType) -> dict[str, Any]:
    """Return each measure of every column of results that may have it."""
    shown = [
        origin
        for origin, stream in (("items", "items"), ("bids", "bids"), ("sellers", lookup))
        if kind is not JoinType.SEMI or stream == "items"
    ]
    found = [
        {function: f"{origin}.{column}"}
        for origin in shown
        for columns, functions in ((_NUMBERS, _OF_NUMBERS), (_OTHERS, _OF_ANY))
        for column in columns[origin]
        for function in functions
    ]
    return {"rows": "count"} | {f"m{number}": measure for number, measure in enumerate(found)}


def measured(pipeline: Pipeline, measure: Measure, rows: list[dict[str, Any]]) -> Any:
    """The measure of a group of these results."""
    if measure.column is None:
        return len(rows)
    origin = measure.column.partition(".")[0]
    column = measure.column.replace(".", "_")
    if column == "sellers_seller_id":
        column = f"{pipeline.stream_of('sellers')}_seller_id"
    stream = pipeline.stream_of(origin)
    names = (pipeline.streams[stream].event_time.column, "kafka_partition", "kafka_offset")
    placed = [
        (tuple(row[f"{stream}_{name}"] for name in names), row[column])
        for row in rows
        if row[column] is not None
    ]
    if not placed:
        return _OF_NO_VALUE.get(measure.function)
    return _FUNCTIONS[measure.function](placed)


def _values(placed: list[Placed]) -> list[Any]:
    return [value for _, value in placed]


def _sum(placed: list[Placed]) -> Any:
    if not all(map(math.isfinite, _values(placed))):
        return None
    total = sum(map(Fraction, _values(placed)))
    if isinstance(placed[0][1], Decimal):
        return Context(prec=38).divide(Decimal(total.numerator), Decimal(total.denominator))
    if isinstance(placed[0][1], float):
        return _double(total)
    return int(total) if -(2**63) <= total < 2**63 else None


def _average(placed: list[Placed]) -> float | None:
    if not all(map(math.isfinite, _values(placed))):
        return None
    return float(sum(map(Fraction, _values(placed)))) / len(placed)


def _double(total: Fraction | int) -> float | None:
    try:
        return float(total)
    except OverflowError:
        return None


_FUNCTIONS: dict[str, Callable[[list[Placed]], Any]] = {
    "sorted": lambda placed: sorted(_values(placed)),
    "count_distinct": lambda placed: len(set(_values(placed))),
    "min": lambda placed: min(_values(placed)),
    "max": lambda placed: max(_values(placed)),
    "first": lambda placed: min(placed)[1],
    "last": lambda placed: max(placed)[1],
    "sum": _sum,
    "avg": _average,
}
