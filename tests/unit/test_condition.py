"""Conditions: what is one over the columns of a row, or of two, and for which rows it holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from endmark.condition import Condition
from endmark.errors import ConfigError

SCHEMA = pa.schema(
    [
        ("bids_price", pa.decimal128(18, 2)),
        ("items_start_price", pa.decimal128(18, 2)),
        ("items_Name", pa.string()),
        ("bids_at", pa.timestamp("us", "UTC")),
        ("items_day", pa.date32()),
    ]
)


def test_only_true_holds() -> None:
    """False and unknown do not; pairs keep their order."""
    residual = Condition.of("bids_price >= items_start_price -- enough", SCHEMA)
    prices = [Decimal("3.00"), Decimal("1.00"), None, Decimal("2.00")]
    columns = {"bids_price": prices, "items_start_price": [Decimal("2.00")] * 4}
    pairs = pa.record_batch({name: pa.array(columns[name], pa.decimal128(18, 2)) for name in columns})

    assert residual.columns == ("bids_price", "items_start_price")
    assert residual.holds(pairs).tolist() == [True, False, False, True]
    assert residual.holds(pairs.slice(0, 0)).tolist() == []


def test_columns_are_spelled_as_in_the_table() -> None:
    """SQL does not tell capitals from small letters."""
    residual = Condition.of("ITEMS_NAME like 'a%' or items_name is null", SCHEMA)

    assert residual.columns == ("items_Name",)
    assert residual.holds(pa.record_batch({"items_Name": ["ab", "b", None]})).tolist() == [True, False, True]


def test_time_is_utc() -> None:
    """Dates and hours of a timestamp are those of UTC, wherever the job runs."""
    residual = Condition.of("date_part('hour', bids_at) = 23 and bids_at < '2026-01-02'", SCHEMA)
    times = [datetime(2026, 1, 1, 23, 30, tzinfo=UTC), datetime(2026, 1, 2, 0, 30, tzinfo=UTC)]

    assert residual.holds(pa.record_batch({"bids_at": times})).tolist() == [True, False]


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ("bids_price >", "join.where: Parser Error"),
        ("", "join.where: Parser Error"),
        ("bids_price > 1, items_day > '2026-01-01'", "join.where: .*single expression"),
        ("bids_price > 1; drop table x", "join.where: Parser Error"),
        ("bids_price > 1) or (items_day is null", "join.where: Parser Error"),
        ("bids_amount > 1", "no column 'bids_amount'; there are bids_price, items_start_price"),
        ("current_date > items_day", "no column 'current_date'"),
        ("bids_price + 1", "is of type DECIMAL.*must be a condition"),
        ("items_name > 1 and items_day > 1", "join.where: Binder Error"),
        ("true", "names no column"),
        ("bids_price > random()", "'random' is no function that depends on its arguments alone"),
        ("bids_at < now()", "'now' is no function"),
        ("nextval(items_name) > 1", "'nextval' is no function"),
        ("max(bids_price) > 1", "'max' is no function"),
        ("sum(bids_price) over () > 1", "a window is not allowed"),
        ("bids_price > (select 1)", "a subquery is not allowed"),
        ("exists (from read_text('/etc/hostname')) and bids_price > 1", "a subquery is not allowed"),
        ("columns(*) is not null", "a star is not allowed"),
        ("#1 > 2", "a positional reference is not allowed"),
        ("bids_price > ?", "join.where: "),
    ],
)
def test_nothing_else_is_a_condition(condition: str, complaint: str) -> None:
    """Whatever is no boolean expression of the columns of a pair is refused, and the field is named."""
    with pytest.raises(ConfigError, match=complaint) as caught:
        Condition.of(condition, SCHEMA)
    assert str(caught.value).startswith("join.where: ")


def test_what_cannot_be_asked_stops() -> None:
    """A value that the condition chokes on is an error that names the field, not a pair left out."""
    residual = Condition.of("cast(items_name as integer) > 1", SCHEMA)

    with pytest.raises(ConfigError, match=r"join\.where: Conversion Error.*all rows"):
        residual.holds(pa.record_batch({"items_Name": ["2", "two"]}))


def test_threads_do_not_disturb_each_other() -> None:
    """As when several queries are started at once."""

    def check(number: int) -> bool:
        condition = Condition.of(f"n = {number}", pa.schema([("n", pa.int64())]))
        rows = pa.record_batch({"n": pa.array([number, number + 1])})
        return condition.columns == ("n",) and condition.holds(rows).tolist() == [True, False]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(400)))
