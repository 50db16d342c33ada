"""The parts of a record that columns are taken from, as a pipeline file says it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from endmark.pipeline import Pipeline, Stream
from endmark.pipeline.record_parts import PATTERN, Origin, RecordPart

COLUMNS = {"order_id": "long", "customer_id": "long?", "tenant": "string", "at": "timestamp"}


def stream(taken_from: dict[str, str], **fields: Any) -> Stream:
    declared = {
        "topic": "orders",
        "columns": COLUMNS,
        "event_time": {"column": "at"},
        "taken_from": taken_from,
    }
    return Stream.model_validate(declared | fields)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("value.order.customer.id", RecordPart(Origin.VALUE, ("order", "customer", "id"))),
        ("value.@timestamp", RecordPart(Origin.VALUE, ("@timestamp",))),
        ("key", RecordPart(Origin.KEY)),
        ("key.id", RecordPart(Origin.KEY, ("id",))),
        ("header.x.tenant", RecordPart(Origin.HEADER, ("x.tenant",))),
        ("timestamp", RecordPart(Origin.TIMESTAMP)),
    ],
)
def test_a_part_is_spelled_as_a_text(text: str, part: RecordPart) -> None:
    assert RecordPart.parse(text) == part
    assert str(part) == text
    assert re.search(PATTERN, text)


@pytest.mark.parametrize(
    "text",
    ["value", "value.", "value.a..b", 'value."a"', "order.id", "key.", "header", "header.", "time", ""],
)
def test_another_text_is_refused_with_the_forms_that_there_are(text: str) -> None:
    with pytest.raises(ValidationError, match=r"is no part of a record; write value\.order\.id"):
        stream({"tenant": text})
    assert not re.search(PATTERN, text)


def test_a_stream_knows_the_members_of_its_values() -> None:
    """A column that is not in `taken_from` is the member of its name."""
    declared = stream({"customer_id": "value.order.customer", "tenant": "header.tenant"})

    assert declared.value_paths == {
        "order_id": ("order_id",),
        "customer_id": ("order", "customer"),
        "at": ("at",),
    }
    assert Stream.model_validate(declared.model_dump()) == declared


@pytest.mark.parametrize(
    ("taken_from", "fields", "error"),
    [
        ({"tenants": "key"}, {}, "taken_from: no column 'tenants'; there are order_id, customer_id"),
        ({"tenant": "timestamp"}, {}, "the record's timestamp is a timestamp, and the column is string"),
        (
            {"tenant": "value.order_id"},
            {},
            "value.order_id of column 'order_id' has value.order_id of column 'tenant' in it",
        ),
        (
            {"tenant": "value.at.zone"},
            {},
            "value.at of column 'at' has value.at.zone of column 'tenant' in it; a member is one column",
        ),
        (
            {"tenant": "key.a.b", "order_id": "key.a"},
            {},
            "key.a of column 'order_id' has key.a.b of column 'tenant' in it",
        ),
        ({"tenant": "value.$punctuation.x"}, {}, r"a record with \$punctuation is a punctuation, and no row"),
        (
            dict.fromkeys(["order_id", "customer_id", "tenant"], "key") | {"at": "timestamp"},
            {},
            "at least one column is a member of the record's value",
        ),
        (
            {"tenant": "value.shop.tenant"},
            {"format": "xml"},
            "taken_from.tenant: a value in `format: xml` has no members by path",
        ),
    ],
)
def test_parts_that_cannot_give_the_columns_are_refused(
    taken_from: dict[str, str], fields: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValidationError, match=error):
        stream(taken_from, **fields)


@pytest.mark.parametrize("format", ["json", "debezium"])
@pytest.mark.parametrize(
    ("paths", "error"),
    [
        (
            [f"value.o{number}.a.b.c.id" for number in range(300)],
            "301 members of a value, of which 'c0' is within 4 ob",
        ),
        (
            ["value." + "a." * 100 + "id"],
            "taken_from.c0: the member is within 100 objects, and one within more than 99",
        ),
    ],
)
def test_members_that_no_expression_can_match_are_refused(format: str, paths: list[str], error: str) -> None:  # noqa: A002
    """RE2 refuses an expression of so many. The parser failed then, after the pipeline had been checked."""
    columns = {f"c{number}": "long" for number in range(len(paths))}
    declared = {
        "topic": "orders",
        "format": format,
        "columns": columns | {"at": "timestamp"},
        "taken_from": dict(zip(columns, paths, strict=True)),
        "event_time": {"column": "at"},
        "extra": "ignore",
    }
    with pytest.raises(ValidationError, match=error):
        Stream.model_validate(declared)

    assert len(Stream.model_validate(declared | {"format": "avro"}).columns) == len(paths) + 1


@pytest.mark.parametrize("format", ["xml", "avro"])
def test_other_formats_have_keys_headers_and_timestamps(format: str) -> None:  # noqa: A002
    parts = {"order_id": "key.id", "tenant": "header.tenant"}

    assert list(stream(parts, format=format).value_paths) == ["customer_id", "at"]


@pytest.mark.parametrize(("part", "refused"), [("key.id", True), ("value.id", False)])
def test_a_deletion_finds_its_columns_in_the_value(part: str, refused: bool) -> None:
    declared = {
        "topic": "orders",
        "format": "debezium",
        "columns": COLUMNS,
        "event_time": {"column": "at"},
        "punctuated_on": "order_id",
        "taken_from": {"order_id": part},
    }
    document = {"name": "parts", "streams": {"orders": declared}, "tables": {"orders": {"from": "orders"}}}
    if not refused:
        Pipeline.model_validate(document)
        return
    with pytest.raises(ValidationError, match=r"streams\.orders\.taken_from\.order_id: a deletion names"):
        Pipeline.model_validate(document)
