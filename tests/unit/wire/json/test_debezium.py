"""Debezium's envelopes: what each is, in its place, and which are read in columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from endmark.pipeline import Stream
from endmark.pipeline.formats import FORMATS
from endmark.punctuation.pattern import Equals
from endmark.types import ColumnType
from endmark.wire.change import ChangeRules
from endmark.wire.json import debezium
from endmark.wire.json.debezium import DebeziumParser
from endmark.wire.json.records import Parsed
from endmark.wire.record_spec import RecordSpec
from endmark.wire.unavailable_values import without_unavailable
from support.formats import envelope

COLUMNS = {"order_id": ColumnType.LONG, "who": ColumnType.STRING, "total": ColumnType.decimal(6, 2)}
Record = dict[str, Any]


def order(number: int) -> Record:
    return {"order_id": number, "who": "Ann", "total": "1.50"}


def parse(*values: bytes | None, updates: bool = False, key: tuple[str, ...] = ("order_id",)) -> Parsed:
    parser = DebeziumParser(RecordSpec(COLUMNS, (), "orders", key=key), ChangeRules(updates, ("order_id",)))
    return parser.parse(pa.array(values, pa.binary()))


def ids(parsed: Parsed) -> list[int]:
    return [row["order_id"] for row in parsed.rows.to_pylist()]


@pytest.mark.parametrize("wrapped", [False, True])
def test_rows_are_inserted_or_read_and_deletions_close(
    wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Debezium's own spelling nothing is read one by one; before the deletion is all of a row, or its key
    beside nulls."""
    monkeypatch.setattr(debezium, "read_document", None)
    key_alone = dict.fromkeys(COLUMNS) | {"order_id": 3}
    parsed = parse(
        envelope("c", None, order(1), wrapped=wrapped),
        envelope("d", order(2), None, wrapped=wrapped),
        envelope("r", None, order(4), wrapped=wrapped),
        envelope("d", key_alone, None, wrapped=wrapped),
    )

    assert (ids(parsed), parsed.row_at.tolist()) == ([1, 4], [0, 2])
    assert (parsed.closed_keys.to_pylist(), parsed.closed_keys_at.tolist()) == (
        [{"order_id": 2}, {"order_id": 3}],
        [1, 3],
    )
    assert (parsed.skipped, parsed.rejections, parsed.promises) == (0, [], [])


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_new_column_of_the_table_is_ignored_where_it_is_declared_to_be(
    wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In columns, too, and in the image of a deletion. A nullable column may be null or missing."""
    columns = COLUMNS | {"who": ColumnType.parse("string?")}
    grown = order(1) | {"place": {"srid": 4326, "wkb": [1, 2]}, "who": None}
    images = [grown, {"order_id": 2, "total": "1.50", "more": None}]
    values = [envelope("c", None, image, wrapped=wrapped) for image in images]
    values += [envelope("u", grown, order(3), wrapped=wrapped), envelope("d", grown, None, wrapped=wrapped)]
    batch = pa.array(values, pa.binary())

    def parser(*, ignoring: bool) -> DebeziumParser:
        key = ("order_id",)
        return DebeziumParser(
            RecordSpec(columns, (), "orders", key=key, ignoring=ignoring), ChangeRules(True, tuple(key))
        )

    strict = parser(ignoring=False).parse(batch)
    monkeypatch.setattr(debezium, "read_document", None)
    parsed = parser(ignoring=True).parse(batch)

    assert [(row["order_id"], row["who"]) for row in parsed.rows.to_pylist()] == [
        (1, None),
        (2, None),
        (3, "Ann"),
    ]
    assert (parsed.closed_keys.to_pylist(), parsed.closed_keys_at.tolist()) == ([{"order_id": 1}], [3])
    assert parsed.extra == 2
    assert [(each.at, each.reason) for each in strict.rejections] == [
        (0, "unknown_field"),
        (1, "unknown_field"),
    ]
    doubled = values[0].replace(b'"who":null', b'"who":null,"who":"Ann"')
    monkeypatch.undo()
    [rejection] = parser(ignoring=True).parse(pa.array([doubled], pa.binary())).rejections
    assert rejection.reason == "duplicate_field"


def test_an_update_is_a_row_where_it_is_declared_to_be_one() -> None:
    values = (envelope("u", order(1), order(2)), envelope("u", None, order(3), wrapped=True))

    assert ids(parse(*values, updates=True)) == [2, 3]
    [first, second] = parse(*values).rejections
    assert (first.at, first.reason, first.value, second.at) == (0, "update", values[0], 1)
    assert "`updates: rows`" in first.error


def test_other_spellings_stand_in_their_place() -> None:
    """What Debezium does not write, or not in this order, is read among the rest."""
    parsed = parse(
        envelope("c", None, order(1)),
        envelope("c", None, order(2), shuffled=True),
        b' {"op": "c", "after": %s}' % json.dumps(order(3)).encode(),
        envelope("d", order(4), None, shuffled=True, wrapped=True),
        envelope("r", None, order(5), wrapped=True),
        b'{"op": "d", "before": {"order_id": 6}}',
        envelope("d", order(7), None),
    )

    assert (ids(parsed), parsed.row_at.tolist()) == ([1, 2, 3, 5], [0, 1, 2, 4])
    assert parsed.closed_keys.to_pylist() == [{"order_id": 4}, {"order_id": 6}, {"order_id": 7}]
    assert parsed.closed_keys_at.tolist() == [3, 5, 6]


def test_a_primary_key_beside_the_join_key_is_promised() -> None:
    parsed = parse(envelope("d", order(4), None), key=("who",))

    [(at, promise)] = parsed.promises
    assert (at, promise.patterns) == (0, (("order_id", Equals(4)),))


def test_deletions_without_effect_are_skipped() -> None:
    """Whatever their image has, and in any spelling. Other records stay in their places."""
    parser = DebeziumParser(RecordSpec(COLUMNS, (), "orders", key=("order_id",)), ChangeRules(False, ()))
    values = [
        envelope("d", order(4), None),
        envelope("c", None, order(5)),
        envelope("d", dict.fromkeys(COLUMNS), None, wrapped=True),
        envelope("d", {"other": 1}, None, shuffled=True),
        b'{"op": "d"}',
        envelope("d", order(4), None)[:-1],
        envelope("d", order(4), None).replace(b"Ann", b"\xff"),
        envelope("d", order(4), None).replace(b"Ann", b"\\ud800"),
        envelope("r", None, order(6)),
    ]

    parsed = parser.parse(pa.array(values, pa.binary()))

    assert (ids(parsed), parsed.row_at.tolist()) == ([5, 6], [1, 8])
    assert (parsed.skipped, parsed.promises, parsed.closed_keys.num_rows) == (4, [], 0)
    assert [(each.at, each.reason) for each in parsed.rejections] == [
        (5, "malformed"),
        (6, "not_utf8"),
        (7, "not_utf8"),
    ]


def test_a_table_has_no_heartbeats() -> None:
    """Not even if a row image is spelled like one."""
    columns = {"order_id": "long", "at": "timestamp"}
    stream = Stream.model_validate(
        {"topic": "t", "format": "debezium", "columns": columns, "event_time": {"column": "at"}}
    )
    image = {"$punctuation": {"at": {"between": {"to": "2026-01-31T00:00:00Z"}}}}
    parser = FORMATS["debezium"].parser(stream, "orders", ("order_id",), (), None)
    parsed = parser.parse(pa.array([envelope("c", None, image)], pa.binary()))

    assert stream.heartbeat_on is None
    assert [rejection.reason for rejection in parsed.rejections] == ["bad_punctuation"]


@pytest.mark.parametrize(
    ("value", "reason", "error"),
    [
        (b"", "empty", "no value"),
        (b"x", "malformed", "not JSON"),
        (b"[]", "not_an_object", "list"),
        (envelope("c", None, order(1))[:-1], "malformed", "not JSON"),
        (json.dumps(order(1)).encode(), "bad_envelope", "'op', which is a text"),
        (b'{"schema": {}, "payload": null}', "bad_envelope", "'payload', which is an object"),
        (envelope("c", order(1), None), "bad_envelope", "'after', which is an object"),
        (
            envelope("t", None, None),
            "bad_envelope",
            "'t' says that the table was emptied",
        ),
        (envelope("", None, order(1)), "bad_envelope", "'' is none of c, r, u and d"),
        (envelope("cr", None, order(1)), "bad_envelope", "'cr' is none of c, r, u and d"),
        (envelope("c", None, order(1) | {"more": 1}), "unknown_field", "'more' is not declared"),
        (envelope("c", None, order(1) | {"total": None}), "missing_field", "'total' is missing or null"),
        (envelope("c", None, order(1) | {"total": 1.5}), "wrong_type", "must be decimal"),
        (envelope("c", None, order(1)).replace(b'"who":', b'"order_id":'), "duplicate_field", "'order_id'"),
        (envelope("c", None, order(1)).replace(b'"op"', b'"op":"r","op"'), "duplicate_field", "'op'"),
        (envelope("d", order(1) | {"order_id": None}, None), "bad_punctuation", "no value for 'order_id'"),
        (envelope("c", None, order(1)).replace(b"mysql", rb"\ud800"), "not_utf8", "no Unicode"),
        (envelope("c", None, order(1)).replace(b"1154", b"NaN"), "malformed", "NaN"),
        (envelope("c", None, order(1), wrapped=True).replace(b"false", b"NaN", 1), "malformed", "NaN"),
        (envelope("c", None, order(1), wrapped=True).replace(b"[{", b"[" * 5000 + b"{"), "malformed", ""),
        (b'{"payload": 1, ' + envelope("c", None, order(1), wrapped=True)[1:], "duplicate_field", "payload"),
    ],
)
def test_what_is_no_envelope_says_why(value: bytes, reason: str, error: str) -> None:
    """Its bytes are kept, and good ones around it are read."""
    parsed = parse(envelope("c", None, order(8)), value, envelope("r", None, order(9), wrapped=True))

    assert ids(parsed) == [8, 9]
    [rejection] = parsed.rejections
    assert (rejection.at, rejection.reason, rejection.value) == (1, reason, value)
    assert error in rejection.error


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_row_without_a_value_that_the_database_did_not_log_is_rejected(wrapped: bool) -> None:
    """The mark in its place would overwrite the value in a table of the newest rows."""
    marked = order(2) | {"who": "__debezium_unavailable_value"}
    values = [
        envelope("u", None, order(1), wrapped=wrapped),
        envelope("u", None, marked, wrapped=wrapped),
        envelope("u", None, order(3) | {"total": "1.234"}, wrapped=wrapped),
        envelope("r", None, order(4), wrapped=wrapped),
    ]

    parsed = without_unavailable(parse(*values, updates=True), pa.array(values, pa.binary()))

    assert (ids(parsed), parsed.row_at.tolist()) == ([1, 4], [0, 3])
    assert [(each.at, each.reason) for each in parsed.rejections] == [(1, "unavailable"), (2, "bad_value")]
    assert parsed.rejections[0].value == values[1]
    assert "did not get the value of 'who'; let the table log whole rows" in parsed.rejections[0].error
