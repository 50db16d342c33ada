"""Values of records that are easily misread, all of the stream `bids`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from endmark.pipeline import Stream
from support.numbers import LIMITS, with_types
from support.verify_keys import EVERYTHING, KeyKind
from support.verify_world import bid, close, instant, make_pipeline

# No value is of the future, whatever the timestamp of its record.
PIPELINE = make_pipeline(ahead=(None, None))
MANY_KEYS = make_pipeline(keys=EVERYTHING, ahead=(None, None))
_GAPS = {"price", "urgent", "note", "due", "tip"}
WITH_GAPS = make_pipeline(nullable=((), {*_GAPS, "seller_id"}), ahead=(None, None))
IGNORING = make_pipeline(nullable=((), _GAPS), declared=({}, {"extra": "ignore"}), ahead=(None, None))
ROW = bid(7, 1.5).value or b""
PROMISE = close("bids", 7).value or b""
MANY = close("bids", 0, keys=EVERYTHING).value or b""
HEARTBEAT = b'{"$punctuation": {"bid_at": {"between": {"to": "2025-12-31T12:00:00Z"}}}}'


def having(member: str, text: bytes) -> bytes:
    """A sound bid, but with this text as the value of one member."""
    sound = {
        "item_id": b"7",
        "seller_id": b"1",
        "price": b"1.5",
        "urgent": b"true",
        "note": b'"n"',
        "due": b'"2026-01-31"',
        "tip": b'"1.50"',
        "bid_at": f'"{instant(0)}"'.encode(),
    }
    sound[member] = text
    return b"{" + b", ".join(b'"%s": %s' % (name.encode(), cell) for name, cell in sound.items()) + b"}"


DEAD = {
    "empty": b"",
    "blank": b"  ",
    "not JSON": b"hello",
    "truncated": ROW[:-5],
    "array": b"[" + ROW + b"]",
    "text": b'"{}"',
    "null": b"null",
    "no members": b"{}",
    "byte order mark": b"\xef\xbb\xbf" + ROW,
    "UTF-16": ROW.decode().encode("utf-16-le"),
    "invalid UTF-8": having("note", b'"\xff"'),
    "overlong UTF-8": having("note", b'"\xc0\xaf"'),
    "surrogate in UTF-8": having("note", b'"\xed\xa0\x80"'),
    "beyond Unicode": having("note", b'"\xf4\x90\x80\x80"'),
    "escaped lone surrogate": having("note", rb'"\ud800"'),
    "bare control character": having("note", b'"a\tb"'),
    "bare NUL": having("note", b'"a\x00b"'),
    "unknown escape": having("note", rb'"\x41"'),
    "trailing garbage": ROW + b" x",
    "trailing NUL": ROW + b"\x00",
    "two documents": ROW + ROW,
    "trailing comma": ROW[:-1] + b",}",
    "trailing comma and space": ROW[:-1] + b" ,\n\t} ",
    "comment": ROW[:-1] + b"/* c */}",
    "single quotes": ROW.replace(b'"', b"'"),
    "unknown member": ROW[:-1] + b', "extra": 1}',
    "missing member": ROW.replace(b'"urgent": false, ', b""),
    "doubled member": ROW[:-1] + b', "item_id": 7}',
    "doubled member instead of another": ROW.replace(b'"seller_id"', b'"item_id"'),
    "member in other case": ROW.replace(b'"price"', b'"Price"'),
    "null member": having("price", b"null"),
    "nested member": having("price", b'{"price": 1.5}'),
    "array member": having("price", b"[1.5]"),
    "text for long": having("item_id", b'"7"'),
    "point in long": having("item_id", b"7.0"),
    "exponent in long": having("item_id", b"1e2"),
    "boolean for long": having("item_id", b"true"),
    "long above int64": having("item_id", b"9223372036854775808"),
    "long below int64": having("item_id", b"-9223372036854775809"),
    "long with 40 digits": having("item_id", b"9" * 40),
    "long with 5,000 digits": having("item_id", b"-" + b"9" * 5_000),
    "5,000 digits and a missing member": ROW.replace(b'"urgent": false, ', b"").replace(
        b"7", b"7" * 5_000, 1
    ),
    "leading zero": having("item_id", b"07"),
    "leading plus": having("item_id", b"+7"),
    "hexadecimal": having("item_id", b"0x7"),
    "text for double": having("price", b'"1.5"'),
    "NaN": having("price", b"NaN"),
    "Infinity": having("price", b"-Infinity"),
    "lower-case inf": having("price", b"inf"),
    "double beyond range": having("price", b"1e400"),
    "double of 400 digits": having("price", b"9" * 400),
    "double without fraction": having("price", b"1."),
    "double without integer": having("price", b".5"),
    "number for boolean": having("urgent", b"1"),
    "text for boolean": having("urgent", b'"true"'),
    "capital boolean": having("urgent", b"True"),
    "number for text": having("note", b"1"),
    "boolean for text": having("note", b"true"),
    "number for time": having("bid_at", b"1767225600"),
    "time without zone": having("bid_at", b'"2026-01-01T00:00:00"'),
    "time with far offset": having("bid_at", b'"2026-01-01T00:00:00+18:01"'),
    "time with offset without colon": having("bid_at", b'"2026-01-01T00:00:00+0200"'),
    "time with offset in hours": having("bid_at", b'"2026-01-01T00:00:00+02"'),
    "time with offset and zone": having("bid_at", b'"2026-01-01T00:00:00+02:00Z"'),
    "time with offset of 60 minutes": having("bid_at", b'"2026-01-01T00:00:00+02:60"'),
    "time with offset before year 1": having("bid_at", b'"0001-01-01T01:00:00+02:00"'),
    "time with offset behind year 9999": having("bid_at", b'"9999-12-31T23:00:00-02:00"'),
    "time with space": having("bid_at", b'"2026-01-01 00:00:00Z"'),
    "time in lower case": having("bid_at", b'"2026-01-01t00:00:00z"'),
    "date alone": having("bid_at", b'"2026-01-01Z"'),
    "nanoseconds": having("bid_at", b'"2026-01-01T00:00:00.000000001Z"'),
    "30 February": having("bid_at", b'"2026-02-30T00:00:00Z"'),
    "hour 24": having("bid_at", b'"2026-01-01T24:00:00Z"'),
    "leap second": having("bid_at", b'"2026-12-31T23:59:60Z"'),
    "year 0": having("bid_at", b'"0000-01-01T00:00:00Z"'),
    "time and line break": having("bid_at", rb'"2026-01-01T00:00:00Z\n"'),
    "time in other digits": having("bid_at", '"\u0662\u0660\u0662\u0666-01-01T00:00:00Z"'.encode()),
    "number for date": having("due", b"20000"),
    "date with time": having("due", b'"2026-01-31T00:00:00Z"'),
    "date with zone": having("due", b'"2026-01-31Z"'),
    "date without zero": having("due", b'"2026-1-31"'),
    "31 April": having("due", b'"2026-04-31"'),
    "29 February 1900": having("due", b'"1900-02-29"'),
    "date in year 0": having("due", b'"0000-01-01"'),
    "date before Christ": having("due", b'"-0001-01-01"'),
    "date in five digits": having("due", b'"10000-01-01"'),
    "date in words": having("due", b'"today"'),
    "endless date": having("due", b'"infinity"'),
    "number for decimal": having("tip", b"1.5"),
    "whole number for decimal": having("tip", b"1"),
    "decimal with a third place": having("tip", b'"1.234"'),
    "decimal with a third place of 0": having("tip", b'"1.230"'),
    "decimal with five whole digits": having("tip", b'"10000"'),
    "decimal that rounds up to five": having("tip", b'"9999.995"'),
    "decimal with leading zero": having("tip", b'"01.5"'),
    "decimal with plus": having("tip", b'"+1.5"'),
    "decimal with exponent": having("tip", b'"1e2"'),
    "decimal with comma": having("tip", b'"1,5"'),
    "decimal with space": having("tip", b'" 1.5"'),
    "decimal without places": having("tip", b'"1."'),
    "decimal without whole": having("tip", b'".5"'),
    "decimal of nothing": having("tip", b'""'),
    "decimal NaN": having("tip", b'"NaN"'),
    "decimal in other digits": having("tip", '"\u0661.5"'.encode()),
    "deeply nested": b"[" * 100_000 + b"]" * 100_000,
    "promise of text": PROMISE.replace(b"7", b'"7"'),
    "promise with point": PROMISE.replace(b"7", b"7.0"),
    "promise above int64": PROMISE.replace(b"7", b"9223372036854775808"),
    "promise on another column": PROMISE.replace(b"item_id", b"seller_id"),
    "promise of nothing": b'{"$punctuation": {}}',
    "promise of null": b'{"$punctuation": null}',
    "promise without pattern": b'{"$punctuation": {"item_id": 7}}',
    "promise of another pattern": PROMISE.replace(b"equals", b"less"),
    "promise of two patterns": PROMISE.replace(b'"equals": 7', b'"equals": 7, "equals": 7'),
    "promise of two columns": PROMISE[:-2] + b', "seller_id": {"equals": 1}}}',
    "promise with company": PROMISE[:-1] + b', "item_id": 7}',
    "promise twice": PROMISE[:-1] + b', "$punctuation": {"item_id": {"equals": 7}}}',
    "promise in an array": PROMISE.replace(b'{"equals": 7}', b'[{"equals": 7}]'),
    "promise up to null": PROMISE.replace(b'"equals": 7', b'"between": {"to": null}'),
    "promise up to a text": PROMISE.replace(b'"equals": 7', b'"between": {"to": "7"}'),
    "promise with an open end that is not there": PROMISE.replace(
        b'"equals": 7', b'"between": {"to": 7, "from_open": true}'
    ),
    "promise with an end open by a number": PROMISE.replace(
        b'"equals": 7', b'"between": {"to": 7, "to_open": 1}'
    ),
    "promise of an unknown end": PROMISE.replace(b'"equals": 7', b'"between": {"until": 7}'),
    "promise of nothing by a number": PROMISE.replace(b'"equals": 7', b'"nothing": 1'),
    "promise of two types": PROMISE.replace(b'"equals": 7', b'"one_of": [7, "8"]'),
    "heartbeat with a lower end": HEARTBEAT.replace(b'"to"', b'"from": "2025-12-01T12:00:00Z", "to"'),
    "heartbeat turned round": HEARTBEAT.replace(b'"to"', b'"from"'),
    "heartbeat of one time": HEARTBEAT.replace(
        b'{"to": "2025-12-31T12:00:00Z"}', b'"2025-12-31T12:00:00Z"'
    ).replace(b"between", b"equals"),
    "heartbeat with a key": HEARTBEAT[:-2] + b', "item_id": {"equals": 7}}}',
    "heartbeat on another column": HEARTBEAT.replace(b"bid_at", b"due").replace(b"T12:00:00Z", b""),
    "heartbeat of a date": HEARTBEAT.replace(b"T12:00:00Z", b""),
    "heartbeat of nanoseconds": HEARTBEAT.replace(b"00Z", b"00.000000001Z"),
    "promise, comma inside": PROMISE.replace(b"7}", b"7,}"),
    "promise, comma in the middle": PROMISE.replace(b"7}}", b"7} , }"),
    "promise, comma outside": PROMISE[:-1] + b",}",
}

# By name: a value, and some of the columns of the row, the key it closes, or that it is another promise.
ALIVE: dict[str, tuple[bytes, dict[str, Any] | tuple[Any, ...] | str]] = {
    "row": (having("note", b'"x"'), {"note": "x"}),
    "space around": (b" \r\n\t" + ROW + b"\n", {"item_id": 7}),
    "escaped name": (ROW.replace(b"item_id", rb"\u0069tem_id"), {"item_id": 7}),
    "empty text": (having("note", b'""'), {"note": ""}),
    "the text null": (having("note", b'"null"'), {"note": "null"}),
    "text like an ending": (having("note", b'",}"'), {"note": ",}"}),
    "comma and brace at the end": (
        b'{"note": ",}", ' + having("note", b"0")[1:].replace(b', "note": 0', b""),
        {"note": ",}"},
    ),
    "escaped NUL": (having("note", rb'"a\u0000b"'), {"note": "a\x00b"}),
    "escaped pair": (having("note", rb'"\ud83d\ude00"'), {"note": "\U0001f600"}),
    "quotes": (having("note", rb'"\"\\\/"'), {"note": '"\\/'}),
    "largest long": (having("item_id", b"9223372036854775807"), {"item_id": 2**63 - 1}),
    "smallest long": (having("item_id", b"-9223372036854775808"), {"item_id": -(2**63)}),
    "minus zero": (having("item_id", b"-0"), {"item_id": 0}),
    "long for double": (having("price", b"3"), {"price": 3.0}),
    "30 digits for double": (having("price", b"9" * 30), {"price": 1e30}),
    "largest double": (having("price", b"1.7976931348623157e308"), {"price": 1.7976931348623157e308}),
    "smallest double": (having("price", b"5e-324"), {"price": 5e-324}),
    "double with all digits": (having("price", b"0.30000000000000004"), {"price": 0.30000000000000004}),
    "time with offset": (
        having("bid_at", b'"2026-01-01T01:30:00.5+02:00"'),
        {"bid_at": datetime(2025, 12, 31, 23, 30, 0, 500_000, UTC)},
    ),
    "time with offset of 0": (
        having("bid_at", b'"2026-01-01T00:00:02-00:00"'),
        {"bid_at": datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)},
    ),
    "time with the farthest offset": (
        having("bid_at", b'"2025-12-31T06:00:00-18:00"'),
        {"bid_at": datetime(2026, 1, 1, tzinfo=UTC)},
    ),
    "first time": (
        having("bid_at", b'"0001-01-01T02:00:00+02:00"'),
        {"bid_at": datetime.min.replace(tzinfo=UTC)},
    ),
    "29 February 2000": (having("due", b'"2000-02-29"'), {"due": date(2000, 2, 29)}),
    "first day": (having("due", b'"0001-01-01"'), {"due": date.min}),
    "last day": (having("due", b'"9999-12-31"'), {"due": date.max}),
    "escaped date": (having("due", rb'"2026\u002d01-31"'), {"due": date(2026, 1, 31)}),
    "decimal with fewer places": (having("tip", b'"1.5"'), {"tip": Decimal("1.50")}),
    "decimal without point": (having("tip", b'"12"'), {"tip": Decimal(12)}),
    "largest decimal": (having("tip", b'"9999.99"'), {"tip": Decimal("9999.99")}),
    "smallest decimal": (having("tip", b'"-9999.99"'), {"tip": Decimal("-9999.99")}),
    "decimal minus zero": (having("tip", b'"-0.00"'), {"tip": Decimal(0)}),
    "promise": (PROMISE, (7,)),
    "promise, negative": (PROMISE.replace(b"7", b"-9223372036854775808"), (-(2**63),)),
    "promise of one value among several": (PROMISE.replace(b'"equals": 7', b'"one_of": [7, 7]'), (7,)),
    "promise with another column of any value": (
        PROMISE[:-2] + b', "seller_id": {"anything": true}}}',
        (7,),
    ),
    "promise of several values": (PROMISE.replace(b'"equals": 7', b'"one_of": [7, 8]'), "promise"),
    "promise of no value in a list": (PROMISE.replace(b'"equals": 7', b'"one_of": []'), "promise"),
    "promise of no value": (PROMISE.replace(b'"equals": 7', b'"nothing": true'), "promise"),
    "promise of any value": (PROMISE.replace(b'"equals": 7', b'"anything": true'), "promise"),
    "promise up to a value": (PROMISE.replace(b'"equals": 7', b'"between": {"to": 7}'), "promise"),
    "promise between values": (
        PROMISE.replace(b'"equals": 7', b'"between": {"from": 1, "to": 7, "to_open": true}'),
        "promise",
    ),
    "heartbeat": (HEARTBEAT, "promise"),
    "heartbeat before a time": (HEARTBEAT.replace(b'Z"', b'Z", "to_open": true'), "promise"),
    "heartbeat of all times": (HEARTBEAT.replace(b'"to": "2025-12-31T12:00:00Z"', b""), "promise"),
    "heartbeat of any time": (
        HEARTBEAT.replace(b'"between": {"to": "2025-12-31T12:00:00Z"}', b'"anything": true'),
        "promise",
    ),
    "heartbeat with a key of any value": (HEARTBEAT[:-2] + b', "item_id": {"anything": true}}}', "promise"),
    "promise with space": (b"\n" + PROMISE.replace(b":", b" : ") + b" ", (7,)),
    "promise, escaped": (PROMISE.replace(b"$", rb"\u0024"), (7,)),
}

# Punctuations of a stream whose key has many columns.
DEAD_KEYS = {
    "one column twice": MANY.replace(b'"open": {', b'"day": {"equals": "2026-01-01"}, "open": {'),
    "one column instead of another": MANY.replace(b'"open": {"equals": true}', b'"fee": {"equals": "1.50"}'),
    "one column more": MANY[:-2] + b', "seller_id": {"equals": 1}}}',
    "one pattern of two": MANY.replace(b"true", b'true, "equals": true'),
    "one pattern is in a list": MANY.replace(b'{"equals": true}', b'[{"equals": true}]'),
    "one value is null": MANY.replace(b"true", b"null"),
    "one value is of another type": MANY.replace(b"true", b'"true"'),
    "one value is no date": MANY.replace(b"2026-01-01", b"2026-02-30", 1),
    "one value has too many digits": MANY.replace(b"1.50", b"1.505"),
    "one value has a third place of 0": MANY.replace(b"1.50", b"1.500"),
    "one end has a third place of 0": MANY.replace(b'"equals": "1.50"', b'"between": {"to": "1.500"}'),
    "one value is 0 with a third place": MANY.replace(b"1.50", b"0.000"),
    "one value is too large": MANY.replace(b"1.50", b"10000.00"),
    "one value is a number": MANY.replace(b'"1.50"', b"1.50"),
    "one value is half a character": MANY.replace(b'a \\"', rb"a \ud800\""),
    "a comma inside": MANY.replace(b"true}", b"true,}"),
    "a comma in the middle": MANY[:-2] + b",}}",
    "no comma": MANY.replace(b"}, ", b"} ", 1),
}
KEY = (date(2026, 1, 1), 'a "b" ,}', Decimal("1.50"), True, datetime(2026, 1, 1, tzinfo=UTC))
ALIVE_KEYS: dict[str, tuple[bytes, tuple[Any, ...] | str]] = {
    "of all values of one column": (MANY.replace(b'"open": {"equals": true}, ', b""), "promise"),
    "of any value of one column": (MANY.replace(b'{"equals": true}', b'{"anything": true}'), "promise"),
    "of two values of one column": (MANY.replace(b'"equals": true', b'"one_of": [true, false]'), "promise"),
    "as declared": (MANY, KEY),
    "in another order": (
        b'{"$punctuation": {"open": {"equals": true}, '
        + MANY.removeprefix(b'{"$punctuation": {').replace(b'"open": {"equals": true}, ', b""),
        KEY,
    ),
    "with space": (MANY.replace(b":", b" :\n").replace(b"00 :\n00 :\n00", b"00:00:00"), KEY),
    "with fewer places": (MANY.replace(b"1.50", b"1.5"), KEY),
    "with an escaped name": (MANY.replace(b"day", rb"\u0064ay"), KEY),
    "with an escaped text": (MANY.replace(b'"a ', rb'"\u0061 '), KEY),
    "with an escaped date": (MANY.replace(b"2026-", rb"2026\u002d", 1), KEY),
    "with a text like a pattern": (
        MANY.replace(b"a ", rb"\"open\": {\"equals\": false}, "),
        (KEY[0], '"open": {"equals": false}, "b" ,}', *KEY[2:]),
    ),
    "with an empty text": (MANY.replace(rb"a \"b\" ,}", b""), (KEY[0], "", *KEY[2:])),
}


def with_extra(text: bytes) -> bytes:
    """A sound bid with further members behind its own."""
    return ROW[:-1] + b", " + text + b"}"


_PROMISED = PROMISE[1:-1]
WITHOUT_GAPS = dict.fromkeys(sorted(_GAPS))
LEAST = json.dumps({"bid_at": instant(0), "item_id": 7, "seller_id": 1}).encode()

# Values of a stream with columns that may be null.
DEAD_GAPS = {
    "null key": having("item_id", b"null"),
    "null time": having("bid_at", b"null"),
    "no time": ROW.replace(b'"bid_at"', b'"note"'),
    "null, doubled": having("note", b'null, "note": null'),
    "null and a value": having("tip", b'null, "tip": "1.50"'),
    "null of a missing column, and another": having("note", b'null, "extra": null'),
    "Null": having("note", b"Null"),
    "NULL": having("tip", b"NULL"),
    "text null for long": having("seller_id", b'"null"'),
    "text null for date": having("due", b'"null"'),
    "nothing for null": having("price", b""),
    "null in an array": having("price", b"[null]"),
    "bad value in a column that may be null": having("due", b'"2026-02-30"'),
    "type in a column that may be null": having("urgent", b"0"),
    "too many digits": having("tip", b'"1.505"'),
    "beyond range": having("price", b"1e400"),
    "400 digits": having("price", b"9" * 400),
    "NaN": having("price", b"NaN"),
    "promise of null": PROMISE.replace(b"7", b"null"),
    "promise with null in a list": PROMISE.replace(b'"equals": 7', b'"one_of": [7, null]'),
    "promise up to null": PROMISE.replace(b'"equals": 7', b'"between": {"to": null}'),
}
ALIVE_GAPS: dict[str, tuple[bytes, dict[str, Any] | tuple[Any, ...] | str]] = {
    "null long": (having("seller_id", b"null"), {"seller_id": None}),
    "null double": (having("price", b"null"), {"price": None}),
    "null boolean": (having("urgent", b" null "), {"urgent": None}),
    "null text": (having("note", b"null"), {"note": None}),
    "null date": (having("due", b"null"), {"due": None}),
    "null decimal": (having("tip", b"null"), {"tip": None}),
    "text null": (having("note", b'"null"'), {"note": "null"}),
    "escaped name of a null": (having("note", b"null").replace(b"note", rb"n\u006fte"), {"note": None}),
    "without long": (having("note", b"null").replace(b'"seller_id": 1, ', b""), {"seller_id": None}),
    "without text": (ROW.replace(b'"note": "bid \\u00fc 1.5", ', b""), {"note": None}),
    "without any": (LEAST, {"seller_id": 1, **WITHOUT_GAPS}),
    "all there": (ROW, {"price": 1.0}),
    "promise": (PROMISE, (7,)),
}

# Values of a stream that ignores what is not declared.
DEAD_EXTRA = {
    "null in a column": having("seller_id", b"null"),
    "without a column": LEAST.replace(b', "seller_id": 1', b""),
    "another column instead": LEAST.replace(b"seller_id", b"sellerid"),
    "column in other case": LEAST.replace(b"seller_id", b"Seller_id"),
    "doubled column": with_extra(b'"extra": 1, "item_id": 7'),
    "doubled column, by an escaped name": with_extra(rb'"\u0069tem_id": 7'),
    "doubled column that may be null": with_extra(b'"extra": 1, "note": null'),
    "type of a column": with_extra(b'"extra": 1').replace(b'"item_id": 7', b'"item_id": "7"'),
    # Arrow's reader would take these values.
    "time with space": having("bid_at", b'"2026-01-01 00:00:00Z", "extra": 1'),
    "decimal with leading zero": having("tip", b'"01.5", "extra": 1'),
    "decimal with plus": having("tip", b'"+1.5", "extra": 1'),
    "nested column": having("note", b'{"note": "n"}'),
    "nested column, doubled inside": having("note", b'{"note": "n", "note": "n"}'),
    "punctuation behind a member": b'{"extra": 1, ' + _PROMISED + b"}",
    "punctuation behind a row": with_extra(_PROMISED),
    "punctuation before a row": b"{" + _PROMISED + b", " + ROW[1:],
    "escaped punctuation before a row": b"{" + _PROMISED.replace(b"$", rb"\u0024") + b", " + ROW[1:],
    "escaped punctuation before a member, twice": b"{"
    + _PROMISED.replace(b"$", rb"\u0024")
    + b', "extra": 1, "extra": 1}',
    "escaped punctuation behind a row": with_extra(_PROMISED.replace(b"$", rb"\u0024")),
    "mark of a deleted row": with_extra(b'"__deleted": "true"'),
    "mark of a row that is there, with an escaped name": with_extra(rb'"_\u005fdeleted": "false"'),
    "punctuation of nothing behind a row": with_extra(b'"$punctuation": null'),
    "NaN": with_extra(b'"extra": NaN'),
    "nested Infinity": with_extra(b'"extra": [-Infinity]'),
    "comma": with_extra(b'"extra": 1,'),
    "nested comma": with_extra(b'"extra": [1, ]'),
    "nested comma in an object": with_extra(b'"extra": {"a": 1, }'),
    "no comma": with_extra(b'"extra": [1 2]'),
    "no comma between members": ROW[:-1] + b' "extra": 1}',
    "no colon": with_extra(b'"extra": {"a" 1}'),
    "no value": with_extra(b'"extra": '),
    "no name": with_extra(b"1"),
    "other brackets": with_extra(b'"extra": [1}'),
    "one bracket less": with_extra(b'"extra": [[1]'),
    "one bracket more": with_extra(b'"extra": [1]]'),
    "brackets around a column": with_extra(b'"extra": [').replace(b'"price": 1.0', b'"price": "]"'),
    "leading zero": with_extra(b'"extra": 01'),
    "nested leading zero": with_extra(b'"extra": {"a": 01}'),
    "number without fraction": with_extra(b'"extra": [1.]'),
    "half a character": with_extra(rb'"extra": "\ud800"'),
    "nested half a character": with_extra(rb'"extra": [["\ud800"]]'),
    "half a character in a name": with_extra(rb'"\udc00": 1'),
    "bare control character": with_extra(b'"extra": "a\tb"'),
    "unknown escape": with_extra(rb'"extra": "\x41"'),
    "invalid UTF-8": with_extra(b'"extra": "\xff"'),
    "invalid UTF-8 in a name": with_extra(b'"\xff": 1'),
    "comment": with_extra(b'"extra": 1 /* c */'),
    "words": with_extra(b'"extra": maybe'),
    "two documents": with_extra(b'"extra": 1') + ROW,
    "array": b"[" + with_extra(b'"extra": 1') + b"]",
    "null document": b"null",
    "no members": b"{}",
    "other members alone": b'{"extra": 1}',
    "empty": b"",
    "promise of null": PROMISE.replace(b"7", b"null"),
    "promise with company": PROMISE[:-1] + b', "extra": 7}',
    "promise on an unknown column": PROMISE.replace(b"item_id", b"extra"),
}
_SAME: dict[str, Any] = {"item_id": 7, "price": 1.0, "note": "bid \u00fc 1.5", "tip": Decimal("1.50")}
ALIVE_EXTRA: dict[str, tuple[bytes, dict[str, Any] | tuple[Any, ...] | str]] = {
    name: (with_extra(text), _SAME)
    for name, text in {
        "number": b'"extra": -1.5e-9',
        "text": b'"extra": "e"',
        "null": b'"extra": null',
        "empty name": b'"": true',
        "name that a column begins with": b'"pric": "x"',
        "name that begins with a column": b'"prices": "x"',
        "name in other letters": b'"PRICE": "x"',
        "name with a blank": b'"price ": "x"',
        "name of a mark": b'"$": 1, "$punctuations": 1, "punctuation": 1',
        "name in Greek": '"\u03c4\u03b9\u03bc\u03ae": 1'.encode(),
        "escaped name": rb'"\u0065xtra": 1',
        "escaped letters in a name": rb'"a\"b": 1',
        "name of an escape": rb'"\\u0069tem_id": 1',
        "twice": b'"extra": 1, "extra": "two"',
        "object": b'"extra": {"a": 1, "b": [true, null]}',
        "twice, beside a large exponent": b'"extra": 1e999, "extra": {"a": 1, "a": 2}',
        "twice inside": b'"extra": {"a": 1, "a": 2}',
        "columns inside": b'"extra": {"item_id": "8", "price": {"note": 1}, "$punctuation": {}}',
        "empty list": b'"extra": [ ]',
        "list of lists": b'"extra": [[1,2],[],[[3]], {}]',
        "brackets in a text": rb'"extra": "}]{[\"", "more": ["]", "}"]',
        "large exponent": b'"extra": 1e999',
        "nested large exponent": b'"extra": [1, {"a": -1E+999}]',
        "exponent": b'"extra": [1e99, 2E-99]',
        "5,000 digits": b'"extra": ' + b"9" * 5_000,
        "nested 5,000 digits": b'"extra": [' + b"9" * 5_000 + b"]",
        "eight levels": b'"extra": ' + b"[" * 8 + b"]" * 8,
        "nine levels": b'"extra": ' + b"[" * 9 + b"]" * 9,
        "hundred levels": b'"extra": ' + b'[{"a":' * 50 + b"1" + b"}]" * 50,
        "line breaks": b'"extra"\n:\r\n[\t1 ,\n2 ]\n',
        "escaped pair": rb'"extra": "\ud83d\ude00"',
    }.items()
}
ALIVE_EXTRA |= {
    "in front": (b'{"extra": {"a": [1]}, ' + ROW[1:], _SAME),
    "beside nulls": (LEAST[:-1] + b', "extra": 1, "note": null}', {"item_id": 7, **WITHOUT_GAPS}),
    "beside an escaped column": (with_extra(b'"e": 1').replace(b"item_id", rb"\u0069tem_id"), _SAME),
    "none": (ROW, _SAME),
    "promise": (PROMISE, (7,)),
    "escaped promise": (PROMISE.replace(b"$", rb"\u0024"), (7,)),
    "promise of several values": (PROMISE.replace(b'"equals": 7', b'"one_of": [7, 8]'), "promise"),
}
# Columns that records spell as numbers. All but the price and the time of a bid are of the key.
NUMBERS = {
    "number": "int",
    "second": "timestamp(s)",
    "micros": "timestamp(us)",
    "day": "date(days)",
    "millis": "timestamp(ms)",
    "price": "float",
    "bid_at": "timestamp(ms)",
}
_KEY_OF_NUMBERS = KeyKind(dict(list(NUMBERS.items())[:5]), lambda n: dict.fromkeys(list(NUMBERS)[:5], -n))
IN_NUMBERS = with_types(
    make_pipeline(keys=_KEY_OF_NUMBERS, ahead=(None, None)),
    {"bids": {"price": "float", "bid_at": "timestamp(ms)"}},
)
_PLAIN_MEMBERS = {"seller_id": 1, "urgent": True, "note": "n", "due": "2026-01-31", "tip": "1.50"}
NUMBERED = json.dumps(
    {**_KEY_OF_NUMBERS.spell(1), **_PLAIN_MEMBERS, "price": 1.5, "bid_at": 1767225600001}
).encode()
NUMBERED_KEY = close("bids", 1, keys=_KEY_OF_NUMBERS).value or b""


def counting(member: str, text: bytes) -> bytes:
    """A sound bid in numbers, but with this text as the value of one member."""
    head, tail = NUMBERED.split(b'"%s": ' % member.encode())
    _, comma, rest = tail.partition(b", ")
    return head + b'"%s": ' % member.encode() + text + (comma + rest if comma else b"}")


def closing(member: str, text: bytes) -> bytes:
    """A punctuation in numbers that names a key, with this text as the value of one column."""
    written = b'"%s": {"equals": %s}'
    return NUMBERED_KEY.replace(written % (member.encode(), b"-1"), written % (member.encode(), text))


def saying(member: str, kind: str, text: bytes) -> bytes:
    """A punctuation in numbers on one column."""
    return b'{"$punctuation": {"%s": {"%s": %s}}}' % (member.encode(), kind.encode(), text)


_KEYED = list(_KEY_OF_NUMBERS.types)
_USUAL = {name: b'"2026-01-31"' if name == "day" else b'"2026-01-31T00:00:00Z"' for name in NUMBERS}
_OUT = {
    name: [b"%d" % number for number in (least - 1, greatest + 1, 2**63, -(2**63))]
    for name, kind in NUMBERS.items()
    if kind in LIMITS
    for least, greatest in (LIMITS[kind],)
} | {"price": [b"3.4028235677973366e38", b"-3.5e38", b"1e39", b"1e400", b"9" * 40]}
_NO_NUMBERS = {
    name: [
        *(b'"7"', b"true", b"null", b"NaN", b"07", b"9" * 5_000, _USUAL[name]),
        *(() if name == "price" else (b"1.5", b"1.0", b"1e3")),
    ]
    for name in NUMBERS
}
DEAD_NUMBERS = {
    f"{name} {text[:20].decode()}": counting(name, text)
    for values in (_OUT, _NO_NUMBERS)
    for name in NUMBERS
    for text in values[name]
}
for _name in _KEYED:
    for _text in (*_OUT[_name][:2], b"1.5", b"null", _USUAL[_name]):
        DEAD_NUMBERS |= {
            f"{_name} equals {_text[:20].decode()} in a key": closing(_name, _text),
            f"{_name} one of {_text[:20].decode()}": saying(_name, "one_of", b"[0, %s]" % _text),
            f"{_name} up to {_text[:20].decode()}": saying(_name, "between", b'{"to": %s}' % _text),
        }
DEAD_NUMBERS |= {
    f"heartbeat up to {text[:20].decode()}": saying("bid_at", "between", b'{"to": %s}' % text)
    for text in (*_OUT["bid_at"], *_NO_NUMBERS["bid_at"])
}
_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC)
_SECOND_OF_ALL = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_KEY_VALUES = (
    -1,
    _ZERO - timedelta(seconds=1),
    _ZERO - timedelta(microseconds=1),
    date(1969, 12, 31),
    _ZERO - timedelta(milliseconds=1),
)
_WRITTEN: dict[str, list[tuple[bytes, Any]]] = {
    "number": [(b"-2147483648", -(2**31)), (b"2147483647", 2**31 - 1)],
    "second": [(b"-62135596800", _FIRST), (b"253402300799", _SECOND_OF_ALL), (b"-0", _ZERO)],
    "millis": [
        (b"-62135596800000", _FIRST),
        (b"253402300799999", _SECOND_OF_ALL + timedelta(milliseconds=999)),
        (b"1767225600123", datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)),
    ],
    "micros": [
        (b"-62135596800000000", _FIRST),
        (b"253402300799999999", datetime.max.replace(tzinfo=UTC)),
        (b"1767225600123457", datetime(2026, 1, 1, 0, 0, 0, 123_457, UTC)),
        (b"-9007199254740993", _ZERO - timedelta(microseconds=9007199254740993)),  # no double has it
    ],
    "day": [(b"-719162", date.min), (b"2932896", date.max), (b"0", date(1970, 1, 1))],
    "price": [
        (b"3.4028235E38", 3.4028235e38),  # the greatest float as Java writes it
        (b"-3.4028235677973362e38", -3.4028235677973362e38),
        (b"0.1", 0.1),  # which 32 bits would round
        (b"16777217", 16777217.0),
    ],
    "bid_at": [(b"1767225600001", datetime(2026, 1, 1, 0, 0, 0, 1_000, UTC))],
}
ALIVE_NUMBERS: dict[str, tuple[bytes, dict[str, Any] | tuple[Any, ...] | str]] = {
    f"{name} {text.decode()}": (counting(name, text), {name: value})
    for name, written in _WRITTEN.items()
    for text, value in written
}
ALIVE_NUMBERS |= {
    f"{name} equals {text.decode()} in a key": (
        closing(name, text),
        (*_KEY_VALUES[:place], value, *_KEY_VALUES[place + 1 :]),
    )
    for place, name in enumerate(_KEYED)
    for text, value in _WRITTEN[name]
}
ALIVE_NUMBERS |= {
    f"{name} {kind}": (saying(name, kind, text), "promise")
    for name in _KEYED
    for kind, text in {
        "equals": b"-20000",
        "one_of": b"[-1, 0, 20000]",
        "between": b'{"from": -5, "to": 5, "to_open": true}',
        "anything": b"true",
    }.items()
}
ALIVE_NUMBERS |= {
    "row": (NUMBERED, dict(zip(_KEYED, _KEY_VALUES, strict=True))),
    "escaped name": (NUMBERED.replace(b'"day"', rb'"\u0064ay"'), {"day": date(1969, 12, 31)}),
    "key": (NUMBERED_KEY, _KEY_VALUES),
    "heartbeat": (saying("bid_at", "between", b'{"to": -1}'), "promise"),
}
# By name: the stream, what is no record of it, and what is.
STREAMS: dict[str, tuple[Stream, Mapping[str, bytes | None], Mapping[str, tuple[bytes, Any]]]] = {
    "one key": (PIPELINE.streams["bids"], DEAD, ALIVE),
    "many keys": (MANY_KEYS.streams["bids"], DEAD_KEYS, ALIVE_KEYS),
    "gaps": (WITH_GAPS.streams["bids"], DEAD_GAPS, ALIVE_GAPS),
    "extra members": (IGNORING.streams["bids"], DEAD_EXTRA, ALIVE_EXTRA),
    "numbers": (IN_NUMBERS.streams["bids"], DEAD_NUMBERS, ALIVE_NUMBERS),
}
LISTED = {
    (stream, case): value
    for stream, (_, dead, alive) in STREAMS.items()
    for case, value in (*dead.items(), *((case, value) for case, (value, _) in alive.items()))
}
