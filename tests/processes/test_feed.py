"""What the feed of a rig sends while records are made wrong."""

from __future__ import annotations

import pytest

from processes.feed import _of_its_key
from support.verify_world import Record

ROW = b'{"item_id": 12, "price": 2.0}'
CLOSED = b'{"$punctuation": {"item_id": {"equals": 12}}}'


@pytest.mark.parametrize(
    "value",
    [ROW, CLOSED, b"", b"12", b"null", b'{"item_id": 12, "pri', ROW.replace(b"2.0", b"7.0"), b"\xff"],
)
def test_what_is_of_its_key_or_unreadable_is_sent_as_it_is(value: bytes) -> None:
    assert _of_its_key(Record("bids", 0, value, key=b"12")) == value


@pytest.mark.parametrize("value", [ROW, CLOSED])
@pytest.mark.parametrize("spoiled", [b"13", b" 2", b"1 ", b"112"])
def test_a_record_of_another_key_is_cut(value: bytes, spoiled: bytes) -> None:
    other = value.replace(b"12", spoiled)
    assert _of_its_key(Record("bids", 0, other, key=b"12")) == other[:-1]
