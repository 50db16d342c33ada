"""Schemas of Avro that refer to others. fastavro, which knows the others by name, says what they mean."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import Any

import fastavro
import pytest

from endmark.schemas.avro_references import inlined
from endmark.verify.formats.avro_schema import schema_of as recomputed
from endmark.wire.avro.schema import parse


def record(name: str, namespace: str | None, **fields: Any) -> dict[str, Any]:
    found = {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    return found if namespace is None else found | {"namespace": namespace}


MONEY = record("Money", "shop.money", amount="long", currency="Currency")
CURRENCY = {"type": "enum", "name": "shop.money.Currency", "symbols": ["EUR", "SEK"]}
MD5 = {"type": "fixed", "name": "Md5", "size": 2}
PAID = {"amount": 7, "currency": "SEK"}


@pytest.mark.parametrize(
    ("schema", "others", "value"),
    [
        (record("Order", "shop", paid="shop.money.Money"), [CURRENCY, MONEY], {"paid": PAID}),
        # Declared where it is named first, and only named from there on.
        (
            record("Order", "shop.money", a="Money", b="Money", c="shop.money.Currency"),
            [CURRENCY, MONEY],
            {"a": PAID, "b": PAID, "c": "EUR"},
        ),
        # In a record of its own namespace, a list, a map and a union.
        (
            record(
                "Order",
                "shop",
                a={"type": "array", "items": "shop.money.Money"},
                b={"type": "map", "values": ["null", "shop.money.Money"]},
                c=record("Line", "shop.money", of="Currency"),
                d=["null", "shop.money.Currency"],
            ),
            [CURRENCY, MONEY],
            {"a": [PAID], "b": {"x": PAID, "y": None}, "c": {"of": "EUR"}, "d": "SEK"},
        ),
        # Without a namespace, beside logical types and defaults, which stay.
        (
            record("Order", None, sum="Md5", at={"type": "long", "logicalType": "local-timestamp-micros"}),
            [MD5],
            {"sum": b"ab", "at": datetime(2026, 5, 7, 1, 2, 3, 4)},  # noqa: DTZ001
        ),
    ],
)
def test_an_inlined_schema_means_the_same(schema: Any, others: list[Any], value: Any) -> None:
    named: dict[str, Any] = {}
    for each in others:
        fastavro.parse_schema(each, named_schemas=named)
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(schema, named_schemas=named), value)

    alone = fastavro.parse_schema(json.loads(inlined(json.dumps(schema), map(json.dumps, others))))
    encoded.seek(0)
    assert fastavro.schemaless_reader(encoded, alone, None) == value


def test_what_fastavro_cannot_name_by_itself_is_inlined() -> None:
    """A union at the top, and a name in the place of a type's kind, as Java's library reads them."""
    declared = {"type": "fixed", "name": "Md5", "namespace": "shop", "size": 2}

    def found(schema: Any) -> Any:
        return json.loads(inlined(json.dumps(schema), [json.dumps(declared)]))

    assert found(["null", "shop.Md5"]) == ["null", declared]
    assert found({"type": "shop.Md5", "doc": "a sum"}) == {"type": declared, "doc": "a sum"}


def test_a_name_without_a_namespace_is_found_in_a_record_that_has_one() -> None:
    """Java's library reads it so, if the record's namespace has none of this name. fastavro does not."""
    own = {"type": "fixed", "name": "Md5", "namespace": "shop", "size": 4}
    order = record("Order", "shop", a="Md5", b="Md5")

    alone = inlined(json.dumps(order), [json.dumps(MD5)])
    both = inlined(json.dumps(order), [json.dumps(MD5), json.dumps(own)])

    for schema, size in ((alone, 2), (both, 4)):
        kinds = [field.type for field in parse(schema).fields]
        assert [(kind.kind, kind.size) for kind in kinds] == [("fixed", size), ("fixed", size)]
        assert [kind.size for _, _, kind in recomputed(schema).fields] == [size, size]


def test_what_is_not_referred_to_is_left_out() -> None:
    schema = record("Order", "shop", id="long")
    assert json.loads(inlined(json.dumps(schema), [json.dumps(MONEY)])) == schema


@pytest.mark.parametrize("schema", ["{}", "7", '["", null]', '{"type": 3}', '{"type": "record", "name": 3}'])
def test_what_is_no_schema_stays_as_it_is(schema: str) -> None:
    """Who reads it says what is wrong with it."""
    assert json.loads(inlined(schema, [json.dumps(MONEY), "[]", '"x"'])) == json.loads(schema)
