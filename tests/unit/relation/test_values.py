"""Columns between Arrow and drivers: exact, or refused."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from endmark.relation.backend import Backend
from endmark.relation.values import NotOfTypeError, from_driver, from_text, to_driver
from endmark.types import ColumnType

CENTS = ColumnType.decimal(9, 2)
NOON = datetime.fromisoformat("2026-01-31 12:00:00.000005")
SPELT = "2026-01-31 12:00:00.000005"


@pytest.mark.parametrize("backend", ["mysql", "sqlite"])
@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (ColumnType.LONG, -(2**63), -(2**63)),
        (ColumnType.DOUBLE, 0.1, 0.1),
        (ColumnType.STRING, "a\0 ", "a\0 "),
        (ColumnType.BOOLEAN, 1, True),
    ],
)
def test_values_of_both_kinds_of_driver(kind: ColumnType, given: Any, value: Any, backend: Backend) -> None:
    """A driver's values arrive unchanged, nulls and empty columns included."""
    assert from_driver([given, None], kind, backend).to_pylist() == [value, None]
    for empty in ([], [None]):
        column = from_driver(empty, kind, backend)
        assert (column.type, column.to_pylist()) == (kind.arrow, empty)


@pytest.mark.parametrize(
    ("kind", "in_mysql", "in_sqlite", "value"),
    [
        (ColumnType.DATE, date(2026, 1, 31), "2026-01-31", date(2026, 1, 31)),
        (ColumnType.TIMESTAMP, NOON, SPELT, NOON.replace(tzinfo=UTC)),
        (CENTS, Decimal("-7.10"), -7.1, Decimal("-7.10")),
    ],
)
def test_values_that_sqlite_has_no_type_for(
    kind: ColumnType, in_mysql: Any, in_sqlite: Any, value: Any
) -> None:
    """Dates are text and decimals doubles there; a key is bound as it is read."""
    both: list[tuple[Any, Backend]] = [(in_mysql, "mysql"), (in_sqlite, "sqlite")]
    for given, backend in both:
        assert from_driver([given, None], kind, backend).to_pylist() == [value, None]
        assert to_driver(pa.array([value], kind.arrow), kind, backend) == [given]


@pytest.mark.parametrize(
    ("kind", "given", "backend"),
    [
        (ColumnType.LONG, 1.5, "sqlite"),
        (ColumnType.LONG, 1.0, "sqlite"),
        (ColumnType.LONG, "1", "mysql"),
        (ColumnType.LONG, 2**63, "mysql"),
        (ColumnType.DOUBLE, "1.0", "sqlite"),
        (ColumnType.STRING, 5, "sqlite"),
        (ColumnType.STRING, b"a", "mysql"),
        (ColumnType.BOOLEAN, 2, "mysql"),
        (ColumnType.BOOLEAN, 1, "postgresql"),
        (CENTS, Decimal("NaN"), "postgresql"),
        (ColumnType.DATE, NOON, "mysql"),
        (ColumnType.DATE, "2026-1-31", "sqlite"),
        (ColumnType.DATE, "0000-00-00", "mysql"),
        (ColumnType.TIMESTAMP, "2026-01-31 25:00:00", "sqlite"),
        (CENTS, Decimal("0.001"), "mysql"),
        (CENTS, 0.001, "sqlite"),
        (CENTS, "1.00", "sqlite"),
        (ColumnType.decimal(3, 2), Decimal("10.00"), "mysql"),
    ],
)
def test_nothing_is_made_to_fit(kind: ColumnType, given: Any, backend: Backend) -> None:
    """A value of another type, or of more digits, is an error and no other value."""
    with pytest.raises(NotOfTypeError):
        from_driver([None, given], kind, backend)


@pytest.mark.parametrize(
    ("kind", "given", "shown"),
    [
        (ColumnType.DATE, ["0000-00-00", date(2026, 1, 31)], "'0000-00-00'"),
        (ColumnType.DATE, [date(2026, 1, 31), None, "2026-02-30"], "'2026-02-30'"),
        (ColumnType.TIMESTAMP, ["0000-00-00 00:00:00", NOON], "'0000-00-00 00:00:00'"),
        (CENTS, [Decimal("1.50"), Decimal("1.501")], r"Decimal\('1.501'\)"),
    ],
)
def test_an_error_names_the_value(kind: ColumnType, given: list[Any], shown: str) -> None:
    """Beside values that fit, too. PyMySQL returns the text of a time that no calendar has."""
    with pytest.raises(NotOfTypeError, match=f"{shown} is no {re.escape(str(kind))}$"):
        from_driver(given, kind, "mysql")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ColumnType.DATE, "0000-01-01"),
        (ColumnType.DATE, "0000-00-00"),
        (ColumnType.TIMESTAMP, "0000-12-31 23:59:59"),
    ],
)
def test_a_time_before_the_year_1_is_no_value(kind: ColumnType, text: str) -> None:
    """No table can have it. Arrow has a year 0."""
    with pytest.raises(NotOfTypeError, match=text):
        from_text(pa.array([None, "2026-01-31", text]), kind)
