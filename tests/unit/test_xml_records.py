"""XML records: MJoin's own, values of every type, and what a hardened reader refuses."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from endmark.formats.json_records import Parsed
from endmark.formats.xml_records import MOST_BYTES, XmlParser
from endmark.punctuation.pattern import Between, OneOf
from endmark.types import ColumnType

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
GOOD = b"<record><sno>8</sno><ipaddr>1.1.1.1</ipaddr></record>"
ROW = (
    "<record><n>-7</n><x>1e3</x><yes>true</yes><s> a <![CDATA[<b>]]>&amp; \u00fc\n</s><fee>1.5</fee>"
    "<day>2026-01-31</day><at>2026-01-31T00:00:00Z</at></record>"
).encode()


def parse(*values: bytes | None, columns: dict[str, ColumnType] = NEWS) -> Parsed:
    key = (next(iter(columns)),)
    return XmlParser(columns, key, "AccessRecord", key=key).parse(pa.array(values, pa.binary()))


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
    assert (parsed.closed.to_pylist(), parsed.closed_at.tolist()) == ([{"sno": 79}], [1])
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
        (None, "empty", "no value"),
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
        (GOOD.replace(b"8", b"9" * 20), "bad_value", "out of range"),
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
        (b"<a>" * 100_000, "malformed", "flat elements"),
        (GOOD.replace(b"1.1", b"x" * MOST_BYTES), "too_large", "1,000,000 at most"),
    ],
)
def test_what_is_no_record_says_why(value: bytes | None, reason: str, error: str) -> None:
    """Its bytes are kept, and good ones around it are read."""
    parsed = parse(GOOD, value, GOOD)

    assert parsed.row_at.tolist() == [0, 2]
    [rejection] = parsed.rejections
    assert (rejection.at, rejection.reason, rejection.value) == (1, reason, value)
    assert error in rejection.error
