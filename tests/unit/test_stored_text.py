"""Text that a record has a say in: whatever it is, tables can store it, and the record is kept whole."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.punctuation.wire_json import first_twice
from endmark.stored_text import MOST, storable, storable_value
from endmark.types import JoinType
from endmark.wire.rejection import read_object
from support.bucket_tasks import BucketTasks, Located
from support.frame_tasks import COLUMN, Frame, FrameTasks, said
from support.hostile_records import CONTROL, DEBEZIUM, JSON, LONG, XML
from support.shops import Shops, offer
from support.verify_recompute import recomputed, require_within
from support.verify_world import Record, make_pipeline

SELLERS = [(1, "Ann", 4.5)]


@pytest.mark.parametrize(
    ("spelled", "values"), [("json", JSON), ("debezium", [*JSON, *DEBEZIUM]), ("xml", [*JSON, *XML])]
)
def test_what_is_wrong_with_a_record_can_be_stored(spelled: str, values: list[bytes], tmp_path: Path) -> None:
    """Each of the records is a dead letter with its own bytes and an error that is printable and short."""
    pipeline = make_pipeline(declared=({}, {"format": spelled}))
    topic = pipeline.streams["bids"].topic
    located: list[Located] = [(topic, 0, at, value, 0) for at, value in enumerate(values)]

    found = BucketTasks(pipeline, SELLERS, 1, tmp_path).batch(located)

    assert [letter["value"] for letter in found["dead_letters"]] == values
    for letter in found["dead_letters"]:
        assert letter["error"].isprintable()
        assert 0 < len(letter["error"]) <= MOST


def test_what_is_wrong_with_a_control_record_can_be_stored(tmp_path: Path) -> None:
    """Likewise, and `verify` refuses the same of them."""
    pipeline = make_pipeline()
    located: list[Located] = [("small-control", 0, at, value, 0) for at, value in enumerate(CONTROL)]

    found = BucketTasks(pipeline, SELLERS, 1, tmp_path).batch(located)

    assert [letter["value"] for letter in found["dead_letters"]] == CONTROL
    assert all(letter["error"].isprintable() for letter in found["dead_letters"])
    assert max(len(letter["error"]) for letter in found["dead_letters"]) == MOST
    with recomputed(
        pipeline, [Record("small-control", 0, value) for value in CONTROL], found=found
    ) as session:
        require_within(session, pipeline)


def test_what_is_wrong_with_a_text_of_a_frame_can_be_stored(tmp_path: Path) -> None:
    """The text itself is passed on whole."""
    columns = pa.schema([("item", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
    both = {side: Frame(columns, ("item",), "at") for side in ("left", "right")}
    join = FrameTasks(both, tmp_path, kind=JoinType.SEMI)
    bad = [r'{"\ud800": {"equals": 1}}', rf'{{"{LONG.decode()}": {{"equals": 1}}}}']

    found = join.batch([], [said(text) for text in bad])

    letters = [json.loads(row[COLUMN])["$dead_letter"] for row in found if row[COLUMN]]
    assert [letter["value"] for letter in letters] == bad
    assert all(letter["error"].isprintable() and len(letter["error"]) <= MOST for letter in letters)


def test_a_long_promise_is_cut_and_the_row_that_broke_it_is_not(tmp_path: Path) -> None:
    """One promise of many values may be broken by many rows, each of which says so."""
    shops = Shops(tmp_path, type="inner")
    many = [f"{number}" for number in range(5_000)]
    shop = 5_000 * "north"
    shops.batch(offers=[{"$punctuation": {"shop": {"one_of": [*many, shop]}}}])

    (violation,) = shops.batch(offers=[offer(shop, 1, "2.50")])["violations"]

    assert len(violation["promise"]) == MOST
    assert violation["promise"].endswith("…")
    assert json.loads(violation["record"])["shop"] == shop


def test_a_long_promise_of_a_frame_is_cut_likewise(tmp_path: Path) -> None:
    columns = pa.schema([("shop", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    join = FrameTasks({side: Frame(columns, ("shop",), "at") for side in ("left", "right")}, tmp_path)
    shop = 5_000 * "north"
    row = {"shop": shop, "at": datetime(2026, 1, 1, tzinfo=UTC)}

    join.batch([said({"shop": {"equals": shop}})])
    found = [json.loads(each[COLUMN]) for each in join.batch([row], []) if each[COLUMN]]

    (violation,) = [each["$violation"] for each in found if "$violation" in each]
    assert len(violation["promise"]) == MOST
    assert violation["promise"].startswith('{"shop": {"equals": "northnorth')
    assert violation["record"]["shop"] == shop


class Name(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_name_that_stands_twice_is_found_in_one_pass() -> None:
    """Counting each name among all others took 309 s for a record of 830 kB."""
    names = [Name(number) for number in range(1_000)]

    assert first_twice([*names, Name(999)]) == "999"
    assert Name.compared < 10
    assert read_object(b'{"a": 1, "b": 2, "b": 3}') == ("duplicate_field", "member 'b' stands twice")


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)


@given(ANY_TEXT, st.integers(5, 30))
def test_storable_text(text: str, most: int) -> None:
    """It can be encoded and printed, is no longer than it may be, and is left alone if it is stored again."""
    stored = storable(text, most)

    assert stored.encode().decode() == stored
    assert stored.isprintable()
    assert len(stored) <= most
    assert storable(stored, most) == stored
    if text.isprintable() and len(text) <= most:
        assert stored == text


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        ("a\ud800", r"a\ud800"),
        (2**63, "0x8000000000000000"),
        (float("inf"), "inf"),
        ([1], "[1]"),
    ],
)
def test_storable_value(value: Any, stored: Any) -> None:
    assert storable_value(value) == stored
    assert type(storable_value(value)) is type(stored)
