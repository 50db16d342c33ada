"""Columns between Arrow and drivers: exact, or refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from endmark.relation.values import NotOfTypeError, from_driver, to_driver
from endmark.types import ColumnType

CENTS = ColumnType.decimal(9, 2)
NOON = datetime.fromisoformat("2026-01-31 12:00:00.000005")
SPELT = "2026-01-31 12:00:00.000005"


@pytest.mark.parametrize("sqlite", [False, True])
@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (ColumnType.LONG, -(2**63), -(2**63)),
        (ColumnType.DOUBLE, 0.1, 0.1),
        (ColumnType.STRING, "a\0 ", "a\0 "),
        (ColumnType.BOOLEAN, 1, True),
    ],
)
def test_values_of_both_kinds_of_driver(kind: ColumnType, given: Any, value: Any, sqlite: bool) -> None:
    """What drivers give arrives as it is, nulls and columns of nothing else included."""
    assert from_driver([given, None], kind, sqlite=sqlite).to_pylist() == [value, None]
    for empty in ([], [None]):
        column = from_driver(empty, kind, sqlite=sqlite)
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
    for given, sqlite in ((in_mysql, False), (in_sqlite, True)):
        assert from_driver([given, None], kind, sqlite=sqlite).to_pylist() == [value, None]
        assert to_driver(pa.array([value], kind.arrow), kind, sqlite=sqlite) == [given]


@pytest.mark.parametrize(
    ("kind", "given", "sqlite"),
    [
        (ColumnType.LONG, 1.5, True),
        (ColumnType.LONG, 1.0, True),
        (ColumnType.LONG, "1", False),
        (ColumnType.LONG, 2**63, False),
        (ColumnType.DOUBLE, "1.0", True),
        (ColumnType.STRING, 5, True),
        (ColumnType.STRING, b"a", False),
        (ColumnType.BOOLEAN, 2, False),
        (ColumnType.DATE, NOON, False),
        (ColumnType.DATE, "2026-1-31", True),
        (ColumnType.DATE, "0000-00-00", False),
        (ColumnType.TIMESTAMP, "2026-01-31 25:00:00", True),
        (CENTS, Decimal("0.001"), False),
        (CENTS, 0.001, True),
        (CENTS, "1.00", True),
        (ColumnType.decimal(3, 2), Decimal("10.00"), False),
    ],
)
def test_nothing_is_made_to_fit(kind: ColumnType, given: Any, sqlite: bool) -> None:
    """A value of another type, or of more digits, is an error and no other value."""
    with pytest.raises(NotOfTypeError):
        from_driver([None, given], kind, sqlite=sqlite)
