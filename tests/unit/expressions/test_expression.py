"""Other names for the columns of an expression, which is kept as it is written."""

from __future__ import annotations

import pytest

from endmark.errors import ConfigError
from endmark.expressions.expression import renamed


def in_results(reference: str) -> str:
    if reference == "x":
        raise ValueError("no column 'x'")
    return reference.replace(".", "_")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders.total * vat", '"orders_total" * "vat"'),
        ("1e5 + Orders . total", '1e5 + "Orders_total"'),
        ('"orders" /* of . x */ . -- and\n"total" || \'a.b\'', "\"orders_total\" || 'a.b'"),
        ("'\u00fc' || a.b || c -- d.e", '\'\u00fc\' || "a_b" || "c" -- d.e'),
        ("CASE a.b WHEN 1 THEN c WHEN 2 THEN a.b END", 'CASE "a_b" WHEN 1 THEN "c" WHEN 2 THEN "a_b" END'),
        ("a.b::decimal(6,2) BETWEEN c AND a.b", '"a_b"::decimal(6,2) BETWEEN "c" AND "a_b"'),
        ("extract(year from a.at)", 'extract(year from "a_at")'),
        ("1 + 1", "1 + 1"),
    ],
)
def test_columns_get_other_names(text: str, expected: str) -> None:
    assert renamed(text, in_results, "f") == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a +", "f: Parser Error: .*; write one SQL expression"),
        ("a, b", "f: .*; write one SQL expression"),
        ("y + x", "f: no column 'x'"),
        ("NOT (" * 400 + "a" + ")" * 400, "f: "),
    ],
)
def test_refused_texts(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        renamed(text, in_results, "f")
