"""Conditions: what is one over the columns of a row, or of two, and for which rows it holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from endmark.errors import ConfigError
from endmark.expressions.condition import Condition

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
    assert residual.ask(pairs).holds.tolist() == [True, False, False, True]
    assert residual.ask(pairs.slice(0, 0)).holds.tolist() == []


def test_columns_are_spelled_as_in_the_table() -> None:
    """SQL does not tell capitals from small letters."""
    residual = Condition.of("ITEMS_NAME like 'a%' or items_name is null", SCHEMA)

    assert residual.columns == ("items_Name",)
    assert residual.ask(pa.record_batch({"items_Name": ["ab", "b", None]})).holds.tolist() == [
        True,
        False,
        True,
    ]


def test_time_is_utc() -> None:
    """Dates and hours of a timestamp are those of UTC, wherever the job runs."""
    residual = Condition.of("date_part('hour', bids_at) = 23 and bids_at < '2026-01-02'", SCHEMA)
    times = [datetime(2026, 1, 1, 23, 30, tzinfo=UTC), datetime(2026, 1, 2, 0, 30, tzinfo=UTC)]

    assert residual.ask(pa.record_batch({"bids_at": times})).holds.tolist() == [True, False]


def test_a_column_that_is_a_word_of_sql_is_to_be_quoted() -> None:
    schema = pa.schema([("At", pa.timestamp("us", "UTC"))])
    with pytest.raises(ConfigError, match='; write one SQL expression, and column At as "At", since SQL has'):
        Condition.of("year(at) > 2000", schema)
    assert Condition.of('year("At") > 2000', schema).columns == ("At",)


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ("bids_price >", "where: Parser Error"),
        ("", "where: Parser Error"),
        ("bids_price > 1, items_day > '2026-01-01'", "where: .*single expression"),
        ("bids_price > 1; drop table x", "where: Parser Error"),
        ("bids_price > 1) or (items_day is null", "where: Parser Error"),
        ("bids_amount > 1", "no column 'bids_amount'; there are bids_price, items_start_price"),
        ("current_date > items_day", "no column 'current_date'"),
        ("bids_price + 1", "is of type DECIMAL.*must be a condition"),
        ("items_name > 1 and items_day > 1", "where: Binder Error"),
        ("true", "names no column"),
        ("bids_price > random()", "'random' is no function that depends on its arguments alone"),
        ("bids_at < now()", "'now' is no function"),
        ("bids_at < current_localtimestamp()", "'current_localtimestamp' is no function"),
        ("age(bids_at) > interval 1 day", "'age' of one time .* write age\\(one, other\\)"),
        ("items_name = current_setting('TimeZone')", "'current_setting' is no function"),
        ("nextval(items_name) > 1", "'nextval' is no function"),
        ("max(bids_price) > 1", "'max' is no function"),
        ("sum(bids_price) over () > 1", "a window is not allowed"),
        ("bids_price > (select 1)", "a subquery is not allowed"),
        ("exists (from read_text('/etc/hostname')) and bids_price > 1", "a subquery is not allowed"),
        ("columns(*) is not null", "a star is not allowed"),
        ("#1 > 2", "a positional reference is not allowed"),
        ("bids_price > ?", "where: "),
        *((" + ".join(["bids_price"] * terms) + " > 0", "200 levels deep; set") for terms in (250, 600, 950)),
    ],
)
def test_nothing_else_is_a_condition(condition: str, complaint: str) -> None:
    """Whatever is no boolean expression of the columns of a pair is refused, and the field is named."""
    with pytest.raises(ConfigError, match=complaint) as caught:
        Condition.of(condition, SCHEMA)
    assert str(caught.value).startswith("where: ")


def test_a_condition_may_nest() -> None:
    """Terms that are added up nest; those joined by `and` do not."""
    sums = " + ".join(["a"] * 190)
    condition = Condition.of(" and ".join([f"{sums} > 0", *["a > 1"] * 1000]), pa.schema([("a", pa.int64())]))
    assert condition.ask(pa.record_batch({"a": [1, 2]})).holds.tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("a + b > 0", [3, 5000]),
        ("a > 0 or a + b > 0", [3, 5000]),  # whatever the other part says
        ("a + 1 > 0 and a + 1 < 9", [3]),  # which a rule of the optimizer would mend, another one spoil
        ("case when b <> 7 then coalesce(a + b > 0, b = 1) else false end", [3, 5000]),
        ("cast(case when a = 5 then 'x' else '1' end as integer) = 1", [5]),
    ],
)
def test_it_fails_row_by_row(text: str, fails: list[int]) -> None:
    """It is not true of a row on which it fails, and no other row has a part in that."""
    greatest = 2**63 - 1
    a = [*range(3), greatest, *range(4, 5000), 5000, *range(5001, 6000)]
    b = [1] * 5000 + [greatest] + [1] * 999
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    rows = pa.record_batch({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64())})
    condition = Condition.of(text, schema)

    answer = condition.ask(rows)

    assert answer.failed.tolist() == fails
    assert answer.why.startswith(
        ("Out of Range Error: Overflow", "Conversion Error: Could not convert string 'x'")
    )
    for at in (0, 1, 3, 4, 5, 6, 2047, 2048, 4999, 5000, 5001):
        alone = condition.ask(rows.slice(at, 1))
        assert (alone.holds.tolist(), len(alone.failed)) == ([answer.holds[at]], at in fails)
    assert not answer.holds[fails].any()


def test_threads_do_not_disturb_each_other() -> None:
    """Several queries may start at once."""

    def check(number: int) -> bool:
        condition = Condition.of(f"n = {number}", pa.schema([("n", pa.int64())]))
        rows = pa.record_batch({"n": pa.array([number, number + 1])})
        return condition.columns == ("n",) and condition.ask(rows).holds.tolist() == [True, False]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(400)))
