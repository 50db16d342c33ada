"""Row steps on whole batches, against DuckDB on one row at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from endmark.expressions.row_steps import RowStep, Stepped, run
from endmark.types import ColumnType
from support.cases import cases

COLUMNS = {
    "n": ColumnType.parse("long?"),
    "m": ColumnType.LONG,
    "price": ColumnType.parse("decimal(18,2)?"),
    "word": ColumnType.parse("string?"),
    "rate": ColumnType.parse("double?"),
    "day": ColumnType.parse("date?"),
    "moment": ColumnType.parse("timestamp?"),
}
SCHEMA = pa.schema([(name, kind.arrow) for name, kind in COLUMNS.items()])
LONGS = [0, 1, -1, 7, 2**31, 2**62, 2**63 - 1, -(2**63)]
VALUES: dict[str, list[Any]] = {
    "n": [None, *LONGS],
    "m": LONGS,
    "price": [None, Decimal("0.01"), Decimal("-1.50"), Decimal("9999999999999999.99")],
    "word": [None, "", "12", "x", "ß long enough to be kept outside of its vector", "9" * 30, "2026-02-30"],
    "rate": [None, 0.0, -0.0, 1.5, 1e308, -1e-320],
    "day": [None, date.min, date(2026, 2, 28), date.max],
    "moment": [
        None,
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 23, 59, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
}
WHERE = [
    None,
    "n <> 7",
    "n + m <> 0",
    "price * 2 > 0 OR n IS NULL",
    "CAST(word AS BIGINT) < 100",
    "CASE WHEN n > 1 THEN n + m > 0 ELSE true END",
    "coalesce(n, m + m) <> 1",
    "day + 1 > DATE '2000-01-01'",
]
DERIVE = [
    "n + m",
    "-n",
    "n * 2 - m",
    "n // m",
    "n % m",
    "n / m",
    "price * 1.19",
    "CAST(price * 1000 AS INTEGER)",
    "CAST(n AS TINYINT)",
    "CAST(word AS BIGINT) + 1",
    "CAST(word AS DATE)",
    "word || '/' || upper(word) || CAST(CAST(word AS INTEGER) AS VARCHAR)",
    "repeat(word, 3) || CAST(n + 1 AS VARCHAR)",
    "CASE WHEN n > 1 THEN word || CAST(n + m AS VARCHAR) ELSE lower(word) END",
    "coalesce(CAST(n + m AS VARCHAR), word)",
    "nullif(word, 'x')",
    "nullif(CAST(n + m AS VARCHAR), word)",
    "split_part(word, '-', CAST(n + 1 AS INTEGER))",
    "rate * 10",
    "rate / n",
    "sqrt(rate)",
    "CAST(rate AS BIGINT)",
    "day + 1",
    "CAST(moment AS DATE)",
    "moment + INTERVAL 1 DAY",
    "date_trunc('month', moment)",
    "date_part('year', moment)",
    "strftime(day, '%d.%m.%Y')",
    "word IS NULL AND n + 1 > m",
    "'constant'",
]


@cases(13)
@given(data=st.data())
def test_a_batch_is_its_rows_one_by_one(data: st.DataObject) -> None:
    """The step gives the same whether it takes rows one by one or in a batch: the rows that are left, their
    values to the last digit, the rows that fail, and the expression by which they do."""
    rows = data.draw(
        st.lists(
            st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}),
            min_size=1,
            max_size=12,
        )
    )
    where = data.draw(st.sampled_from(WHERE))
    derive = data.draw(st.lists(st.sampled_from(DERIVE), min_size=1, max_size=3, unique=True))
    step = RowStep.of("s", COLUMNS, where=where, derive={f"d{at}": text for at, text in enumerate(derive)})
    times = data.draw(st.sampled_from([1, 1, 1, 700]))  # rows of several of DuckDB's vectors

    found = run([step], pa.RecordBatch.from_pylist(rows * times, SCHEMA))

    assert _shown(found) == [_alone(step, row) for row in rows] * times


def _shown(found: Stepped) -> list[Any]:
    """For each row its derived values, `filtered`, or the field of the expression that failed."""
    fates: dict[int, Any] = {failure.at: failure.error.partition(":")[0] for failure in found.failures}
    derived = found.rows.select([name for name in found.rows.schema.names if name not in COLUMNS])
    fates |= {
        int(at): [(str(field.type), repr(row[field.name])) for field in derived.schema]
        for at, row in zip(found.at, derived.to_pylist(), strict=True)
    }
    size = len(fates) + sum(found.filtered.values())
    return [fates.get(at, "filtered") for at in range(size)]


def _alone(step: RowStep, row: dict[str, Any]) -> Any:
    with duckdb.connect(config={"threads": 1}) as alone:
        alone.execute("SET TimeZone = 'UTC'")
        alone.execute("PRAGMA disable_optimizer")
        one = pa.Table.from_pylist([row], SCHEMA)
        alone.register("one", one)
        if step.where is not None:
            try:
                held = alone.execute(f"SELECT {step.where.text} FROM one").fetchone()  # noqa: S608
            except duckdb.Error:
                return "steps.s.where"
            if held != (True,):
                return "filtered"
        values = []
        for name, derivation in step.derived.items():
            text, kind = derivation.expression.text, derivation.kind
            try:
                value = alone.execute(f"SELECT {text} AS v FROM one").to_arrow_table().column("v")  # noqa: S608
                (plain,) = value.cast(kind.arrow).to_pylist()
            except (duckdb.Error, OverflowError, ValueError):  # Python has no times of other years
                return f"steps.s.derive.{name}"
            if isinstance(plain, float) and plain - plain != 0:
                return f"steps.s.derive.{name}"
            values.append((str(kind.arrow), repr(plain)))
        return values
