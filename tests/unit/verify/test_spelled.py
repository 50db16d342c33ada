"""Values in SQL, spelled as in data records and in punctuations."""

from __future__ import annotations

import pytest

from endmark.types import ColumnType
from endmark.verify.join.sides import spelled
from endmark.verify.promises.output_punctuations import scalar
from endmark.verify.session import Session


@pytest.mark.parametrize(
    ("kind", "value", "in_record", "in_punctuation"),
    [
        ("decimal(4,4)", "0.25", "0.2500", "0.25"),
        ("decimal(4,4)", "-0.1", "-0.1000", "-0.1"),
        ("decimal(4,4)", "0", "0.0000", "0"),
        ("decimal(6,2)", "-10.50", "-10.50", "-10.5"),
        ("decimal(6,2)", "0.05", "0.05", "0.05"),
        ("decimal(38,38)", "0." + 37 * "0" + "1", "0." + 37 * "0" + "1", "0." + 37 * "0" + "1"),
        ("decimal(3,0)", "100", "100", "100"),
    ],
)
def test_a_decimal_has_a_digit_before_its_point(
    kind: str, value: str, in_record: str, in_punctuation: str
) -> None:
    """DuckDB leaves the zero out if a type has no digit there."""
    of = ColumnType.parse(kind)
    parts = {"record": spelled(f"'{value}'::{kind}", of), "punctuation": scalar(f"'{value}'::{kind}", of)}
    with Session() as session:
        [found] = session.run("SELECT $record AS record, $punctuation AS punctuation", **parts)

    assert found == {"record": in_record, "punctuation": in_punctuation}
