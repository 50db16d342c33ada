"""The workload `fulfilment`: orders, payments and shipments of a shop, and its customers and countries.

An order is paid and then shipped, each at most once. The systems of payments and shipments say when an order
is done with, be it paid and shipped or cancelled. A second of the run is four hours of the shop, so event
times are of several days even in a short run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import sqlalchemy as sa

from endmark_feed.bad_records import Spoilable, with_bad_records
from endmark_feed.customers import CUSTOMERS, fill_customers
from endmark_feed.due_order import in_due_order
from endmark_feed.message import EPOCH, Kind, Message, keyed, money
from endmark_feed.options import random_stream
from endmark_feed.relation import COUNTRIES, fill_table, master_table

ORDERS, PAYMENTS, SHIPMENTS = "shop-orders", "shop-payments", "shop-shipments"
PARTITIONS = {ORDERS: 2, PAYMENTS: 2, SHIPMENTS: 2}
OUTPUTS = {"fulfilled": 2}  # the topic that the pipeline publishes to, and its partitions
SHOP_SECONDS = 14_400  # the shop's seconds in a second of the run
GUEST_SHARE = 0.02  # share of orders whose customer is not in the master table
FREE_SHARE = 0.03  # share of orders with a total of 0, which are shipped and not paid
CANCELLED_SHARE = 0.05  # share of orders that are neither paid nor shipped
FORGOTTEN_SHARE = 0.01  # share of punctuations that never come
BAD_SHARE = 0.002
PAID_SECONDS, SENT_SECONDS = 2.0, 3.0  # seconds of the run until the payment, and from then to the shipment
_PER_ORDER = 4.8  # records of an order: itself, the payment, the shipment and two punctuations
_BEGIN = datetime.fromisoformat(EPOCH)
_STREAMS = {
    ORDERS: Spoilable("ordered_at", "order_id", unique=True),
    PAYMENTS: Spoilable("paid_at", "order_id", nullable=("method",)),
    SHIPMENTS: Spoilable("sent_at", "order_id"),
}
_METHODS = ("card", "invoice", "transfer")
_COUNTRY_NAMES = (
    *("Austria", "Brazil", "Canada", "Switzerland", "Czechia", "Germany", "Denmark", "Spain"),
    *("France", "Hungary", "India", "Italy", "Japan", "Netherlands", "Norway", "United States"),
)

countries_table = master_table(
    "countries",
    sa.Column("code", sa.String(2), primary_key=True),
    sa.Column("name", sa.String(60), nullable=False),
)


def fill(url: str, seed: int) -> int:
    """Create and fill the tables of customers and countries; return the number of rows written."""
    countries = [{"code": code, "name": name} for code, name in zip(COUNTRIES, _COUNTRY_NAMES, strict=True)]
    return fill_customers(url, seed) + fill_table(url, countries_table, len(countries), [countries])


def messages(seed: int, seconds: float, rate: float) -> Iterator[Message]:
    """Return the records of as many complete orders as fit, at least one.

    Event times never go back, except in bad records.

    Args:
        seed: equal seeds give equal records.
        seconds: the seconds of the run over which orders are placed.
        rate: the mean records a second of the run.
    """
    random = random_stream(seed, "fulfilment")
    orders = max(1, round(seconds * rate / _PER_ORDER))
    begins = ((number, (number - 1) / orders * seconds) for number in range(1, orders + 1))
    good = in_due_order((begin, _of_order(number, begin, random)) for number, begin in begins)
    return with_bad_records(good, _STREAMS, BAD_SHARE, random_stream(seed, "bad records"))


def _of_order(number: int, begin: float, random: np.random.Generator) -> Iterator[Message]:
    """Yield the records of one order: it is placed, paid and shipped, and both are said to be over.

    Args:
        number: the number of the order.
        begin: the time of the order, in seconds of the run.
        random: the source of randomness.
    """
    guest, free, cancelled = random.random(3) < (GUEST_SHARE, FREE_SHARE, CANCELLED_SHARE)
    cents = 0 if free else int(random.integers(500, 100_000))
    order = {
        "customer_id": int(random.integers(1, CUSTOMERS + 1)) + CUSTOMERS * int(guest),
        "total": money(cents),
        "ordered_at": _at(begin),
    }
    yield _row(ORDERS, number, order, begin)
    paid = begin + random.uniform(0.1, PAID_SECONDS)
    if not (free or cancelled):
        gross = (cents * 119 + 50) // 100
        method = _METHODS[random.integers(len(_METHODS))]
        yield _row(PAYMENTS, number, {"amount": money(gross), "method": method, "paid_at": _at(paid)}, paid)
    sent = paid + random.uniform(0.1, SENT_SECONDS)
    if not cancelled:
        parcel = f"P{number:09d}"
        yield _row(SHIPMENTS, number, {"parcel": parcel, "sent_at": _at(sent)}, sent)
    for topic, due in ((PAYMENTS, paid), (SHIPMENTS, sent)):
        if random.random() >= FORGOTTEN_SHARE:
            value = b'{"$punctuation": {"order_id": {"equals": %d}}}' % number
            yield keyed(topic, PARTITIONS, number, value, due, Kind.PUNCTUATION)


def _row(topic: str, number: int, row: dict[str, object], due: float) -> Message:
    return keyed(topic, PARTITIONS, number, json.dumps({"order_id": number, **row}).encode(), due, Kind.ROW)


def _at(seconds: float) -> str:
    at = _BEGIN + timedelta(seconds=seconds * SHOP_SECONDS)
    return f"{at.isoformat(timespec='microseconds')}Z"
