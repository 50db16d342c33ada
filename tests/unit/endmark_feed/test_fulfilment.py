"""The shop of the example `fulfilment`: what becomes of its orders, and the records that are bad."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from endmark.pipeline.file import load
from endmark.pipeline.formats import FORMATS
from endmark.pipelines import AUCTION
from endmark_feed.bad_records import with_bad_records
from endmark_feed.customers import CUSTOMERS
from endmark_feed.fulfilment import (
    BAD_SHARE,
    CANCELLED_SHARE,
    FORGOTTEN_SHARE,
    FREE_SHARE,
    GUEST_SHARE,
    ORDERS,
    PAYMENTS,
    SHIPMENTS,
    fill,
    messages,
)
from endmark_feed.message import BAD, DEAD_LETTERS, VIOLATIONS, Kind, Message

TIME = {ORDERS: "ordered_at", PAYMENTS: "paid_at", SHIPMENTS: "sent_at"}
Rows = dict[str, dict[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def stream() -> list[Message]:
    return list(messages(3, 60.0, 1_000.0))


@pytest.fixture(scope="module")
def rows(stream: list[Message]) -> Rows:
    """The good rows of each topic by the number of their order, of which each has one at most."""
    found: Rows = {topic: {} for topic in TIME}
    for message in stream:
        if message.kind is Kind.ROW:
            row = json.loads(message.value)
            assert found[message.topic].setdefault(row["order_id"], row) is row
    return found


def test_orders_are_paid_and_then_shipped(rows: Rows) -> None:
    """Free ones are only shipped, and cancelled ones are neither."""
    orders, payments, shipments = (rows[topic] for topic in TIME)
    free = {number for number, order in orders.items() if Decimal(order["total"]) == 0}
    shares = {
        FREE_SHARE: len(free),
        CANCELLED_SHARE: len(orders) - len(shipments),
        GUEST_SHARE: sum(order["customer_id"] > CUSTOMERS for order in orders.values()),
    }
    for share, number in shares.items():
        assert number / len(orders) == pytest.approx(share, rel=0.2)
    assert set(payments) == set(shipments) - free
    for number, shipment in shipments.items():
        times = [orders[number]["ordered_at"], shipment["sent_at"]]
        if number in payments:
            gross = Decimal(orders[number]["total"]) * Decimal("1.19")
            assert abs(Decimal(payments[number]["amount"]) - gross) <= Decimal("0.005")
            times.insert(1, payments[number]["paid_at"])
        assert times == sorted(times)
    assert len({order["ordered_at"][:10] for order in orders.values()}) == 10


def test_each_order_is_closed_behind_its_rows(stream: list[Message]) -> None:
    """In the partition of its rows, but for those that are forgotten."""
    closed: dict[str, dict[int, int]] = {PAYMENTS: {}, SHIPMENTS: {}}
    orders = 0
    for message in stream:
        orders += message.topic == ORDERS and message.kind is Kind.ROW
        if message.kind is Kind.PUNCTUATION:
            pattern = json.loads(message.value)["$punctuation"]
            closed[message.topic][pattern["order_id"]["equals"]] = message.partition
        elif message.kind is Kind.ROW and message.topic in closed:
            assert json.loads(message.value)["order_id"] not in closed[message.topic]
    for partitions in closed.values():
        assert 1 - len(partitions) / orders == pytest.approx(FORGOTTEN_SHARE, rel=0.3)
    places = {int(each.key): each.partition for each in stream if each.topic == PAYMENTS}
    assert all(places[number] == partition for number, partition in closed[PAYMENTS].items())


def test_bad_records_are_of_every_kind_and_break_what_they_say(stream: list[Message]) -> None:
    bad = [each for each in stream if each.kind in BAD]
    assert len(bad) / len(stream) == pytest.approx(BAD_SHARE, rel=0.3)
    assert {(each.topic, each.kind) for each in bad} == {(topic, kind) for topic in TIME for kind in BAD}
    closed: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    newest: dict[tuple[str, int], datetime] = {}
    for each in stream:
        place = each.topic, each.partition
        if each.kind is Kind.PUNCTUATION:
            closed[place].add(int(each.key))
        elif each.kind in (Kind.ROW, *VIOLATIONS):
            row = json.loads(each.value)
            at = datetime.fromisoformat(row[TIME[each.topic]])
            is_late = place in newest and at < newest[place]
            assert is_late == (each.kind is Kind.LATE)
            if not is_late:
                assert (row["order_id"] in closed[place]) == (each.kind is Kind.CLOSED)
            newest[place] = max(at, newest.get(place, at))
            if each.topic == ORDERS:  # a row of a unique key closes it
                closed[place].add(row["order_id"])


def test_the_pipeline_refuses_each_record_that_is_to_be_a_dead_letter(stream: list[Message]) -> None:
    """Payments without `method`, which is optional, were called bad and were second payments of an order."""
    streams = load(AUCTION.with_name("fulfilment.yaml"), {"ENDMARK_RELATION_URL": "sqlite://"}).streams
    for name, declared in streams.items():
        sent = [each for each in stream if each.topic == declared.topic]
        parser = FORMATS[declared.format].parser(declared, name, ("order_id",), (), None)
        rejections = parser.parse(pa.array([each.value for each in sent], pa.binary())).rejections
        assert [each.at for each in rejections] == [
            at for at, each in enumerate(sent) if each.kind in DEAD_LETTERS
        ]


def test_good_records_come_in_the_order_of_their_times(stream: list[Message]) -> None:
    times = [json.loads(each.value)[TIME[each.topic]] for each in stream if each.kind is Kind.ROW]
    assert all(earlier <= later for earlier, later in pairwise(times))


def test_without_a_share_there_are_no_bad_records(stream: list[Message]) -> None:
    good = [each for each in stream if each.kind not in BAD]
    assert list(with_bad_records(iter(good), {}, 0, np.random.default_rng(1))) == good


def test_every_customer_has_a_country(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.db'}"
    assert fill(url, 5) == CUSTOMERS + 16
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        query = sa.text("SELECT count(*) FROM customers JOIN countries ON code = country")
        assert connection.scalar(query) == CUSTOMERS
    engine.dispose()
