"""Derived times: which expressions count, and the bounds that an event time gives them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.expressions.derived_times import DerivedTimes, TimeBound
from endmark.expressions.row_steps import RowStep
from endmark.punctuation.pattern import Between, Nothing
from endmark.types import ColumnType

COLUMNS = {"at": ColumnType.TIMESTAMP, "sent": ColumnType.TIMESTAMP, "n": ColumnType.LONG}
RISING = [
    "date_trunc('minute', \"at\")",
    "datetrunc('week', \"at\")",
    "date_trunc('month', date_trunc('day', \"at\"))",
    'time_bucket(INTERVAL 15 MINUTES, "at")',
    "time_bucket(INTERVAL '7 days', \"at\", TIMESTAMPTZ '2026-01-03 00:00:00+00')",
    'time_bucket(INTERVAL 1 HOUR, "at", INTERVAL 5 MINUTES)',
    'time_bucket(INTERVAL 1 MONTH, "at")',
    "time_bucket(INTERVAL '1 day', \"at\", 'Europe/Berlin')",
    'CAST("at" AS DATE)',
    '"at"::DATE + 1',
    '"at" + 3 * INTERVAL 1 DAY',
    'INTERVAL 1 HOUR + "at"',
    '"at" - INTERVAL 1 DAY',
    'date_add("at", INTERVAL 3 DAY)',
    '"at"',
]
OTHERS = [
    "date_trunc('minute', sent)",  # another time than the event time
    "TIMESTAMPTZ '2026-01-01 00:00:00+00' + (TIMESTAMPTZ '2026-01-01 00:00:00+00' - \"at\")",  # it falls
    '"at" + INTERVAL (n) HOUR',
    '"at" + ("at" - "at")',
    # One month behind 30 January, 23:00, is 28 February, 23:00, and that behind 31 January, 1:00, is earlier.
    '"at" + INTERVAL 1 MONTH',
    "INTERVAL '1 year 2 hours' + \"at\"",
    '"at" - 2 * INTERVAL 6 MONTHS',
    'date_add("at", INTERVAL 1 MONTH)',
    "\"at\" + '1 month'",
    'time_bucket(INTERVAL 1 HOUR, "at", INTERVAL 1 MONTH)',
    '"at" + INTERVAL 1 DAY * (9223372036854775807 + 1)',  # it fails on each row
    'CASE WHEN "at" > TIMESTAMPTZ \'2026-01-01 00:00:00+00\' THEN NULL ELSE "at" END',
    'TRY_CAST("at" AS DATE)',
    'CAST(CAST("at" AS VARCHAR) AS DATE)',
    'make_date(2026, month("at"), 1)',
    'hour("at")',  # no time
    "DATE '2026-01-01'",
]
_DAY = 86_400_000_000
TIMES = st.integers(Domain.TIMESTAMP.bottom + 500 * _DAY, Domain.TIMESTAMP.top - 500 * _DAY)


def times_of(**derive: str) -> DerivedTimes | None:
    step = RowStep.of("timed", COLUMNS, derive=derive)
    return DerivedTimes.of("at", [[step]], {column: f"orders_{column}" for column in derive})


def micros(written: str) -> int:
    return int(datetime.fromisoformat(f"{written}+00:00").timestamp()) * 1_000_000


@pytest.mark.parametrize("text", RISING)
def test_an_expression_that_never_falls_counts(text: str) -> None:
    found = times_of(column=text)

    assert found is not None
    assert [name for _, name in found.names] == ["orders_column"]


@pytest.mark.parametrize("text", OTHERS)
def test_any_other_expression_does_not_count(text: str) -> None:
    assert times_of(column=text) is None


@given(
    one=TIMES,
    later=st.one_of(st.integers(0, 2 * _DAY), st.integers(0, 400 * _DAY)),
    text=st.sampled_from(RISING),
)
def test_a_bound_never_falls(one: int, later: int, text: str) -> None:
    """The values that DuckDB gives for two times are in the order of the times, also if these are near."""
    found = times_of(column=text)
    assert found is not None
    first, second = (found.bounds(time)["orders_column"].cut for time in (one, one + later))

    assert first <= second


def test_a_bound_rules_out_the_values_before_that_of_its_time() -> None:
    found = times_of(minute=RISING[0], day='CAST("at" AS DATE)')
    assert found is not None

    bounds = found.bounds(micros("2026-01-02T12:00:59"))

    assert bounds["orders_minute"].pattern == Between(high=datetime(2026, 1, 2, 11, 59, 59, 999_999, UTC))
    assert bounds["orders_day"].pattern == Between(high=date(2026, 1, 1))
    assert bounds["orders_day"].written == {"between": {"to": "2026-01-01"}}


@pytest.mark.parametrize("time", [-(1 << 62), Domain.TIMESTAMP.bottom - 1, Domain.TIMESTAMP.top, 1 << 62])
def test_a_time_outside_of_the_years_1_to_9999_rules_out_nothing(time: int) -> None:
    found = times_of(minute=RISING[0])
    assert found is not None

    (bound,) = found.bounds(time).values()

    assert bound == TimeBound(Domain.TIMESTAMP.bottom, Domain.TIMESTAMP)
    assert bound.pattern == Nothing()


def test_a_value_that_no_row_could_have_rules_out_nothing() -> None:
    """The interval leads out of the years that a record could bring."""
    found = times_of(later='"at" + INTERVAL 365 DAYS', day='CAST("at" AS DATE)')
    assert found is not None

    bounds = found.bounds(micros("9999-06-01"))

    assert bounds["orders_later"].pattern == Nothing()
    assert bounds["orders_day"].pattern == Between(high=date(9999, 5, 31))


def test_a_derived_time_of_a_derived_time_counts() -> None:
    first = RowStep.of("first", COLUMNS, derive={"minute": RISING[0]}, drop=["sent"])
    second = RowStep.of("second", first.columns, derive={"day": "CAST(minute AS DATE)"}, drop=["minute"])

    found = DerivedTimes.of("at", [[first, second]], {"day": "orders_day", "minute": "orders_minute"})

    assert found is not None
    assert found.names == (("day", "orders_day"),)
    assert found.bounds(micros("2026-01-02T12:00"))["orders_day"].pattern == Between(high=date(2026, 1, 1))


def test_a_column_that_takes_the_name_of_a_lost_derived_time_does_not_count() -> None:
    first = RowStep.of("first", COLUMNS, derive={"minute": RISING[0]})
    second = RowStep.of("second", first.columns, drop=["minute"])
    third = RowStep.of("third", second.columns, derive={"minute": "sent"})

    assert DerivedTimes.of("at", [[first, second, third]], {"minute": "orders_minute"}) is None
