"""A client for producers of a stream. It sends rows, and punctuations to every partition that they concern.

    with StreamProducer("localhost:9092", "bids", {"item_id": "long"}, key="item_id") as bids:
        bids.send({"item_id": 42})
        bids.punctuate({"item_id": equals(42)})

A producer that is made with `event_time="bid_at"` also sends heartbeats: `bids.heartbeat(datetime.now(UTC))`.

It needs neither Spark nor Arrow.
"""

from endmark.client.delivery import Delivery, key_hash
from endmark.client.patterns import anything, between, equals, one_of
from endmark.client.producer import StreamProducer

__all__ = ["Delivery", "StreamProducer", "anything", "between", "equals", "key_hash", "one_of"]
