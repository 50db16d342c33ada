"""XML records: MJoin's own, values of every type, and what a hardened reader refuses."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.punctuation.pattern import Between, OneOf
from endmark.types import ColumnType
from endmark.wire.json.records import Parsed
from endmark.wire.record_spec import RecordSpec
from endmark.wire.xml_records import XmlParser
from support.bucket_tasks import BucketTasks, Located
from support.formats import xml
from support.verify_recompute import recomputed, require_within
from support.verify_world import STAMPED, Record, bid, make_pipeline

NEWS = {"sno": ColumnType.LONG, "ipaddr": ColumnType.STRING}
EVERYTHING = {
    "n": ColumnType.LONG,
    "x": ColumnType.DOUBLE,
    "yes": ColumnType.BOOLEAN,
    "s": ColumnType.STRING,
    "fee": ColumnType.decimal(6, 2),
    "day": ColumnType.DATE,
    "at": ColumnType.TIMESTAMP,
}
MOST_BYTES = 65_536
GOOD = b"<record><sno>8</sno><ipaddr>1.1.1.1</ipaddr></record>"
ROW = (
    "<record><n>-7</n><x>1e3</x><yes>true</yes><s> a <![CDATA[<b>]]>&amp; \u00fc\n</s><fee>1.5</fee>"
    "<day>2026-01-31</day><at>2026-01-31T00:00:00Z</at></record>"
).encode()


def parse(*values: bytes | None, columns: dict[str, ColumnType] = NEWS) -> Parsed:
    key = (next(iter(columns)),)
    parser = XmlParser(RecordSpec(columns, key, "AccessRecord", key=key), most=MOST_BYTES)
    return parser.parse(pa.array(values, pa.binary()))


def test_figure_2() -> None:
    """A news item as the report on MJoin prints it."""
    columns = {"sno": ColumnType.LONG, "title": ColumnType.STRING, "keyword": ColumnType.STRING}
    info = b"""
<info>
<sno> 79 </sno>
<title> Cashless society gets mixed reviews </title>
<keyword> Smart Card </keyword>
</info>
"""

    [row] = parse(info, columns=columns).rows.to_pylist()

    assert row == {"sno": 79, "title": "Cashless society gets mixed reviews", "keyword": "Smart Card"}


def test_figure_3() -> None:
    """The records that it prints, each as a document of its own."""
    parsed = parse(
        b"""
  <record>
    <sno> 79 </sno>
    <ipaddr> 202.112.39.8 </ipaddr>
  </record>
""",
        b"""
  <punct:record>
    <sno> 79 </sno>
    <ipaddr> * </ipaddr>
  </punct:record>
""",
    )

    assert parsed.rows.to_pylist() == [{"sno": 79, "ipaddr": "202.112.39.8"}]
    assert (parsed.closed_keys.to_pylist(), parsed.closed_keys_at.tolist()) == ([{"sno": 79}], [1])
    assert not parsed.rejections


def test_values_of_every_type() -> None:
    [row] = parse(ROW, columns=EVERYTHING).rows.to_pylist()

    assert row == {
        "n": -7,
        "x": 1000.0,
        "yes": True,
        "s": "a <b>& \u00fc",
        "fee": Decimal("1.50"),
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, tzinfo=UTC),
    }


def test_an_empty_or_missing_element_is_null_where_it_may_be() -> None:
    columns = {"sno": ColumnType.LONG} | {
        name: ColumnType.parse(f"{kind}?") for name, kind in EVERYTHING.items()
    }
    names = list(EVERYTHING)
    empty = "".join(f"<{name}> </{name}>" if at % 2 else f"<{name}/>" for at, name in enumerate(names))
    records = [f"<r><sno>1</sno>{inner}</r>".encode() for inner in ("", empty, "<s>null</s>")]

    parsed = parse(*records, b"<r><sno/></r>", b"<r><sno>1</sno><n>null</n></r>", columns=columns)

    nothing = dict.fromkeys(names)
    assert parsed.rows.to_pylist() == [
        {"sno": 1} | each for each in (nothing, nothing, nothing | {"s": "null"})
    ]
    assert [each.reason for each in parsed.rejections] == ["wrong_type", "wrong_type"]


def test_other_elements_are_left_out_where_they_are_ignored() -> None:
    """Whatever they hold. The elements of columns, and punctuations, are as strict as they are."""
    other = b'<no a="1">x<b><sno>7</sno></b></no><no/><p:q>&amp;</p:q>'
    good = GOOD.replace(b"<sno", other + b"<sno")
    bad = [
        (good.replace(b"<sno>", b"<sno>8</sno><sno>"), "malformed"),
        (good.replace(b"<sno>", b'<sno a="1">'), "malformed"),
        (good.replace(b">8<", b"><b>8</b><"), "malformed"),
        (good.replace(b"<sno>", b"text<sno>"), "malformed"),
        (good.replace(b"</b>", b""), "malformed"),
        (good.replace(b"<sno>8</sno>", b""), "missing_field"),
        (b"<punct:record>" + other + b"<sno>8</sno></punct:record>", "malformed"),
        (b"<punct:record><no>1</no><sno>8</sno></punct:record>", "bad_punctuation"),
    ]
    values = pa.array([good, *(value for value, _ in bad), GOOD], pa.binary())
    parser = XmlParser(RecordSpec(NEWS, ("sno",), "s", key=("sno",), ignoring=True), most=MOST_BYTES)

    parsed = parser.parse(values)

    assert parsed.rows.to_pylist() == [{"sno": 8, "ipaddr": "1.1.1.1"}] * 2
    assert parsed.extra == 1
    assert [each.reason for each in parsed.rejections] == [reason for _, reason in bad]


def test_patterns_are_promises() -> None:
    parsed = parse(
        b"<punct:record><sno>{1, 2}</sno></punct:record>",
        b"<punct:record><sno>[1, 9)</sno><ipaddr>*</ipaddr></punct:record>",
    )

    assert [promise.patterns for _, promise in parsed.promises] == [
        (("sno", OneOf(frozenset({1, 2}))),),
        (("sno", Between(1, 9, high_open=True)),),
    ]


@pytest.mark.parametrize(
    ("value", "reason", "error"),
    [
        (b"<record><sno>8</sno>", "malformed", "not XML"),
        (b'{"sno": 8}', "malformed", "not XML"),
        (GOOD + GOOD, "malformed", "not XML"),
        (
            GOOD.replace(b"record", b"punct:row"),
            "bad_punctuation",
            "'punct:row' stands where only punct:record",
        ),
        (b"<record><sno>8</sno><sno>8</sno></record>", "malformed", "stands twice"),
        (b"<record><sno><b>8</b></sno></record>", "malformed", "only flat elements may"),
        (b"<record>8<sno>8</sno></record>", "malformed", "outside of any element"),
        (b'<record><sno unit="a">8</sno></record>', "malformed", "has attributes: unit"),
        (b"<record/>", "missing_field", "'sno' is missing"),
        (b"<record><sno>8</sno></record>", "missing_field", "'ipaddr' is missing"),
        (GOOD.replace(b"<sno", b"<no>1</no><sno"), "unknown_field", "'no' is not declared"),
        (GOOD.replace(b"8", b"08"), "wrong_type", "must be long like 42"),
        (GOOD.replace(b"8", b"9" * 20), "bad_value", "field 'sno': 99999999999999999999 does not fit"),
        (GOOD.replace(b"1.1", b"\xff"), "malformed", "not XML"),
        (GOOD.decode().encode("utf-16"), "malformed", "not XML"),
        (b"<punct:record/>", "bad_punctuation", "names no attribute"),
        (b"<punct:record><sno>x</sno></punct:record>", "bad_punctuation", "x is no long"),
        (b"<punct:record><ipaddr>1</ipaddr></punct:record>", "bad_punctuation", "`punctuated_on`"),
        (b"<!DOCTYPE record>" + GOOD, "malformed", "no document type"),
        (
            b'<!DOCTYPE r [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + GOOD.replace(b"1.1", b"&b;"),
            "malformed",
            "no document type",
        ),
        (
            b'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/hostname">]>' + GOOD.replace(b"1.1", b"&a;"),
            "malformed",
            "no document type",
        ),
        (GOOD.replace(b"1.1", b"&a;"), "malformed", "undefined entity"),
        (b"<a>" * 20_000, "malformed", "flat elements"),
        (GOOD.replace(b"1.1", b"x" * MOST_BYTES), "too_large", "65,536 at most"),
    ],
)
def test_what_is_no_record_says_why(value: bytes | None, reason: str, error: str) -> None:
    """Its bytes are kept, and good ones around it are read."""
    parsed = parse(GOOD, value, GOOD)

    assert parsed.row_at.tolist() == [0, 2]
    [rejection] = parsed.rejections
    assert (rejection.at, rejection.reason, rejection.value) == (1, reason, value)
    assert error in rejection.error


@pytest.mark.parametrize(("declared", "most"), [({}, 65_536), ({"max_record": "200kB"}, 200_000)])
def test_the_file_says_how_large_a_record_may_be(declared: dict[str, Any], most: int, tmp_path: Path) -> None:
    """64 KiB unless it does, since a flat document of 1 MB takes two seconds. `verify` says the same."""
    pipeline = make_pipeline(declared=({}, {"format": "xml", **declared}))
    stream = pipeline.streams["bids"]
    row = xml(json.loads(bid(7, 1.5).value or b""), stream)
    values = [row + (size - len(row)) * b" " for size in (most, most + 1)]
    located: list[Located] = [(stream.topic, 0, at, value, STAMPED) for at, value in enumerate(values)]

    found = BucketTasks(pipeline, [(1, "Ann", 4.5)], 1, tmp_path).batch(located)

    [letter] = found["dead_letters"]
    assert (letter["offset"], letter["reason"], letter["value"]) == (1, "too_large", values[1])
    assert f"{most:,} at most, unless streams.*.max_record" in letter["error"]
    with recomputed(pipeline, [Record(stream.topic, 0, value) for value in values], found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        ({"max_record": "1MB", "format": "json"}, "only records of `format: xml` are bounded here"),
        ({"max_record": 1_000_001, "format": "xml"}, "less than or equal to 1000000"),
        ({"max_record": 0, "format": "xml"}, "greater than or equal to 1"),
    ],
)
def test_impossible_sizes_are_refused(declared: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        make_pipeline(declared=({}, declared))
