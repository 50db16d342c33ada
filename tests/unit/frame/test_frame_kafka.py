"""Kafka's records as rows of a frame: what is a row, what is said, and what is neither."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from endmark.errors import ConfigError, PartitionError
from endmark.frame.kafka import ParseStage
from endmark.types import ColumnType

SPARE = ColumnType.parse("string?")
COLUMNS = {"item": ColumnType.LONG, "seller": ColumnType.STRING, "price": ColumnType.decimal(6, 2)}


def parsed(
    stage: ParseStage, *values: bytes | dict[str, Any] | None, partition: int = 0
) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Rows and texts of records that stand from offset 5 on."""
    found = [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]
    batch = pa.record_batch(
        {
            "topic": pa.array(["bids"] * len(found)),
            "partition": pa.array([partition] * len(found), pa.int32()),
            "offset": pa.array(range(5, 5 + len(found)), pa.int64()),
            "value": pa.array(found, pa.binary()),
        }
    )
    rows = [row for each in stage(iter([batch.slice(0, 0), batch])) for row in each.to_pylist()]
    texts = [row for row in rows if row["said"] is not None]
    assert all(row[name] is None for row in texts for name in COLUMNS)
    return [tuple(row.values())[:-1] for row in rows if row["said"] is None], [
        json.loads(row["said"]) for row in texts
    ]


def said(**patterns: Any) -> dict[str, Any]:
    return {"$punctuation": patterns}


def test_rows_punctuations_and_dead_letters() -> None:
    """A record that is neither says where it stood, why, and what it was, whatever its bytes."""
    whole = {"between": {"from": "1", "to": "9.99"}}

    rows, texts = parsed(
        ParseStage(COLUMNS, "said", (), 1),
        {"item": 1, "seller": "ann", "price": "2.50"},
        said(item={"equals": 1}),
        said(price=whole, seller={"equals": "bob"}),
        b"\xff",
        said(house={"equals": 1}),
        None,
        b"",
    )

    assert [(item, seller, str(price)) for item, seller, price in rows] == [(1, "ann", "2.50")]
    assert texts[:2] == [{"item": {"equals": 1}}, {"price": whole, "seller": {"equals": "bob"}}]
    letters = [each["$dead_letter"] for each in texts[2:]]
    assert [(each["topic"], each["partition"], each["offset"], each["reason"]) for each in letters] == [
        ("bids", 0, 8, "not_utf8"),
        ("bids", 0, 9, "bad_punctuation"),
        ("bids", 0, 11, "empty"),
    ]
    assert letters[0]["base64"] == "/w=="
    assert json.loads(letters[1]["value"]) == said(house={"equals": 1})
    assert letters[2]["value"] == ""


def test_columns_may_be_null_and_other_members_ignored() -> None:
    """No pattern matches a null, so a punctuation of null is a dead letter."""
    columns = {name: ColumnType.parse(kind) for name, kind in (("item", "long"), ("seller", "string?"))}
    records: list[dict[str, Any]] = [
        {"item": 1},
        {"item": 2, "seller": None},
        {"seller": "ann"},
        {"item": 3, "more": [1]},
    ]
    promises = [said(seller={"equals": "ann"}), said(seller={"equals": None})]

    for ignoring, kept in ((False, []), (True, [(3, None)])):
        stage = ParseStage(columns | dict.fromkeys(COLUMNS.keys() - columns, SPARE), "said", (), 1, ignoring)
        rows, texts = parsed(stage, *records, *promises)

        assert [row[:2] for row in rows] == [(1, None), (2, None), *kept]
        assert texts[0] == {"seller": {"equals": "ann"}}
        reasons = [letter["$dead_letter"]["reason"] for letter in texts[1:]]
        unknown = [] if ignoring else ["unknown_field"]
        assert reasons == ["missing_field", *unknown, "bad_punctuation"]


def test_of_several_partitions_those_pass_that_name_their_own_values() -> None:
    """A promise on anything else could be broken by another partition."""
    named, both = {"item": {"equals": 1}}, {"item": {"equals": 1}, "seller": {"equals": "ann"}}
    listed = {"item": {"one_of": [1, 2]}}
    others: list[dict[str, Any]] = [
        {"seller": {"equals": "ann"}},
        {"item": {"between": {"to": 3}}},
        {"item": {"anything": True}},
    ]
    promises: list[dict[str, Any]] = [named, both, listed, *others]
    given = [said(**each) for each in promises]

    assert parsed(ParseStage(COLUMNS, "said", ("item",), 2), *given)[1] == [named, both, listed]
    assert parsed(ParseStage(COLUMNS, "said", ("item", "seller"), 2), *given)[1] == [both]
    assert len(parsed(ParseStage(COLUMNS, "said", (), 1), *given)[1]) == len(given)


def test_partitions_must_be_known() -> None:
    """When the query is made, and while it runs."""
    with pytest.raises(ConfigError, match="bids has 2 partitions, and a punctuation speaks for its own"):
        ParseStage(COLUMNS, "said", (), 2).check("bids")
    with pytest.raises(
        ConfigError, match=r"column item is long\?, but null has no partition; declare it long"
    ):
        ParseStage({"item": ColumnType.parse("long?")}, "said", ("item",), 2).check("bids")
    with pytest.raises(ConfigError, match="no column house is declared"):
        ParseStage(COLUMNS, "said", ("house",), 2).check("bids")
    with pytest.raises(PartitionError, match="bids has got partition 2 since the query started"):
        parsed(ParseStage(COLUMNS, "said", ("item",), 2), said(item={"equals": 1}), partition=2)
