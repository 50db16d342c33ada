"""Columns from keys, headers and timestamps of records, and the errors of records that lack them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from endmark.engine.streams import stream_plans
from endmark.kafka.ranges import HEADERS, KEY, RECORDS
from endmark.pipeline import Pipeline
from endmark.wire.json.records import Parsed
from endmark.wire.record_columns import RecordColumns

TIME = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
Header = tuple[str, bytes | None]


def taken(columns: dict[str, str], taken_from: dict[str, str]) -> RecordColumns:
    """The columns beside the value of a stream that has `at` and `n` in its value."""
    stream = {
        "topic": "orders",
        "columns": {"n": "long", **columns, "at": "timestamp"},
        "taken_from": taken_from,
        "event_time": {"column": "at"},
        "punctuated_on": "n",
    }
    document = {"name": "parts", "streams": {"orders": stream}, "tables": {"orders": {"from": "orders"}}}
    plan = stream_plans(Pipeline.model_validate(document), {"orders": 1})["orders"]
    assert plan.beside_value is not None
    return plan.beside_value


def added(
    columns: RecordColumns,
    *records: tuple[bytes | None, Sequence[Header] | None, int],
) -> tuple[list[dict[str, Any]], list[tuple[int, str, str]]]:
    """The rows of records with a key, headers and a timestamp in ms, and the rejections among them.

    Each second record is no row by its value.
    """
    count = 2 * len(records)
    batch = pa.record_batch(
        [
            pa.array(["orders"] * count),
            pa.array([0] * count, pa.int32()),
            pa.array(range(count), pa.int64()),
            pa.array([1000 * each[2] for each in records for _ in range(2)], pa.timestamp("us", "UTC")),
            pa.array([b"%d" % at for at in range(count)], pa.binary()),
            pa.array([each[0] for each in records for _ in range(2)], KEY.type),
            pa.array([each[1] for each in records for _ in range(2)], HEADERS.type),
        ],
        schema=RECORDS.append(KEY).append(HEADERS),
    )
    rows = pa.record_batch(
        [pa.array(range(len(records))), pa.array([TIME] * len(records), pa.timestamp("us", "UTC"))],
        ["n", "at"],
    )
    at, none = np.arange(0, count, 2), pa.record_batch({})
    found = columns.reader().added(Parsed(rows, at, none, np.zeros(0, np.int64), [], []), batch)
    assert found.rows.schema.names == list(columns.columns)
    assert found.rows.num_rows == len(found.row_at)
    assert [each.value for each in found.rejections] == [b"%d" % each.at for each in found.rejections]
    shown = [
        {name: value for name, value in row.items() if name not in ("n", "at")}
        for row in found.rows.to_pylist()
    ]
    return shown, [(each.at // 2, each.reason, each.error) for each in found.rejections]


def test_a_key_a_header_and_the_timestamp_become_columns() -> None:
    """The last header of a name counts, and a missing one is null."""
    columns = taken(
        {"user": "string?", "tenant": "long?", "sent_at": "timestamp"},
        {"user": "key", "tenant": "header.x.tenant", "sent_at": "timestamp"},
    )

    rows, rejected = added(
        columns,
        (b"ann", [("x.tenant", b"1"), ("other", b"\xff"), ("x.tenant", b"2")], 1767323045678),
        (None, [], 0),
        (b"", [("x.tenant", None)], -2),
    )

    assert columns.needs == {"key", "headers"}
    assert rejected == []
    assert rows == [
        {"user": "ann", "tenant": 2, "sent_at": TIME},
        {"user": None, "tenant": None, "sent_at": datetime(1970, 1, 1, tzinfo=UTC)},
        {"user": "", "tenant": None, "sent_at": datetime(1969, 12, 31, 23, 59, 59, 998000, UTC)},
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", b"-42", -42),
        ("int", b"7", 7),
        ("double", b"1e3", 1000.0),
        ("boolean", b"true", True),
        ("string", 'a "b" \\ \u00fc\n'.encode(), 'a "b" \\ \u00fc\n'),
        ("date", b"2026-01-31", date(2026, 1, 31)),
        ("timestamp", b"2026-01-02T05:04:05.678+02:00", TIME),
        ("timestamp(ms)", b"1767323045678", TIME),
        ("date(days)", b"20484", date(2026, 1, 31)),
        ("decimal(6,2)", b"-12.50", Decimal("-12.50")),
    ],
)
def test_a_text_spells_a_value_of_any_type_without_quotes(kind: str, text: bytes, value: Any) -> None:
    """In a header and in a key alike, and beside a text that spells none."""
    for part, records in {
        "header.h": ((None, [("h", text)], 0), (None, [("h", b"\xff")], 0)),
        "key": ((text, [], 0), (b"\xff", [], 0)),
    }.items():
        rows, rejected = added(taken({"c": kind}, {"c": part}), *records)

        assert rows == [{"c": value}]
        assert [each[:2] for each in rejected] == [(1, f"bad_{part.partition('.')[0]}")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", b'"42"'),
        ("long", b" 42"),
        ("long", b"042"),
        ("long", b"9223372036854775808"),
        ("long", b'1,"it":2'),
        ("int", b"2147483648"),
        ("double", b"NaN"),
        ("double", b"1e999"),
        ("boolean", b"True"),
        ("date", b"2026-02-30"),
        ("timestamp", b"2026-01-02 05:04:05"),
        ("timestamp(s)", b"9999999999999"),
        ("decimal(6,2)", b"1.234"),
        ("decimal(6,2)", b"1e1"),
        ("long?", b""),
        ("long?", b"null"),
    ],
)
def test_a_text_that_is_no_value_of_its_column_is_rejected(kind: str, text: bytes) -> None:
    """Even if the column is nullable, since something was sent. The error has the text and an example."""
    rows, [(_, reason, error)] = added(taken({"c": kind}, {"c": "header.h"}), (None, [("h", text)], 0))

    assert (rows, reason) == ([], "bad_header")
    assert error.startswith(f"column 'c' must be {kind} like ")
    assert error.endswith(f"the record's header 'h' is {text.decode()!r}")


def test_headers_that_cannot_be_read_are_rejected_even_if_they_may_be_missing() -> None:
    """The one that is asked for may be among them."""
    columns = taken({"c": "string?"}, {"c": "header.h"})

    rows, [(_, reason, error)] = added(columns, (None, [("h", b"1")], 0), (None, None, 0))

    assert (rows, reason) == ([{"c": "1"}], "bad_header")
    assert "let the producer name all of them in UTF-8" in error


@pytest.mark.parametrize(
    ("part", "kind", "reason", "of"),
    [
        ("key", "long", "bad_key", "is the record's key"),
        ("key.id", "long", "bad_key", "is in the record's key"),
        ("header.h", "string", "bad_header", "is the record's header 'h'"),
        ("timestamp", "timestamp", "bad_timestamp", "is the record's timestamp"),
    ],
)
def test_a_missing_part_is_rejected_unless_it_may_be_null(part: str, kind: str, reason: str, of: str) -> None:
    """The error says what to do."""
    missing: tuple[None, list[Header], int] = (None, [("other", b"1")], -1)

    assert added(taken({"c": f"{kind}?"}, {"c": part}), missing) == ([{"c": None}], [])
    rows, [(_, found, error)] = added(taken({"c": kind}, {"c": part}), missing)
    assert (rows, found) == ([], reason)
    assert error == (
        f"column 'c' {of}, and there is none; let the producer send it, or declare the column {kind}?, so "
        "that it is null then"
    )


def test_members_of_a_key_in_json_become_columns() -> None:
    """Other members of the key may be anything."""
    columns = taken({"id": "long", "region": "string?"}, {"id": "key.payload.id", "region": "key.region"})

    rows, rejected = added(
        columns,
        (b'{"schema": [1, {}], "payload": {"id": 7, "id2": null}, "region": "eu"}', [], 0),
        (rb'{"payload": {"id": 8}, "region": "\u00fc"}', [], 0),
        (b'{"payload": {"id": 1, "id": 2}}', [], 0),
        (b'{"payload": null}', [], 0),
        (b'{"payload": 5}', [], 0),
        (b"7", [], 0),
        (b"", [], 0),
        (b'{"$punctuation": {"id": {"equals": 7}}}', [], 0),
        (json.dumps({"payload": {"id": 2**63}}).encode(), [], 0),
    )

    assert columns.needs == {"key"}
    assert rows == [{"id": 7, "region": "eu"}, {"id": 8, "region": "\u00fc"}]
    assert [at for at, _, _ in rejected] == [2, 3, 4, 5, 6, 7, 8]
    assert {reason for _, reason, _ in rejected} == {"bad_key"}
    assert [error for _, _, error in rejected][:4] == [
        "the record's key: member 'id' stands twice",
        "the record's key: field 'payload.id' is missing or null",
        "the record's key: field 'payload' must be an object or null, but is 5",
        "the record's key: a record is a JSON object, this is int",
    ]


def test_a_timestamp_beyond_the_years_of_a_timestamp_is_rejected() -> None:
    """A producer may send any number."""
    columns = taken({"c": "timestamp"}, {"c": "timestamp"})
    last = 253_402_300_799_999

    rows, rejected = added(columns, (None, [], last), (None, [], last + 1), (None, [], -62_135_596_800_001))

    assert [row["c"].year for row in rows] == [9999]
    assert [each[:2] for each in rejected] == [(1, "bad_timestamp"), (2, "bad_timestamp")]
    assert columns.needs == frozenset()


def test_the_first_unfit_part_gives_the_reason() -> None:
    """The key comes before the header, whatever the order of the columns."""
    columns = taken({"a": "long", "b": "long"}, {"a": "header.h", "b": "key"})

    rows, [(_, reason, _)] = added(columns, (b"x", [("h", b"x")], 0))

    assert (rows, reason) == ([], "bad_key")
