"""The workload `orders`: orders, payments, and master tables of customers and products.

The records of orders are those of Debezium for a table of orders. A payment says whether it is the last one
of its order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa

from endmark_feed.customers import CUSTOMERS, fill_customers
from endmark_feed.due_order import in_due_order
from endmark_feed.message import EPOCH, Kind, Message, keyed, money
from endmark_feed.options import random_stream
from endmark_feed.relation import KEY, fill_table, master_table

ORDERS, PAYMENTS = "shop.orders", "payments"
PARTITIONS = {ORDERS: 2, PAYMENTS: 2}
PRODUCTS = 500
UNKNOWN_SHARE = 0.01  # share of orders whose customer and product are not in the master tables
UNPAID_SHARE = 0.1
CHANGED_SHARE = 0.01
PAID_SECONDS = 4.0  # all payments of an order come within this time
FILED_SECONDS = 5.0  # an order is deleted after this time
_PER_ORDER = 4.8  # records of an order: itself, 1.8 payments on average, the deletion and its tombstone
_BEGIN = datetime.fromisoformat(EPOCH)

products_table = master_table(
    "products",
    sa.Column("product_id", KEY, primary_key=True, autoincrement=False),
    sa.Column("title", sa.String(100), nullable=False),
    sa.Column("price", sa.Double, nullable=False),
)


def fill(url: str, seed: int) -> int:
    """Create and fill the tables of customers and products; return the number of rows written."""
    random = random_stream(seed, "products")
    products = [
        {"product_id": number, "title": f"Product {number}", "price": float(random.integers(1, 20_000)) / 100}
        for number in range(1, PRODUCTS + 1)
    ]
    return fill_customers(url, seed) + fill_table(url, products_table, PRODUCTS, [products])


def messages(seed: int, seconds: float, rate: float) -> Iterator[Message]:
    """Return the records of as many complete orders as fit, at least one. Event times never go back.

    Args:
        seed: equal seeds give equal records.
        seconds: the event time over which orders are placed.
        rate: the mean records a second of event time.
    """
    random = random_stream(seed, "orders")
    orders = max(1, round(seconds * rate / _PER_ORDER))
    begins = ((number, (number - 1) / orders * seconds) for number in range(1, orders + 1))
    return in_due_order((begin, _of_order(number, begin, random)) for number, begin in begins)


def _of_order(number: int, begin: float, random: np.random.Generator) -> Iterator[Message]:
    """Yield the records of one order: it is placed, may change, may be paid in parts, and is deleted.

    Args:
        number: the number of the order.
        begin: the event time of the order, in seconds since the beginning of the run.
        random: the source of randomness.
    """
    unknown = random.random() < UNKNOWN_SHARE
    cents = int(random.integers(100, 100_000))
    row = {
        "order_id": number,
        "customer_id": int(random.integers(1, CUSTOMERS + 1)) + CUSTOMERS * unknown,
        "product_id": int(random.integers(1, PRODUCTS + 1)) + PRODUCTS * unknown,
        "total": money(cents),
        "ordered_at": _at(begin),
    }
    yield _captured("c", number, None, row, begin)
    if random.random() < CHANGED_SHARE:
        yield _captured("u", number, row, row | {"total": money(cents + 1)}, begin + 0.1)
    if random.random() >= UNPAID_SHARE:
        rates = int(random.integers(1, 4))
        for last, due in enumerate(np.sort(random.uniform(0.2, PAID_SECONDS, rates)).tolist(), 1 - rates):
            paid = {
                "order_id": number,
                "amount": money(cents // rates + (cents % rates if last == 0 else 0)),
                "final": last == 0,
                "paid_at": _at(begin + due),
            }
            yield keyed(PAYMENTS, PARTITIONS, number, json.dumps(paid).encode(), begin + due, Kind.ROW)
    filed = begin + FILED_SECONDS
    yield _captured("d", number, row, None, filed)
    yield keyed(ORDERS, PARTITIONS, number, b"", filed, Kind.TOMBSTONE)


def _captured(
    op: str, number: int, before: dict[str, Any] | None, after: dict[str, Any] | None, due: float
) -> Message:
    milliseconds = round((_BEGIN + timedelta(seconds=due)).timestamp() * 1000)
    source = {"connector": "mysql", "name": "shop", "ts_ms": milliseconds, "db": "shop", "table": "orders"}
    envelope = {"before": before, "after": after, "source": source, "op": op, "ts_ms": milliseconds}
    kind = Kind.PUNCTUATION if op == "d" else Kind.ROW
    return keyed(ORDERS, PARTITIONS, number, json.dumps(envelope).encode(), due, kind)


def _at(seconds: float) -> str:
    return f"{(_BEGIN + timedelta(seconds=seconds)).isoformat(timespec='microseconds')}Z"
