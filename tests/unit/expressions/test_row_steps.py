"""Row steps: which rows are left, what is derived, what fails, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from endmark.errors import ConfigError
from endmark.expressions.row_steps import RowStep, run
from endmark.types import ColumnType

COLUMNS = {
    "order_id": ColumnType.LONG,
    "total": ColumnType.parse("decimal(18,2)"),
    "note": ColumnType.parse("string?"),
    "ordered_at": ColumnType.TIMESTAMP,
}
GREATEST = 2**63 - 1


def orders(*ids: int, note: str | None = None) -> pa.RecordBatch:
    rows = [
        {
            "order_id": each,
            "total": Decimal(each % 100),
            "note": note,
            "ordered_at": datetime(2026, 1, 1, 23, tzinfo=UTC),
        }
        for each in ids
    ]
    return pa.RecordBatch.from_pylist(rows, pa.schema([(name, kind.arrow) for name, kind in COLUMNS.items()]))


def test_a_chain_of_steps() -> None:
    """Each step sees the columns of the one before; positions are those of the first rows."""
    priced = RowStep.of(
        "priced",
        COLUMNS,
        where="total > 1",
        derive={"gross": "total * 1.19", "day": "cast(ordered_at as date)"},
        drop=["note"],
    )
    dear = RowStep.of("dear", priced.columns, where="gross < 4", select=["gross", "order_id"])

    found = run([priced, dear], orders(1, 2, 3, 4))

    assert found.rows.to_pylist() == [
        {"gross": Decimal("2.3800"), "order_id": 2},
        {"gross": Decimal("3.5700"), "order_id": 3},
    ]
    assert found.at.tolist() == [1, 2]
    assert found.filtered == {"priced": 1, "dear": 1}
    assert not found.failures


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("order_id + 1", "long?"),
        ("cast(1 as utinyint)", "long?"),
        ("null", "long?"),
        ("order_id / 2", "double?"),
        ("total * 1.19", "decimal(18,4)?"),
        ("lower(note) || 'x'", "string?"),
        ("note is null", "boolean?"),
        ("cast(ordered_at as date)", "date?"),
        ("date_trunc('day', ordered_at)", "timestamp?"),
    ],
)
def test_types_are_inferred(text: str, kind: str) -> None:
    """A derived column may be null, and its values have the type that is inferred."""
    step = RowStep.of("x", COLUMNS, derive={"found": text})

    rows = run([step], orders(1, 2)).rows

    assert str(step.columns["found"]) == kind
    assert rows.schema.field("found").type == step.columns["found"].arrow
    assert rows.num_rows == 2
    assert run([step], orders()).rows.schema == rows.schema


def test_failing_rows_are_named() -> None:
    """A row fails once, by the first expression that fails on it; `where` comes first, and others go on."""
    step = RowStep.of(
        "s",
        COLUMNS,
        where="order_id + 1 <> 3",
        derive={"a": "order_id * 2", "b": f"cast(order_id + {GREATEST - 8} as bigint)"},
    )

    found = run([step], orders(GREATEST, 2**62, 1, 2, 9, 3))

    assert found.rows.column("order_id").to_pylist() == [1, 3]
    assert (found.at.tolist(), found.filtered) == ([2, 5], {"s": 1})
    assert [(failure.at, failure.error.split(": ")[0]) for failure in found.failures] == [
        (0, "steps.s.where"),
        (1, "steps.s.derive.a"),
        (4, "steps.s.derive.b"),
    ]
    assert "Overflow" in found.failures[0].error


@pytest.mark.parametrize(
    "text",
    [
        "cast(order_id as double) * 1e308 * 10",
        "cast('nan' as double) + order_id",
        "cast('infinity' as date)",
        "cast('-infinity' as timestamptz)",
        "cast('10000-01-01' as date)",
        "cast('0001-01-01 (BC)' as date)",
    ],
)
def test_values_that_no_record_could_bring(text: str) -> None:
    """They fail, and the error says so."""
    found = run([RowStep.of("s", COLUMNS, derive={"x": text})], orders(1))

    assert found.rows.num_rows == 0
    assert found.failures[0].error.startswith("steps.s.derive.x: ")
    assert "the value is" in found.failures[0].error


def test_dates_of_all_years() -> None:
    """The first and the last day that a record could bring are fine, and so is null."""
    texts = ["0001-01-01", "9999-12-31"]
    derive = {f"d{at}": f"cast('{text}' as date)" for at, text in enumerate(texts)}
    derive["last"] = "cast('9999-12-31 23:59:59.999999' as timestamptz)"
    derive["none"] = "cast(null as date)"

    (row,) = run([RowStep.of("s", COLUMNS, derive=derive)], orders(1)).rows.to_pylist()

    assert [str(row["d0"]), str(row["d1"]), row["none"]] == [*texts, None]
    assert row["last"] == datetime.max.replace(tzinfo=UTC)


def test_many_failures_take_no_long_time() -> None:
    """Only the first ones are asked for their own error."""
    step = RowStep.of("s", COLUMNS, derive={"x": f"order_id + {GREATEST}"})

    failures = run([step], orders(*range(1, 5000))).failures

    assert len(failures) == 4999
    assert "Overflow" in failures[99].error
    assert failures[100].error == "steps.s.derive.x: it failed, like on 100 rows before"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"where": "total"}, r"steps\.s\.where: 'total' is of type DECIMAL\(18,2\), but must be a condition"),
        ({"where": "price > 1"}, r"steps\.s\.where: no column 'price'; there are order_id, total, note"),
        ({"derive": {"x": "sum(total)"}}, r"steps\.s\.derive\.x: 'sum' is no function that depends"),
        ({"derive": {"x": "random()"}}, r"steps\.s\.derive\.x: 'random' is no function"),
        ({"derive": {"x": "now()"}}, "'now' is no function"),
        ({"derive": {"x": "row_number() over ()"}}, "a window is not allowed"),
        ({"derive": {"x": "(select 1)"}}, "a subquery is not allowed"),
        ({"derive": {"x": "read_text(note)"}}, "'read_text' is no function"),
        ({"derive": {"x": "total +"}}, "Parser Error.*; write one SQL expression"),
        ({"derive": {"x": "lower(total, 1)"}}, "Binder Error"),
        (
            {"derive": {"x": "[total]"}},
            r"is of type DECIMAL\(18,2\)\[\], which no column has; cast it to one of",
        ),
        ({"derive": {"x": "ordered_at - ordered_at"}}, "is of type INTERVAL, which no column has; cast it"),
        ({"derive": {"x": "cast(total as float)"}}, "is of type FLOAT, which no column has; cast it"),
        (
            {"derive": {"Total": "1"}},
            r"steps\.s\.derive\.Total: there is a column 'total' already; name another",
        ),
        ({"derive": {"a": "1", "b": "a + 1"}}, r"steps\.s\.derive\.b: no column 'a'"),
        ({"select": ["price"]}, r"steps\.s\.select: no column 'price'; there are order_id"),
        ({"drop": ["price"]}, r"steps\.s\.drop: no column 'price'"),
    ],
)
def test_refused_steps(fields: dict[str, Any], complaint: str) -> None:
    """The field is named, and what to do about it."""
    with pytest.raises(ConfigError, match=complaint):
        RowStep.of("s", COLUMNS, **fields)
