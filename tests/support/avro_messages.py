"""The records of the auction's feed in Avro, by schemas of a registry."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from endmark_feed.message import BIDS, DEAD_LETTERS, ITEMS, Kind, Message
from support.avro_registry import MARK, PUNCTUATION, encoded, framed, logical, punctuation

if TYPE_CHECKING:
    from support.registry_server import RegistryServer

_MICROS = logical("long", "timestamp-micros")
_SCHEMAS: dict[str, dict[str, Any]] = {
    ITEMS: {
        "item_id": "long",
        "seller_id": "long",
        "category": "string",
        "start_price": "double",
        "listed_at": _MICROS,
    },
    BIDS: {
        "bid_id": "long",
        "item_id": "long",
        "seller_id": "long",
        "bidder_id": "long",
        "price": "double",
        "bid_at": _MICROS,
    },
}


class AvroMessages:
    """Writes rows and punctuations in Avro. Records that cannot be read stay as they are.

    Args:
        registry: the registry, which gets the schemas, and always the same numbers for them.
    """

    def __init__(self, registry: RegistryServer) -> None:
        self._schemas = {
            topic: {
                "type": "record",
                "name": topic,
                "namespace": "auction",
                "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
            }
            for topic, fields in _SCHEMAS.items()
        }
        self._numbers = {
            topic: registry.register(f"{topic}-value", schema) for topic, schema in self._schemas.items()
        }
        self._punctuation = registry.register("punctuation", PUNCTUATION)

    def encoded(self, message: Message) -> bytes | None:
        """Return the value of a message in Confluent's framing."""
        if message.kind is Kind.TOMBSTONE:
            return None
        if message.kind in DEAD_LETTERS:
            return message.value
        document = json.loads(message.value)
        if MARK in document:
            return framed(self._punctuation, punctuation(document[MARK]))
        row = {
            name: datetime.fromisoformat(document[name]) if kind == _MICROS else document[name]
            for name, kind in _SCHEMAS[message.topic].items()
        }
        return framed(self._numbers[message.topic], encoded(self._schemas[message.topic], row))
