"""The parser of Protobuf against Google's library, which wrote the records, and by which `verify` reads."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Stream
from endmark.types import ColumnType
from endmark.wire.protobuf import reading as proto_reading
from support.avro_fates import fates, plain
from support.avro_records import Schemas, stream_of
from support.cases import cases
from support.proto_registry import PUNCTUATION, framed, message, punctuation

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";

message Other { int64 item_id = 1; }

message Bid {
  enum Size { S = 0; M = 1; L = 7; }
  message Inner { optional int32 a = 1; string t = 2; Deep deep = 3; Bid again = 4; }
  message Deep { sint64 z = 1; }
  sint64 item_id = 1;
  google.protobuf.Timestamp bid_at = 2;
  string note = 3;
  optional double price = 4;
  Inner inner = 5;
  oneof way { int32 card = 6; string cash = 7; Inner other = 8; bytes none = 20; }
  Size size = 9;
  uint32 small = 10;
  uint64 large = 11;
  fixed32 four = 12;
  sfixed64 eight = 13;
  float real = 14;
  bool urgent = 15;
  repeated int64 many = 16;
  map<string, int32> named = 17;
  bytes raw = 18;
  optional string tip = 19;
  sint32 signed = 100000;
}
"""
OLD = """
syntax = "proto2";
package shop;

message Bid {
  required int64 item_id = 1;
  optional string note = 3 [default = "none"];
  optional group Part = 5 { optional int32 a = 1; }
  extensions 100 to 200;
  optional fixed64 bid_at = 21;
}
"""
BID = "shop.Bid"
COLUMNS = {
    "item_id": "long",
    "bid_at": "timestamp",
    "note": "string",
    "price": "double?",
    "a": "long?",
    "t": "string?",
    "z": "long?",
    "card": "int?",
    "cash": "string?",
    "other": "string?",
    "size": "string",
    "small": "double",
    "large": "long",
    "four": "timestamp(s)",
    "eight": "timestamp(us)",
    "real": "float",
    "urgent": "boolean",
    "raw": "string",
    "tip": "decimal(6,2)?",
    "signed": "date(days)",
}
PATHS = {
    "a": ("inner", "a"),
    "t": ("inner", "t"),
    "z": ("inner", "deep", "z"),
    "other": ("other", "t"),
}
TOKENS = [
    *(
        b"\x80",
        b"\xff" * 10,
        b"\xff" * 9 + b"\x01",
        b"\xff" * 9 + b"\x7f",
        b"\x0b\x0c",
        b"\x0b",
        b"\x0c",
        b"\x07",
    ),
    *(
        b"\x1a\x83\x80\x80\x80\x00abc",
        b"\x1a\x83\x80\x80\x80\x80\x00abc",
        b"\x1a\x01\xff",
        b"\x1a\x00",
        b"\x00",
    ),
    *(
        b"\x2a\x02\x08\x07",
        b"\x2a\x00",
        b"\x42\x03\x12\x01q",
        b"\x30\x05",
        b"\x3a\x01c",
        b"\xa2\x01\x00",
        b"\x30",
    ),
    *(
        b"\x12\x02\x10\x01",
        b"\x12\x06\x10\xff\x93\xeb\xdc\x03",
        b"\x88\x80\x80\x80\x00\x01",
        b"\x48\x07",
        b"\x48\x09",
    ),
    *(
        b"\x88\x80\x80\x80\x80\x00\x01",
        b"\x58" + b"\xff" * 9 + b"\x01",
        b"\x75\x00\x00\xc0\x7f",
        b"\xa0\x8d\x06\x03",
    ),
    *(b"\x09" + bytes(8), b"\x9a\x01\x041.50", b"\x9a\x01\x051.505", b"\x80\x01\x01" * 70),
]
BAD_INDEXES = [
    b"\2\6",
    b"\2\1",
    b"\4\2\0",
    b"\4\2\2",
    b"\1",
    b"\x80",
    b"\x42" + b"\2" * 33,
    b"",
    b"\xfe\xff\xff\xff\x1f",
]
INTS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])
TEXTS = st.sampled_from(["", "a", "ä", "1.50"])


def declared(*names: str, ignoring: bool = True) -> Stream:
    columns = {name: ColumnType.parse(COLUMNS[name]) for name in names or COLUMNS}
    paths = {name: path for name, path in PATHS.items() if name in columns}
    return stream_of(columns, paths, ignoring=ignoring).model_copy(update={"format": "protobuf"})


@st.composite
def inner(draw: st.DrawFn) -> Any:
    found = message(SHOP, "shop.Bid.Inner")()
    if draw(st.booleans()):
        found.a = draw(INTS)
    found.t = draw(TEXTS)
    if draw(st.booleans()):
        found.deep.z = draw(INTS)
    if draw(st.integers(0, 3)) == 0:
        found.again.note = "in a message of its own type"
    return found


@st.composite
def bids(draw: st.DrawFn) -> bytes:
    found = message(SHOP, BID)()
    found.item_id, found.note, found.raw = draw(INTS), draw(TEXTS), draw(TEXTS).encode()
    found.bid_at.seconds = draw(st.sampled_from([0, 5, -1, 2**33, 253_402_300_799, 253_402_300_800]))
    found.bid_at.nanos = draw(st.sampled_from([0, 1_000, 999_999_999, 5, -1, 1_000_000_000]))
    found.size, found.urgent, found.tip = (
        draw(st.sampled_from([0, 1, 7, 9])),
        draw(st.booleans()),
        draw(TEXTS),
    )
    found.small, found.four = draw(st.sampled_from([0, 2**32 - 1])), draw(st.sampled_from([0, 2**32 - 1]))
    found.large, found.eight = draw(st.sampled_from([0, 2**63 - 1, 2**63])), draw(INTS)
    found.real, found.signed = (
        draw(st.sampled_from([0.0, -1.5, float("inf")])),
        draw(st.sampled_from([0, -7])),
    )
    if draw(st.booleans()):
        found.price = draw(st.sampled_from([0.0, 1e308, float("nan"), -0.0]))
    if draw(st.booleans()):
        found.tip = draw(TEXTS)
    if draw(st.booleans()):
        found.inner.CopyFrom(draw(inner()))
    match draw(st.sampled_from(["card", "cash", "other", "none", ""])):
        case "card":
            found.card = draw(INTS)
        case "cash":
            found.cash = draw(TEXTS)
        case "other":
            found.other.CopyFrom(draw(inner()))
        case "none":
            found.none = b"x"
    found.many.extend(draw(st.lists(INTS, max_size=3)))
    if draw(st.booleans()):
        found.named["x"] = 1
    written: bytes = found.SerializeToString()
    return written


@st.composite
def changed(draw: st.DrawFn, value: bytes) -> bytes:
    """A message with a few small cuts and insertions."""
    for _ in range(draw(st.integers(0, 3))):
        start, cut = draw(st.integers(0, len(value))), draw(st.sampled_from([0, 0, 1, 2]))
        token = draw(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=2)))
        value = value[:start] + token + value[start + cut :]
    return value


PATTERNS: list[Any] = [{"item_id": {"equals": 7}}, {"item_id": {"one_of": [7]}}, {}]
SCHEMAS = Schemas({1: SHOP, 2: PUNCTUATION, 3: OLD, 4: "message {", 5: 'syntax = "proto3";', -6: SHOP})


@st.composite
def records(draw: st.DrawFn) -> bytes | None:
    """A record by one of the schemas, some of which are cut or changed."""
    bid = draw(bids())
    match draw(
        st.sampled_from(["bid", "bid", "bid", "twice", "changed", "changed", "promise", "old", "odd"])
    ):
        case "bid":
            return framed(draw(st.sampled_from([1, -6])), bid, 1)
        case "twice":
            return framed(1, bid + draw(st.sampled_from(TOKENS)) + draw(bids()), 1)
        case "changed":
            return framed(1, draw(changed(bid)), 1)
        case "promise":
            patterns: Any = draw(
                st.sampled_from([{"item_id": {"equals": 7}}, {"item_id": {"one_of": [7]}}, {}])
            )
            return framed(2, draw(changed(punctuation(patterns))))
        case "old":
            return framed(3, draw(changed(b"\x08\x07\x2b\x08\x01\x2c\xa9\x01" + bytes(8))))
    number = draw(st.sampled_from([1, 3, 4, 5, 9]))
    frame = b"\0" + number.to_bytes(4, "big")
    others = [None, b"", b"\0\0\0\0", framed(number, bid), framed(1, bid, 1, 1), framed(1, bid, 0)]
    return draw(st.sampled_from([*others, *(frame + each + bid for each in BAD_INDEXES)]))


NAMES = st.sampled_from([(), ("item_id", "bid_at"), ("item_id", "bid_at", "z", "other", "cash")])


@cases(100, among=1)
@given(values=st.lists(records(), min_size=1, max_size=12), names=NAMES, many=st.sampled_from([1, 3, 64]))
def test_records_meet_the_same_fate(values: list[bytes | None], names: tuple[str, ...], many: int) -> None:
    """However small cuts and insertions change them, and in whatever company."""
    stream = declared(*names)

    with patch.object(proto_reading, "MANY", many):
        found = fates(stream, SCHEMAS, values)

    assert found == [plain(stream, SCHEMAS, value) for value in values]


@pytest.mark.parametrize("many", [1, 64])
def test_listed_bytes_meet_the_same_fate(many: int) -> None:
    """Each token stands in front of others, behind them, and within a message."""
    stream = declared()
    row = message(SHOP, BID)(item_id=7, cash="a")
    row.inner.t = "t"
    row.bid_at.seconds = 1
    whole = row.SerializeToString()
    values: list[bytes | None] = []
    for one in TOKENS:
        for other in TOKENS:
            values += [framed(1, one + other + whole, 1), framed(1, whole + one + other, 1)]
        within = b"\x2a" + bytes([len(one)]) + one if len(one) < 128 else b""
        values += [framed(1, whole + within, 1)]

    with patch.object(proto_reading, "MANY", many):
        found = fates(stream, SCHEMAS, values)

    assert found == [plain(stream, SCHEMAS, value) for value in values]
    assert 300 < sum(each != "dead letter" for each in found) < len(found) - 300


FIELDS = [
    "int32",
    "uint64",
    "sint32",
    "fixed32",
    "sfixed64",
    "float",
    "double",
    "bool",
    "string",
    "bytes",
    "E",
    "I",
]
FIELDS += [
    "google.protobuf.Timestamp",
    "repeated int64",
    "repeated I",
    "map<string, int32>",
    "optional string",
]
TYPES = [
    *("long", "int", "double", "float", "string", "string?", "boolean", "decimal(6,2)", "date", "date(days)"),
    *("timestamp", "timestamp(s)", "timestamp(us)"),
]
LISTED = [
    b"",
    b"\x12\x00",
    b"\x10\x05",
    b"\x12\x011",
    b"\x12\x04true",
    b"\x15\0\0\x80\x3f",
    b"\x11" + bytes(8),
]
LISTED += [
    b"\x12\x0a2026-01-31",
    b"\x12\x142026-01-31T12:00:00Z",
    b"\x12\x02\x08\x05",
    b"\x10\xff\xff\xff\xff\x0f",
]


@pytest.mark.parametrize("written", FIELDS)
def test_listed_types_meet_the_same_fate(written: str) -> None:
    """Each type of a field in each column, by bytes of each kind; as a field, and in a message."""
    field = f"{written} c = 2;"
    inner = "enum E { A = 0; B = 5; } message I { int64 seconds = 1; }"
    text = f"""syntax = "proto3"; import "google/protobuf/timestamp.proto";
        message M {{ int64 item_id = 1; {field} {inner} }}"""
    schemas = Schemas({1: text})
    values: list[bytes | None] = [framed(1, b"\x08\x07" + each) for each in LISTED]
    for kind in TYPES:
        for path in (("c",), ("c", "seconds"), ("gone",)):
            for ignoring in (True, False):
                columns = {"item_id": ColumnType.LONG, "c": ColumnType.parse(kind)}
                stream = stream_of(columns, {"c": path}, ignoring=ignoring)
                stream = stream.model_copy(update={"format": "protobuf"})
                assert fates(stream, schemas, values) == [plain(stream, schemas, value) for value in values]
