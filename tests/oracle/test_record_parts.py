"""Columns from keys, headers and timestamps, against the reading of `verify`, which shares no code."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.engine.streams import stream_plans
from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.formats.beside_value import beside_value
from endmark.wire.json.records import Parsed
from support.bucket_tasks import Located, kafka_batch
from support.cases import cases
from support.numbers import LIMITS
from support.payload_mutants import FRAGMENTS
from support.verify_fates import fate
from support.verify_world import Placed

KINDS = [
    *("long", "int", "double", "float", "string", "boolean", "decimal(6,2)", "date", "date(days)"),
    *("timestamp", "timestamp(s)", "timestamp(ms)", "timestamp(us)"),
]
SPELLED: list[bytes] = [
    *(
        b"",
        b"0",
        b"-0",
        b"7",
        b"-42",
        b"007",
        b"+7",
        b"1.5",
        b"1e3",
        b"-1E-2",
        b"1e400",
        b"3.5e38",
        b"1.",
        b".5",
    ),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"9" * 5_000, b"NaN", b"inf"),
    *(b"true", b"false", b"True", b"null", b'"7"', b"7\n", b" 7", b"7 ", b"7\0", b"1,2", b'1}{"it":2', b"[]"),
    *(b"12.50", b"-0.00", b"1.500", b"10000", b"9999.99", b"-9999.995", b"0.1", b"00.1"),
    *(b"2026-01-31", b"2026-02-30", b"0000-01-01", b"0001-01-01", b"9999-12-31", b"2026-1-31", b"20260131"),
    *(b"2026-01-31T00:00:00Z", b"2026-01-31T23:59:59.999999+18:00", b"2026-01-31T00:00:00.1234567Z"),
    *(
        b"0001-01-01T00:00:00+00:01",
        b"9999-12-31T23:59:59-00:01",
        b"2026-01-31T24:00:00Z",
        b"2026-01-31T00:00:60Z",
    ),
    *("\u00fc \U0001f600 \u0667".encode(), b"\xff", b"\xed\xa0\x80", b"a\\u0041", b'a"b', b"\n"),
    *(b"%d" % (end + step) for ends in LIMITS.values() for end in ends for step in (-1, 0, 1)),
]
KEYS: list[bytes] = [
    *(b'{"c": %s, "d": {"e": %s}}', b'{"d": {"e": %s, "more": [{"c": 1}]}, "c": %s, "more": {}, "more": 1}'),
    *(
        b'{"c": %s, "c": %s}',
        b'{"d": null, "c": %s}',
        b'{"d": {"e": %s}}',
        b'{"d": 5, "c": %s}',
        b'{"d": {"e": %s}',
    ),
    *(b"[%s]", b'{"$punctuation": {"c": {"equals": %s}}}', b'{"c": %s, "$punctuation": 1}'),
    *(rb'{"\u0063": %s, "d": {"\u0065": 7}}', b'{"c": %s, "d": {"e": 7, "e": 7}}', b'{"c": %s,}', b"\xff%s"),
]


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A text that some type may spell, with a few small cuts and insertions, or none."""
    value = draw(st.sampled_from(SPELLED))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        start, cut = draw(st.integers(0, len(value))), draw(st.integers(0, 2))
        value = value[:start] + bytes([draw(st.sampled_from(FRAGMENTS))]) + value[start + cut :]
    return value


@st.composite
def keys(draw: st.DrawFn) -> bytes:
    """A key in JSON, or almost. Its values are texts of any type, with or without quotes."""
    value = draw(st.sampled_from(KEYS))
    while b"%s" in value:
        text = draw(texts())
        quoted = draw(st.sampled_from([text, b'"%s"' % text]))
        value = value.replace(b"%s", quoted.replace(b"%s", b""), 1)
    return value


def require_same(columns: dict[str, str], parts: dict[str, str], records: list[Placed]) -> int:
    """Assert that all records get the same columns, or reason, by definition; return the number of rows."""
    stream = {
        "topic": "orders",
        "columns": {**columns, "at": "timestamp"},
        "taken_from": parts,
        "event_time": {"column": "at"},
    }
    document = {
        "name": "parts",
        "streams": {"orders": stream},
        "tables": {"orders": {"from": "orders"}},
        "unbounded_state": "allow",
    }
    pipeline = Pipeline.model_validate(document)
    declared, taken = pipeline.streams["orders"], stream_plans(pipeline, {"orders": 1})["orders"].beside_value
    assert taken is not None
    located: list[Located] = list(records)
    own = pa.record_batch([pa.array([0] * len(records), pa.timestamp("us", "UTC"))], ["at"])
    at, none = np.arange(len(records)), np.zeros(0, np.int64)
    parsed = Parsed(own, at, pa.record_batch({}), none, [], [])
    rows = taken.reader().added(parsed, kafka_batch(located))
    found: dict[int, Any] = {each.at: each.reason for each in rows.rejections}
    found.update(zip(rows.row_at.tolist(), rows.rows.drop_columns(["at"]).to_pylist(), strict=True))

    bare = declared.model_copy(
        update={"columns": {name: ColumnType.parse(kind) for name, kind in columns.items()}, "taken_from": {}}
    )
    for place, record in enumerate(records):
        headers = [{"name": name, "value": value} for name, value in record.headers]
        values, reason = beside_value({**record._asdict(), "headers": headers}, declared)
        expected: Any = reason or dict.fromkeys(columns)  # of nulls, which `fate` takes for no row
        if values and reason is None:
            expected = fate(bare, json.dumps(values, ensure_ascii=False).encode())
        assert found[place] == expected, record
    return int(rows.rows.num_rows)


@pytest.mark.parametrize("nullable", ["", "?"])
@pytest.mark.parametrize("kind", KINDS)
def test_listed_texts_of_each_type(kind: str, nullable: str) -> None:
    """In headers and keys, beside each other and missing ones."""
    records = [
        Placed("orders", 0, at, b"", 0, key, (("h", b"old"), ("h", header), ("other", key)))
        for at, (key, header) in enumerate(
            (key, header) for text in [*SPELLED, None] for key, header in ((text, b"7"), (b"7", text))
        )
    ]
    for part in ("key", "header.h"):
        assert require_same({"c": kind + nullable}, {"c": part}, records) > (kind in ("long", "string"))


@cases(30, among=2)
@given(data=st.data())
def test_any_texts(data: st.DataObject) -> None:
    """Columns of any type from one key and two headers of records."""
    kind = st.builds(
        lambda kind, nullable: kind + nullable, st.sampled_from(KINDS), st.sampled_from(["", "?"])
    )
    columns = {name: data.draw(kind) for name in ("a", "b", "c")} | {"d": "timestamp?"}
    parts = {"a": "key", "b": "header.h", "c": "header.x.y", "d": "timestamp"}
    text = st.one_of(texts(), texts(), st.none())
    times = st.sampled_from([-1, 0, 1_769_860_800_123, -2, 253_402_300_799_999, 253_402_300_800_000, 2**50])
    records = [
        Placed("orders", 0, at, b"", data.draw(times), data.draw(text), tuple(headers))
        for at in range(data.draw(st.integers(1, 10)))
        for headers in [
            [
                (name, data.draw(text))
                for name in data.draw(st.lists(st.sampled_from(["h", "x.y", "x"]), max_size=4))
            ]
        ]
    ]
    require_same(columns, parts, records)


@cases(30, among=2)
@given(data=st.data())
def test_any_keys_in_json(data: st.DataObject) -> None:
    kind = st.builds(
        lambda kind, nullable: kind + nullable, st.sampled_from(KINDS), st.sampled_from(["", "?"])
    )
    columns = {name: data.draw(kind) for name in ("c", "e")}
    sent = data.draw(st.lists(st.one_of(keys(), keys(), keys(), st.none()), min_size=1, max_size=20))
    records = [Placed("orders", 0, at, b"", 0, key) for at, key in enumerate(sent)]
    require_same(columns, {"c": "key.c", "e": "key.d.e"}, records)
