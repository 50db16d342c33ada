"""The parsers of other formats against the readers of `verify`, with which they share no code."""

from __future__ import annotations

import base64
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Stream
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import RecordPart
from endmark.types import JoinType
from endmark.verify.formats.members import by_columns
from endmark.verify.formats.registry import FORMATS as READERS
from endmark.verify.formats.registry import reason_of
from endmark.wire.json.records import Parsed
from support.bucket_tasks import BucketTasks, total
from support.cases import cases
from support.formats import NO_RECORD, envelope, said
from support.formats import xml as as_xml
from support.payload_mutants import FRAGMENTS
from support.payloads import ALIVE, ALIVE_NUMBERS, DEAD_NUMBERS, HEARTBEAT, IN_NUMBERS, PIPELINE
from support.record_parts import in_parts
from support.sizes import SIZES
from support.verify_fates import Promise, fate
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import bid, locate, raw

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
    ]
    + [as_xml(json.loads(HEARTBEAT), BIDS)],
}

# Columns of bids in inner objects, of which one is in the key.
NESTED = BIDS.model_copy(
    update={
        "taken_from": {
            "item_id": RecordPart.parse("value.in.item_id"),
            "seller_id": RecordPart.parse("value.in.deep.seller_id"),
            "urgent": RecordPart.parse("value.in.deep.urgent"),
            "note": RecordPart.parse("value.of-note"),
            "tip": RecordPart.parse("value.tip.of"),
        },
        "columns": {
            name: replace(kind, nullable=name in "tip urgent") for name, kind in BIDS.columns.items()
        },
    }
)
_ROWS = [in_parts(NO_RECORD, row, NESTED, place)[1] for row in (ROW, ROWS[0]) for place in (0, 1, 7, 23)]
_ROWS.append({**_ROWS[0], "tip": None})
_MORE = [
    b'"in":null,',
    b'"in":5,',
    b'"deep":{},',
    b'"deep":{"urgent":true},',
    b'"urgent":null,',
    b'"more":{"in":[{}]},',
    rb'"\u0069n":{},',
    b'"$punctuation":{},',
    b'"__deleted":"true",',
]
for kind in ("json", "debezium"):
    TOKENS[f"nested {kind}"] = TOKENS["debezium"] + _MORE
SEEDS["nested json"] = [json.dumps(row).encode() for row in _ROWS]
SEEDS["nested json"] += [json.dumps({"$punctuation": {"item_id": {"equals": 7}}}).encode(), HEARTBEAT]
SEEDS["nested debezium"] = [
    envelope(op, row if op == "d" else None, row if op != "d" else None, wrapped=wrapped, shuffled=shuffled)
    for op in "crd"
    for row in _ROWS
    for wrapped in (False, True)
    for shuffled in (False, True)
]

for kind in ("json", "debezium"):
    twice = [
        b'"urgent": null, "urgent"',
        b'"item_id": 7, "item_id"',
        b'"deep": {}, "deep"',
        b'"of": "1", "of"',
    ]
    SEEDS[f"nested {kind}"] += [
        SEEDS[f"nested {kind}"][0].replace(again.rpartition(b" ")[2], again, 1) for again in twice
    ]


def declared(kind: str, updates: str = "dead_letter") -> Stream:
    return BIDS.model_copy(update={"format": kind, "updates": updates})


def fates(stream: Stream, values: list[bytes | None]) -> list[Any]:
    """Parse all values, and return the fate of each: columns of a row, a closed key, `promise`, `skipped`, or
    `dead letter`. Each rejection has the reason that `verify` finds."""
    parsed = parse(stream, values)
    found: dict[int, Any] = {}
    found.update(zip(parsed.row_at.tolist(), parsed.rows.to_pylist(), strict=True))
    keys = [tuple(key.values()) for key in parsed.closed_keys.to_pylist()]
    found.update(zip(parsed.closed_keys_at.tolist(), keys, strict=True))
    found.update((at, "promise") for at, _ in parsed.promises)
    for rejection in parsed.rejections:
        assert rejection.value == values[rejection.at]
        assert rejection.reason == reason_of(rejection.value, stream), rejection
        found[rejection.at] = "dead letter"
    assert list(parsed.row_at) == sorted(parsed.row_at)
    assert list(parsed.closed_keys_at) == sorted(parsed.closed_keys_at)
    assert parsed.skipped == len(values) - len(found)
    return [found.get(at, "skipped") for at in range(len(values))]


def parse(stream: Stream, values: list[bytes | None]) -> Parsed:
    parser = FORMATS[stream.format].parser(stream, "bids", stream.punctuated_on, stream.punctuated_on, None)
    return parser.parse(pa.array(values, pa.binary()))


def plain(stream: Stream, value: bytes) -> Any:
    """Return the fate of one value by the reader of `verify`, in the form that `fates` has."""
    flat, skips = READERS[stream.format].flat, READERS[stream.format].skips
    if skips is not None and skips(value, stream):
        return "skipped"
    read = value if flat is None else flat(value, stream)
    if flat is None and stream.taken_from:
        members = by_columns(value, stream)
        read = json.dumps(members, ensure_ascii=False).encode() if isinstance(members, dict) else members
    found = fate(stream, read)
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
@cases(25, among=4)
@given(values=st.lists(mutants("debezium"), min_size=1, max_size=30))
def test_envelopes_meet_the_same_fate(values: list[bytes], updates: str) -> None:
    """However small cuts and insertions change them, and in whatever company."""
    stream = declared("debezium", updates)

    assert fates(stream, list(values)) == [plain(stream, value) for value in values]


@pytest.mark.parametrize("extra", ["dead_letter", "ignore"])
@pytest.mark.parametrize("kind", ["json", "debezium"])
@cases(20, among=4)
@given(data=st.data())
def test_members_of_inner_objects_meet_the_same_fate(data: st.DataObject, kind: str, extra: str) -> None:
    """Whatever they are, whether they are missing, stand twice, or have others beside them."""
    stream = NESTED.model_copy(update={"format": kind, "extra": extra})
    values = data.draw(st.lists(mutants(f"nested {kind}"), min_size=1, max_size=30))

    assert fates(stream, list(values)) == [plain(stream, value) for value in values]


@cases(25, among=4)
@given(values=st.lists(mutants("debezium"), min_size=1, max_size=30))
def test_deletions_have_no_effect_without_a_primary_key(values: list[bytes]) -> None:
    stream = declared("debezium").model_copy(update={"punctuated_on": ()})

    assert fates(stream, list(values)) == [plain(stream, value) for value in values]


@cases(25, among=2)
@given(values=st.lists(mutants("xml"), min_size=1, max_size=30))
def test_xml_meets_the_same_fate(values: list[bytes]) -> None:
    stream = declared("xml")

    assert fates(stream, list(values)) == [plain(stream, value) for value in values]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("xml", b"<record><item_id>%s</item_id></record>" % (b"9" * 5_000)),
        ("xml", as_xml(ROW, BIDS).replace(b"> 7", b"> " + b"7" * 5_000)),
        ("debezium", b'{"op": "c", "after": {"item_id": %s}}' % (b"9" * 5_000)),
        ("debezium", envelope("c", None, ROW).replace(b":7,", b":%s," % (b"7" * 5_000))),
        ("debezium", envelope("c", None, ROW).replace(b'"ts_ms":1', b'"ts_ms":' + b"1" * 5_000)),
    ],
)
def test_numbers_longer_than_python_reads_meet_the_same_fate(kind: str, value: bytes) -> None:
    stream = declared(kind)

    assert fates(stream, [value]) == [plain(stream, value)]


@pytest.mark.parametrize("kind", ["xml", "debezium"])
def test_numbers_meet_the_same_fate(kind: str) -> None:
    """Numbers in range and out of it, and what is none, are read in other formats as in JSON."""
    stream = IN_NUMBERS.streams["bids"].model_copy(update={"format": kind})
    documents = []
    for value in (*(value for value, _ in ALIVE_NUMBERS.values()), *DEAD_NUMBERS.values()):
        try:
            documents.append(json.loads(value, parse_constant=str))
        except ValueError:
            continue
    values = [written for each in documents for written in as_format(each, stream)]
    found = fates(stream, values)

    assert found == [plain(stream, value or b"") for value in values]
    assert 40 < sum(each == "dead letter" for each in found) < len(found) - 20
    assert {type(each) for each in found} >= {dict, tuple, str}


def as_format(document: dict[str, Any], stream: Stream) -> list[bytes | None]:
    """A row, or a punctuation that names values, in the format of a stream."""
    if "$punctuation" not in document:
        if stream.format == "xml":
            return [as_xml(document, stream)]
        return [envelope("c", None, document, wrapped=wrapped) for wrapped in (False, True)]
    patterns = document["$punctuation"]
    if any(pattern.keys() != {"equals"} for pattern in patterns.values()):
        return []
    named = {name: pattern["equals"] for name, pattern in patterns.items()}
    if stream.format == "debezium":
        return [envelope("d", dict.fromkeys(stream.columns) | named, None)]
    texts = "".join(f"<{name}>{json.dumps(value)}</{name}>" for name, value in named.items())
    return [f"<punct:record>{texts}</punct:record>".encode()]


DECIMALS = {
    "json": b'{"$punctuation": {"tip": {"equals": "%s"}}}',
    "json between": b'{"$punctuation": {"tip": {"between": {"from": "%s"}}}}',
    "xml": b"<punct:record><tip>%s</tip></punct:record>",
    "xml list": b'<punct:record><tip>{"%s", 2}</tip></punct:record>',
    "xml between": b"<punct:record><tip>(, %s]</tip></punct:record>",
    "debezium": envelope("d", dict.fromkeys(ROW) | {"tip": "%s"}, None),
    "debezium, shuffled": envelope("d", dict.fromkeys(ROW) | {"tip": "%s"}, None, shuffled=True),
}
ROWS_OF_DECIMALS = {
    "json": json.dumps(ROW | {"tip": "%s"}).encode(),
    "xml": as_xml(ROW | {"tip": "%s"}, BIDS),
    "debezium": envelope("c", None, ROW | {"tip": "%s"}),
}


@pytest.mark.parametrize(
    ("text", "sound"),
    [("1.5", True), ("1.50", True), ("-0.00", True), ("1.500", False), ("0.000", False), ("10000", False)],
)
@pytest.mark.parametrize("written", DECIMALS)
def test_a_decimal_is_spelled_with_no_more_digits_than_its_column(
    written: str, text: str, sound: bool
) -> None:
    """In rows and punctuations of every format alike, whatever the digits too many are."""
    kind = written.replace(",", "").split(maxsplit=1)[0]
    stream = declared(kind).model_copy(update={"punctuated_on": ("tip",)})
    template = DECIMALS[written], ROWS_OF_DECIMALS[kind]
    values: list[bytes | None] = [each.replace(b"%s", text.encode()) for each in template]

    found = fates(stream, values)

    assert [each != "dead letter" for each in found] == [sound, sound]
    assert found == [plain(stream, value or b"") for value in values]


MARK = b"__debezium_unavailable_value"
MARKS = [MARK, MARK.replace(b"_", rb"\u005f"), base64.b64encode(MARK), MARK.hex().encode()]


def test_a_mark_in_the_place_of_a_value_is_no_text(tmp_path: Path) -> None:
    """A flattened change of Debezium has it, too, and a value of bytes has it in Base64 or in digits."""
    texts = [b"n", *MARKS, MARK.upper()]
    value = json.dumps(ROW | {"note": "%s"}).encode()
    bids = [raw("bids", value.replace(b"%s", text)) for text in texts]
    tasks = BucketTasks(PIPELINE, sellers_of(PIPELINE), 2, tmp_path)
    located = locate(bids)

    found = total(tasks.batch(batch) for batch in (located, []))

    letters = {letter["offset"]: letter["reason"] for letter in found["dead_letters"]}
    assert letters == dict.fromkeys([1, 2, 3, 4], "unavailable")
    with recomputed(PIPELINE, bids, found) as session:
        require_within(session, PIPELINE)


@cases(5, among=16)
@given(data=st.data(), kind=st.sampled_from(JoinType), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_tables_equal_their_recomputation(data: st.DataObject, kind: JoinType, keys: KeyKind) -> None:
    """Whatever formats the streams have."""
    pipeline = data.draw(pipelines(kind, keys, formats=True, gaps=True))
    sizes = data.draw(SIZES)
    records = said(data.draw(histories(keys, sizes.partitions, pipeline.streams)), pipeline.streams)
    size = data.draw(st.integers(1, 20))
    with tempfile.TemporaryDirectory() as directory:
        sellers, buckets = sellers_of(pipeline), sizes.buckets
        tasks = BucketTasks(pipeline, sellers, sizes.partitions, Path(directory), buckets=buckets)
        located = locate(records)
        found = total(
            tasks.batch(located[at : at + size]) for at in [*range(0, len(located), size), len(located)]
        )

    with recomputed(pipeline, records, found, sizes.partitions) as session:
        require_within(session, pipeline)
