"""The parsers of other formats against the readers of `verify`, with which they share no code."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.formats.debezium import DebeziumParser
from endmark.formats.json_records import Parsed
from endmark.formats.xml_records import XmlParser
from endmark.pipeline import Stream
from endmark.types import JoinType
from endmark.verify import debezium, xml
from support.bucket_tasks import BucketTasks, total
from support.cases import cases
from support.formats import envelope, said
from support.formats import xml as as_xml
from support.payload_mutants import FRAGMENTS
from support.payloads import ALIVE, PIPELINE
from support.verify_fates import Promise, fate
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, bid, locate

BIDS = PIPELINE.streams["bids"]
ROW = json.loads(bid(7, 1.5).value or b"")
ROWS = [json.loads(value) for name, (value, told) in ALIVE.items() if isinstance(told, dict)]
TOKENS = {
    "debezium": [
        b'"op":"d",',
        b'"payload":1,',
        b'"item_id":7,',
        b"null",
        b"NaN",
        rb"\ud800",
        b",}",
        b"{}",
        b"[[",
    ],
    "xml": [
        b"<!DOCTYPE a>",
        b"&lt;",
        b"&a;",
        b"<![CDATA[1]]>",
        b"<!-- 1 -->",
        b"<?a 1?>",
        b"<item_id>7</item_id>",
        b" a='1'",
        b"*",
        b"{1, 2}",
        b"[1, 2)",
        b'"7"',
        b"&#55;",
        b"\xc2\xa0",
        b"\x85",
        b"-",
        b"true",
    ],
}
XML_FRAGMENTS = [*b"<>/&;!?='\"{}[](),* \n\t\r0123456789.eE+-atf", *b"\x00\x0b\x7f\xff\xed\xc3\xa9"]
SEEDS = {
    "debezium": [
        envelope(
            op, row if op in "ud" else None, row if op != "d" else None, wrapped=wrapped, shuffled=shuffled
        )
        for op in "crudt"
        for row in (ROW, ROWS[0])
        for wrapped in (False, True)
        for shuffled in (False, True)
    ]
    + [
        envelope("d", dict.fromkeys(ROW) | {"item_id": 7}, None),
        envelope("c", None, ROW, wrapped=True).replace(b"false", b"Infinity", 1),
        envelope("c", None, ROW, shuffled=True).replace(b'"op"', b'"op":"r","op"'),
        envelope("d", ROW, None).replace(b'"item_id"', b'"item_id":7,"item_id"'),
    ],
    "xml": [as_xml(row, BIDS) for row in (ROW, ROWS[0], ROW | {"note": "\u00a0a\u00a0"})]
    + [as_xml(ROW, BIDS).replace(b"> 7", b'> "7"'), b"<p:row><item_id>7</item_id></p:row>"]
    + [
        as_xml({"$punctuation": {"item_id": pattern}}, BIDS)
        for pattern in (
            {"equals": 7},
            {"one_of": [7, 8]},
            {"between": {"from": 1, "to": 7, "to_open": True}},
            {"between": {"to": 7}},
            {"nothing": True},
            {"anything": True},
        )
    ],
}


def declared(kind: str, updates: str = "dead_letter") -> Stream:
    return BIDS.model_copy(update={"format": kind, "updates": updates})


def fates(stream: Stream, values: list[bytes | None]) -> list[Any]:
    """What the engine makes of records: columns of a row, a closed key, `promise` or `dead letter`."""
    parsed = parse(stream, values)
    found: dict[int, Any] = {}
    found.update(zip(parsed.row_at.tolist(), parsed.rows.to_pylist(), strict=True))
    keys = [tuple(key.values()) for key in parsed.closed.to_pylist()]
    found.update(zip(parsed.closed_at.tolist(), keys, strict=True))
    found.update((at, "promise") for at, _ in parsed.promises)
    for rejection in parsed.rejections:
        assert rejection.value == values[rejection.at]
        found[rejection.at] = "dead letter"
    assert list(parsed.row_at) == sorted(parsed.row_at)
    assert list(parsed.closed_at) == sorted(parsed.closed_at)
    return [found[at] for at in range(len(values))]


def parse(stream: Stream, values: list[bytes | None]) -> Parsed:
    on = stream.punctuated_on
    if stream.format == "xml":
        parsed = XmlParser(stream.columns, on, "bids", key=on).parse(pa.array(values, pa.binary()))
    else:
        updates = stream.updates == "rows"
        parser = DebeziumParser(stream.columns, on, "bids", key=on, updates=updates)
        parsed = parser.parse(pa.array(values, pa.binary()))
    return parsed


def plain(stream: Stream, value: bytes) -> Any:
    """As `fates` tells it, by what `verify` reads."""
    flat = {"xml": xml.flat, "debezium": debezium.flat}[stream.format](value, stream)
    found = fate(stream, flat)
    return "promise" if isinstance(found, Promise) else found


@st.composite
def mutants(draw: st.DrawFn, kind: str) -> bytes:
    """A sound record with a few small cuts and insertions."""
    value = draw(st.sampled_from(SEEDS[kind]))
    fragments = st.sampled_from(XML_FRAGMENTS if kind == "xml" else FRAGMENTS).map(lambda each: bytes([each]))
    for _ in range(draw(st.integers(0, 3))):
        start, cut = draw(st.integers(0, len(value))), draw(st.integers(0, 3))
        inserted = draw(st.one_of(st.just(b""), st.sampled_from(TOKENS[kind]), fragments))
        value = value[:start] + inserted + value[start + cut :]
    return value


@pytest.mark.parametrize("updates", ["dead_letter", "rows"])
@cases(150, among=4)
@given(values=st.lists(mutants("debezium"), min_size=1, max_size=30))
def test_envelopes_meet_the_same_fate(values: list[bytes], updates: str) -> None:
    """However small cuts and insertions change them, and in whatever company."""
    stream = declared("debezium", updates)

    assert fates(stream, list(values)) == [plain(stream, value) for value in values]


@cases(150, among=2)
@given(values=st.lists(mutants("xml"), min_size=1, max_size=30))
def test_xml_meets_the_same_fate(values: list[bytes]) -> None:
    stream = declared("xml")

    assert fates(stream, list(values)) == [plain(stream, value) for value in values]


@cases(60, among=20)
@given(data=st.data(), kind=st.sampled_from(JoinType), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_tables_equal_their_recomputation(data: st.DataObject, kind: JoinType, keys: KeyKind) -> None:
    """Whatever formats the streams have."""
    pipeline = data.draw(pipelines(kind, keys, formats=True))
    records = said(data.draw(histories(keys, pipeline.streams)), pipeline.streams)
    size = data.draw(st.integers(1, 20))
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, Path(directory))
        located = locate(records)
        found = total(
            tasks.batch(located[at : at + size]) for at in [*range(0, len(located), size), len(located)]
        )

    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)
