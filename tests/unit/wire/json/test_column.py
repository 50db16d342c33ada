"""Punctuations in a column of text: what names a key, what promises more, and what is none."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from endmark.punctuation.pattern import Between, Equals, OneOf, Pattern
from endmark.wire.json.column import Punctuated, TextPunctuations

COLUMNS = pa.schema(
    [
        ("shop", pa.int32()),
        ("day", pa.date32()),
        ("price", pa.decimal128(6, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def read(*texts: Any, key: tuple[str, ...] = ("shop",)) -> Punctuated:
    reader = TextPunctuations(COLUMNS, key, "left")
    return reader.read(
        pa.array([text if isinstance(text, str) else json.dumps(text) for text in texts], pa.string())
    )


def test_a_value_of_the_key_names_it() -> None:
    """In the type of the column, whatever the spaces; other columns may stand beside it without a word."""
    found = read({"shop": {"equals": 2}}, ' {"shop":{"equals":-1} }')

    assert found.closed_keys == pa.record_batch({"shop": pa.array([2, -1], pa.int32())})
    assert found.promises == []
    assert found.rejected == []


def test_of_several_columns_all_name_a_key() -> None:
    whole = {"day": {"equals": "2026-01-31"}, "shop": {"equals": 2}}
    found = read(whole, {"shop": {"equals": 2}}, key=("shop", "day"))

    assert [list(row.values()) for row in found.closed_keys.to_pylist()] == [[2, date(2026, 1, 31)]]
    assert [promise.patterns for promise in found.promises] == [(("shop", Equals(2)),)]


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ({"shop": {"one_of": [1, 2]}}, {"shop": OneOf(frozenset({1, 2}))}),
        ({"shop": {"equals": 1}, "at": {"between": {}}}, {"at": Between(), "shop": Equals(1)}),
        ({"price": {"equals": "1.5"}}, {"price": Equals(Decimal("1.5"))}),
        ({"price": {"between": {"to": "9.99"}}}, {"price": Between(high=Decimal("9.99"))}),
        ('{"\\u0073hop": {"equals": 7}}', {"shop": Equals(7)}),
        ({"shop": {"anything": True}}, {}),
    ],
)  # fmt: skip
def test_other_shapes_are_promises(text: Any, patterns: dict[str, Pattern]) -> None:
    found = read(text)

    assert [dict(promise.patterns) for promise in found.promises] == [patterns]
    assert (found.closed_keys.num_rows, found.rejected) == (0, [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("7", r"\$punctuation: Input should be a valid dictionary"),
        ({}, r"\$punctuation: Dictionary should have at least 1 item"),
        (
            {"$punctuation": {"shop": {"equals": 1}}},
            r"\$punctuation: a pattern has one member",
        ),
        ({"shop": 1}, "a pattern has one member"),
        ({"house": {"equals": 1}}, "stream 'left' has no attribute 'house'; it has shop, day, price, at"),
        ({"shop": {"equals": "1"}}, "attribute 'shop': '1' is no long"),
        ({"shop": {"equals": 1 << 31}}, "attribute 'shop': 2147483648 is no int32"),
        ({"shop": {"equals": 1 << 63}}, "attribute 'shop': .* does not fit into 64 bits"),
        ({"price": {"equals": "1.005"}}, r"attribute 'price': 1.005 has more digits than a decimal\(6,2\)"),
        ({"price": {"one_of": ["1", "123456"]}}, "attribute 'price': 123456 has more digits"),
        ({"day": {"equals": "2026-02-30"}}, "attribute 'day': '2026-02-30' is no date"),
        ('{"shop": {"equals": 1}, "shop": {"equals": 2}}', "member 'shop' stands twice"),
        ('{"shop": {"equals": 1}}}', "not JSON"),
    ],
)
def test_what_is_none_is_said(text: Any, why: str) -> None:
    """With the text, what is wrong with it and what it should be like; those beside it are read."""
    found = read({"shop": {"equals": 2}}, text, {"day": {"equals": "2026-01-31"}})

    assert found.closed_keys.column("shop").to_pylist() == [2]
    assert len(found.promises) == 1
    ((rejected, error),) = found.rejected
    assert rejected.decode() == (text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(ValueError, match=why):
        raise ValueError(error)
    assert error.endswith('; a punctuation is such as {"shop": {"equals": 42}}')
