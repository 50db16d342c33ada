"""The join of frames without Spark: what control rows do, and what comes of rows and texts that are bad."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.engine.channels import Buckets
from endmark.engine.ingest.frame_rows import PackFrame
from endmark.errors import ConfigError
from endmark.expressions.condition import Condition
from endmark.frame.texts import Writer
from endmark.spark.frame_inputs import frame_stream
from endmark.types import JoinType
from endmark.wire.renamed_punctuations import Renaming
from support.frame_tasks import COLUMN, Frame, FrameTasks, Rows, arrow_rows, said

OFFERS = pa.schema(
    [
        ("item", pa.int32()),
        ("price", pa.decimal128(6, 2)),
        ("weight", pa.float64()),
        ("photo", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
BIDS = pa.schema([("about", pa.int32()), ("bidder", pa.string()), ("at", pa.timestamp("us", "UTC"))])
START = datetime(2026, 1, 1, tzinfo=UTC)


def frames(directory: Path, *, punctuated: bool = True, **join: Any) -> FrameTasks:
    window = timedelta(seconds=5)
    both = {
        "left": Frame(OFFERS, ("item",), "at", window),
        "right": Frame(BIDS, ("about",), "at", window, punctuated),
    }
    return FrameTasks(both, directory, **join)


def offer(item: int | None, second: int = 0) -> dict[str, Any]:
    return {
        "item": item,
        "price": Decimal("12.50"),
        "weight": float("nan"),
        "photo": b"\xff",
        "at": START + timedelta(seconds=second),
    }


def bid(about: int, second: int = 0) -> dict[str, Any]:
    return {"about": about, "bidder": "ann", "at": START + timedelta(seconds=second)}


def texts(rows: Rows) -> list[Any]:
    return sorted((json.loads(row[COLUMN]) for row in rows if row[COLUMN]), key=repr)


def results(rows: Rows) -> list[tuple[Any, ...]]:
    return sorted((row["left_item"], row["right_about"]) for row in rows if row[COLUMN] is None)


def test_punctuations_stand_behind_the_rows_of_their_batch(tmp_path: Path) -> None:
    """A key is final for both sides' columns once both have closed it; what else a control row holds does
    not count."""
    join = frames(tmp_path)
    over = {"item": {"equals": 1}}

    first = join.batch([said(over) | offer(None), offer(1)], [bid(1)])
    second = join.batch([], [said({"about": {"one_of": [1, 2]}}), bid(1)])
    third = join.batch([offer(3)], [])

    assert (results(first), texts(first)) == ([(1, 1)], [])
    assert results(second) == [(1, 1)]
    assert texts(second) == [
        {"left_item": {"equals": 1}},
        {"left_item": {"equals": 2}},
        {"right_about": {"equals": 1}},
        {"right_about": {"equals": 2}},
    ]
    assert (results(third), texts(third)) == ([], [])


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_a_pattern_is_announced_once_all_buckets_let_it_go(tmp_path: Path, buckets: int) -> None:
    """It keeps its form and takes the names of the result; it waits for rows in any bucket."""
    join = frames(tmp_path, buckets=buckets)
    cheap = {"price": {"between": {"to": "20"}}}

    waiting = join.batch([*map(offer, range(1, 9)), said(cheap)], [])
    closing = join.batch([], [said({"about": {"between": {"to": 7}}})])
    last = join.batch([], [said({"about": {"equals": 8}})])

    assert texts(waiting) == []
    assert texts(closing) == [{"right_about": {"between": {"to": 7}}}]
    assert texts(last) == [
        {"left_item": {"equals": 8}},
        {"left_price": {"between": {"to": "20"}}},
        {"right_about": {"equals": 8}},
    ]


def test_a_frame_without_the_column_has_no_punctuations(tmp_path: Path) -> None:
    """The other one speaks for its columns, too. A key that a pattern closes is final when its last row has
    left its window, and so is the pattern."""
    join = frames(tmp_path, punctuated=False)
    join.batch([offer(1), said({"item": {"between": {"to": 3}}})], [bid(1)])

    later = join.batch([], [bid(9, second=6)])

    until, one = {"between": {"to": 3}}, {"equals": 1}
    assert texts(later) == [
        {name: pattern} for name in ("left_item", "right_about") for pattern in (until, one)
    ]


def test_violations_leave_as_text(tmp_path: Path) -> None:
    """Closed or late, with the row and the promise it broke, whatever the types of its columns."""
    join = frames(tmp_path)
    join.batch([offer(1, 3), said({"item": {"equals": 1}}), said({"price": {"equals": "1"}})])

    found = texts(join.batch([offer(1, 3), offer(2, 2)], [bid(1, 3)]))

    record = {"price": "12.50", "weight": "nan", "photo": "ff"}
    assert [each["$violation"] for each in found] == [
        {
            "frame": "left",
            "reason": "closed",
            "record": record | {"item": 1, "at": "2026-01-01T00:00:03+00:00"},
            "promise": {"item": {"equals": 1}},
        },
        {
            "frame": "left",
            "reason": "late",
            "record": record | {"item": 2, "at": "2026-01-01T00:00:02+00:00"},
        },
    ]


def test_a_row_that_breaks_a_wider_promise_says_so(tmp_path: Path) -> None:
    join = frames(tmp_path)
    join.batch([said({"price": {"equals": "12.5"}})])

    (found,) = texts(join.batch([offer(1)]))

    assert found["$violation"]["reason"] == "closed"
    assert "promise" not in found["$violation"]


def test_bad_text_is_a_dead_letter(tmp_path: Path) -> None:
    """The rows and punctuations beside it count; the next join passes it on as it is."""
    join = frames(tmp_path, kind=JoinType.SEMI)
    bad = [said("{"), said({"about": {"equals": 1 << 40}})]

    found = join.batch(
        [offer(1), said({"item": {"equals": 1}})], [*bad, bid(1), said({"about": {"equals": 1}})]
    )
    passed = join.batch([row for row in found if row[COLUMN] and "dead" in row[COLUMN]])

    letters = [each["$dead_letter"] for each in texts(found)[:2]]
    assert {each["value"]: (each["frame"], each["reason"]) for each in letters} == {
        row[COLUMN]: ("right", "bad_punctuation") for row in bad
    }
    assert "1099511627776 is no int32" in json.dumps(letters)
    assert texts(found)[2:] == [{"left_item": {"equals": 1}}]
    assert texts(passed) == texts(found)[:2]


RENAMED = Renaming(BIDS, {"item": "about", "name": "bidder", "at": "at"})


@pytest.mark.parametrize("renaming", [None, RENAMED])
def test_a_text_that_is_not_utf8_is_a_dead_letter(tmp_path: Path, renaming: Renaming | None) -> None:
    """Spark's strings may hold any bytes. No text is guessed, since it would close another key."""
    bids = pa.schema([("item", pa.int32()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    sides = {side: Frame(bids, ("item",), "at", renaming=renaming) for side in ("left", "right")}
    bad = b'{"bidder": {"equals": "\xff"}}'

    [letter] = texts(FrameTasks(sides, tmp_path).batch([{COLUMN: bad}]))

    assert letter["$dead_letter"].pop("error").startswith("byte 23 is not UTF-8; a punctuation is such as")
    told = {"frame": "left", "reason": "bad_punctuation", "base64": b64encode(bad).decode()}
    assert letter == {"$dead_letter": told}


def test_a_text_that_is_not_utf8_is_a_dead_letter_without_a_join() -> None:
    column = arrow_rows(
        [said({"about": {"equals": 1}}), {COLUMN: b"\xff"}], pa.schema([(COLUMN, pa.string())])
    )

    renamed, letter = map(json.loads, Writer(RENAMED)(column.column(0)).to_pylist())

    assert renamed == {"item": {"equals": 1}}
    assert letter["$dead_letter"]["base64"] == b64encode(b"\xff").decode()


@pytest.mark.parametrize("renaming", [None, RENAMED])
def test_strings_may_be_large(renaming: Renaming | None) -> None:
    """Spark gives such columns to Python if a session sets `arrow.useLargeVarTypes`."""
    rows = arrow_rows(
        [said({"about": {"equals": 1}}), bid(2), said("{"), {COLUMN: b"\xff"}],
        BIDS.append(pa.field(COLUMN, pa.string())),
    )
    strings = {"bidder": pa.large_string(), COLUMN: pa.large_string()}
    large = rows.cast(
        pa.schema([field.with_type(strings.get(field.name, field.type)) for field in rows.schema])
    )
    stream = frame_stream(
        "left",
        pa.schema([field.with_name(f"left_{field.name}") for field in BIDS]),
        ("about",),
        "at",
        None,
        timedelta(0),
        punctuated=True,
    )

    def packed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
        pack = PackFrame(stream, Buckets((3, 4)), len(BIDS), renaming)
        return [row for each in pack(iter([batch])) for row in each.to_pylist()]

    assert packed(large) == packed(rows)
    assert Writer(RENAMED)(large.column(COLUMN)) == Writer(RENAMED)(rows.column(COLUMN))


NOTES = pa.schema(
    [
        ("day", pa.date32()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("seen", pa.timestamp("us")),
        ("days", pa.list_(pa.struct([("day", pa.date32())]))),
        ("each", pa.map_(pa.date32(), pa.int32())),
    ]
)
FAR = 3_673_000  # days since 1970


@pytest.mark.parametrize("reason", ["null", "closed", "late"])
def test_violations_show_what_python_cannot_hold(tmp_path: Path, reason: str) -> None:
    """Years beyond 9999 and bytes that are not UTF-8, in a key or beside it, stopped the query at
    each start. The promise is shown for each key that a promise can name."""
    window = timedelta(seconds=5)
    side = Frame(NOTES, ("day", "name"), "at", window)
    join = FrameTasks({"left": side, "right": side}, tmp_path)
    closing = said({"day": {"anything": True}})
    join.batch([*([closing] if reason == "closed" else []), {"day": 1, "name": "ann", "at": START}])
    at = {"null": None, "closed": START, "late": START - window}[reason]
    near = {"day": 0, "name": "bob", "at": at}
    far = {"day": FAR, "name": b"caf\xe9", "at": at, "seen": -(10**17)}
    nested = {"days": [{"day": FAR}], "each": [(FAR, 1)]}

    found = [each["$violation"] for each in texts(join.batch([near, far | nested, near | {"name": b"\xff"}]))]

    assert {each["reason"] for each in found} == {reason}
    records = {each["record"]["name"]: each["record"] for each in found}
    assert records.keys() == {"bob", "caf\ufffd", "\ufffd"}
    assert records["caf\ufffd"]["day"] == "12026-05-02"
    assert records["caf\ufffd"]["seen"] == "-1199-02-15 14:13:20.000000"
    assert records["caf\ufffd"]["days"] == [{"day": "12026-05-02"}]
    assert records["caf\ufffd"]["each"] == [["12026-05-02", 1]]
    promised = {each["record"]["name"] for each in found if "promise" in each}
    assert promised == ({"bob"} if reason == "closed" else set())


def test_pairs_on_which_the_condition_fails_are_told_in_text(tmp_path: Path) -> None:
    """Once for a batch of a bucket, since a pair is no record."""
    condition = Condition("cast(right_bidder as integer) > 1", ("right_bidder",))
    join = frames(tmp_path, kind=JoinType.LEFT, buckets=1, residual=condition)

    found = join.batch([offer(1), offer(1)], [bid(1), {**bid(1), "bidder": "2"}, bid(1)])

    assert results(found) == [(1, 1), (1, 1)]
    [letter] = texts(found)
    assert letter["$dead_letter"]["reason"] == "failed_condition"
    assert letter["$dead_letter"]["error"].startswith(
        "4 pairs, which are no partners: Conversion Error: Could not convert string 'ann' to INT32"
    )


def test_rows_with_nulls_for_a_key_or_a_time(tmp_path: Path) -> None:
    """Violations, and all others are joined; without a column to say so in, an error."""
    timeless = offer(1) | {"at": None}

    found = frames(tmp_path).batch([offer(None), timeless, offer(1)], [bid(1)])

    assert results(found) == [(1, 1)]
    refused = [each["$violation"] for each in texts(found)]
    assert {(each["frame"], each["reason"]) for each in refused} == {("left", "null")}
    kept = [(each["record"]["item"], each["record"]["at"]) for each in refused]
    assert kept == [(1, None), (None, START.isoformat())]
    with pytest.raises(ConfigError, match="column right_about has nulls"):
        frames(tmp_path, punctuated=False).batch([], [bid(1) | {"about": None}])
