"""Punctuations in the names that their columns have now: of every type and shape, in their places."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from endmark.wire.renamed_punctuations import Renamed, Renamer, Renaming

COLUMNS = pa.schema(
    [
        ("shop", pa.int32()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(6, 2)),
        ("weight", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("photo", pa.binary()),
    ]
)


def written(renaming: Renaming, *texts: Any) -> Renamed:
    given = [text if isinstance(text, str) else json.dumps(text) for text in texts]
    return Renamer(renaming, "shops")(pa.array(given, pa.string()))


def said(renaming: Renaming, *texts: Any) -> list[Any]:
    found = written(renaming, *texts)
    assert not found.rejected
    return [None if text is None else json.loads(text) for text in found.texts.to_pylist()]


def plain(**names: str | None) -> Renaming:
    return Renaming.none(COLUMNS).then(names)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("shop", -7),
        ("name", 'a "quoted" \\ \n one, ü'),
        ("day", "2026-01-31"),
        ("price", "12.5"),
        ("weight", 1e-9),
        ("at", "2026-01-31T23:59:59.000001Z"),
    ],
)
def test_values_of_every_type_stay_what_they_are(column: str, value: Any) -> None:
    """In punctuations that name a key, which are written a column at a time, and in any others."""
    patterns = [{"equals": value}, {"one_of": [value]}, {"between": {"from": value, "from_open": True}}]

    found = said(plain(now=column), *({column: each} for each in patterns))

    assert [each["now"] for each in found] == patterns


def test_all_columns_that_are_restricted_must_be_there() -> None:
    """One that stands there without a word does not count; texts keep their places, whatever their shapes."""
    one, both = {"shop": {"equals": 1}}, {"name": {"equals": "k"}, "shop": {"equals": 2}}
    wild = {"name": {"anything": True}, "shop": {"between": {"to": 3}}}

    found = said(plain(id="shop"), one, both, wild, {"shop": {"equals": 4}}, {"name": {"equals": "k"}}, one)

    assert found == [
        {"id": {"equals": 1}},
        None,
        {"id": {"between": {"to": 3}}},
        {"id": {"equals": 4}},
        None,
        {"id": {"equals": 1}},
    ]


def test_more_shapes_than_are_remembered() -> None:
    """The columns of a key in every order and number."""
    names = ["shop", "name", "day", "price", "weight"]
    values = {"shop": 1, "name": "k", "day": "2026-01-31", "price": "1.5", "weight": 2.5}
    keys = [
        {name: {"equals": values[name]} for at, name in enumerate(names) if number >> at & 1}
        for number in range(1, 32)
    ]

    found = said(plain(**{f"{name}_now": name for name in names}), *keys, *reversed(keys))

    expected = [{f"{name}_now": each for name, each in key.items()} for key in keys]
    assert found == [*expected, *reversed(expected)]


def test_a_column_that_is_there_twice() -> None:
    """Goes by its first name, and by the other one when that is gone."""
    twice = plain(first="shop", other="shop")

    assert said(twice, {"shop": {"equals": 1}}) == [{"first": {"equals": 1}}]
    assert said(twice.then({"other": "other"}), {"shop": {"equals": 1}}) == [{"other": {"equals": 1}}]


def test_the_end_of_a_stream_is_said_of_what_is_left_of_it() -> None:
    """By a column that patterns can speak of; without one nothing is said."""
    over = {"shop": {"anything": True}}

    assert said(plain(bytes="photo", label="name"), over) == [{"label": {"anything": True}}]
    assert said(plain(bytes="photo", total=None), over) == [None]


def test_what_is_no_punctuation_of_the_columns_then() -> None:
    """In its place, with what is wrong in the words of then, though a column of that name is there now."""
    found = written(
        plain(shop="shop", total=None), "{", {"shop": {"equals": 1}}, {"total": {"equals": 1}}, {"photo": {}}
    )

    assert found.texts.to_pylist() == [None, '{"shop": {"equals": 1}}', None, None]
    places, reasons = zip(*found.rejected, strict=True)
    assert places == (0, 2, 3)
    assert "'shops' has no attribute 'total'; it has shop, name" in reasons[1]
    assert all('a punctuation is such as {"shop": {"equals": 42}}' in reason for reason in reasons)


def test_a_renaming_is_needed_once_a_name_says_something_else() -> None:
    same = {name: name for name in COLUMNS.names}

    assert not plain(**same).needed
    assert not plain(**same).then({name: name for name in reversed(COLUMNS.names)}).needed
    assert plain(**same, total=None).needed
    assert plain(shop="shop").needed
    assert plain(**same | {"shop": "name", "name": "shop"}).needed
