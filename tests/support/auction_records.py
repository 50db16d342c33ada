"""Records of the auction example, made one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer

if TYPE_CHECKING:
    from endmark.embedded.broker import Broker


def send(broker: Broker, topic: str, *values: Any, partition: int = 0) -> None:
    """Send values, in order, to one partition; those that are no bytes as JSON."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for value in values:
        record = value if isinstance(value, bytes) else json.dumps(value).encode()
        producer.send(topic, record, partition=partition)
    producer.close()


def item(number: int) -> dict[str, Any]:
    place = {"item_id": number, "seller_id": 1, "category": "art", "start_price": 1.0}
    return place | {"listed_at": "2026-01-01T00:00:00Z"}


def bid(number: int, seller: int) -> dict[str, Any]:
    place = {"bid_id": number, "item_id": number, "seller_id": seller, "bidder_id": 1, "price": 2.0}
    return place | {"bid_at": "2026-01-01T00:00:01Z"}


def over(number: int) -> dict[str, Any]:
    """The punctuation that no more rows of this item come."""
    return {"$punctuation": {"item_id": {"equals": number}}}
