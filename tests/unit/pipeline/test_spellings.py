"""Columns that records spell as numbers: their spelling goes no further than the records."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from endmark.domain import Domain, PunctuationError
from endmark.pipeline import Pipeline
from endmark.pipeline.chain import chained
from endmark.pipeline.sources import Stream
from endmark.types import ColumnType, Spelling
from support.numbers import LIMITS

_ORDERS = {
    "id": "int",
    "made_at": "timestamp(us)",
    "day": "date(days)",
    "rate": "float?",
    "at": "timestamp(ms)",
}
_PAYMENTS = {"id": "long", "made_at": "timestamp", "day": "date", "rate": "double", "at": "timestamp(s)"}


def shop(**steps: Any) -> Pipeline:
    """Two streams, whose columns are alike but for their spelling."""
    return Pipeline.model_validate(
        {
            "name": "shop",
            "streams": {
                name: {
                    "topic": name,
                    "columns": columns,
                    "event_time": {"column": "at"},
                    "punctuated_on": ["id", "made_at", "day"],
                }
                for name, columns in (("orders", _ORDERS), ("payments", _PAYMENTS))
            },
            "steps": steps,
            "tables": {next(reversed(steps)): {}},
            "publish": {next(reversed(steps)): {"topic": "results"}},
        }
    )


def test_results_and_what_is_published_have_the_usual_types() -> None:
    pipeline = shop(matched={"join": ["orders", "payments"], "on": ["id", "made_at", "day"], "window": "1h"})
    usual = {"id": "long", "made_at": "timestamp", "day": "date", "rate": "double", "at": "timestamp"}
    columns = {name: str(kind) for name, kind in pipeline.result_columns().items()}

    assert (
        columns.items()
        >= {
            f"{stream}_{name}": kind for stream in ("orders", "payments") for name, kind in usual.items()
        }.items()
    )
    assert all(kind.spelling is None for kind in pipeline.key_types.values())
    assert "timestamp(" not in str(chained(pipeline, None, timedelta(0)).entry)


def test_streams_of_one_union_may_have_different_spellings() -> None:
    columns = shop(all={"union": ["orders", "payments"]}).stream_columns("all")

    assert {name: str(kind) for name, kind in columns.items()} == {
        "id": "long",
        "made_at": "timestamp",
        "day": "date",
        "rate": "double?",
        "at": "timestamp",
    }


def test_expressions_see_the_usual_types() -> None:
    pipeline = shop(
        early={
            "from": "orders",
            "where": "made_at < TIMESTAMPTZ '2026-01-01 00:00:00+00' AND day < DATE '2026-01-01'",
            "derive": {"hour": "date_trunc('hour', made_at)"},
        },
        matched={"join": ["early", "payments"], "on": "id", "window": "1h"},
    )

    assert str(pipeline.result_columns()["orders_hour"]) == "timestamp"


@pytest.mark.parametrize("column", ["day", "id"])
def test_an_event_time_is_a_timestamp(column: str) -> None:
    with pytest.raises(ValidationError, match=r"column .* but must be timestamp"):
        Stream.model_validate({"topic": "t", "columns": _ORDERS, "event_time": {"column": column}})


@pytest.mark.parametrize("spelling", [each for each in Spelling if each in LIMITS])
@given(data=st.data())
def test_numbers_and_values_are_one_to_one(spelling: Spelling, data: st.DataObject) -> None:
    """A number in range has a value of which it is the number, and the order is the same."""
    least, greatest = LIMITS[spelling]
    number, other = (data.draw(st.integers(least, greatest)) for _ in range(2))

    assert spelling.number_of(spelling.value_of(number)) == number
    assert (spelling.value_of(number) < spelling.value_of(other)) == (number < other)  # type: ignore[operator]
    for beyond in (least - 1, greatest + 1):
        with pytest.raises(PunctuationError, match="out of the range"):
            spelling.value_of(beyond)


def test_no_time_is_rounded() -> None:
    between = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    with pytest.raises(PunctuationError, match=r"between two values of timestamp\(ms\); round it first"):
        Spelling.MILLISECONDS.number_of(between)

    assert Spelling.MILLISECONDS.floor(between) == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)
    assert Spelling.MICROSECONDS.number_of(between) == -1
    assert Spelling.DAYS.number_of(date(1969, 12, 31)) == -1


def test_a_type_is_written_as_it_is_read() -> None:
    for text in ("timestamp(ms)?", "date(days)", "int", "float?"):
        assert str(ColumnType.parse(text)) == text
    assert ColumnType.parse("float").domain is Domain.DOUBLE
    for text in ("timestamp(ns)", "timestamp( ms )", "date(ms)", "INT"):
        with pytest.raises(ValueError, match="is not one of"):
            ColumnType.parse(text)
