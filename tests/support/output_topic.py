"""Reads an output topic back, and says what is wrong with the order of its records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition

MARK = "$punctuation"


@dataclass(frozen=True)
class Published:
    """A record of the topic; `batch` and `checkpoint` are from its headers."""

    partition: int
    key: bytes | None
    value: bytes
    batch: int
    checkpoint: str

    @property
    def spoken(self) -> dict[str, Any]:
        members: dict[str, Any] = json.loads(self.value)
        return members

    @property
    def is_result(self) -> bool:
        return MARK not in self.spoken


def read_topic(bootstrap: str, topic: str) -> list[Published]:
    """Every record that is there now, those of a partition in order."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        found = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=1000).values():
                found += [_published(record) for record in records]
        return found
    finally:
        consumer.close()


def _published(record: Any) -> Published:
    headers = dict(record.headers)
    batch, checkpoint = headers["endmark-batch"], headers["endmark-checkpoint"]
    return Published(record.partition, record.key, record.value, int(batch), checkpoint.decode())


def without_repeats(records: Iterable[Published]) -> list[Published]:
    """Return the records that a consumer keeps if it drops repeats within a partition and batch."""
    return list(dict.fromkeys(records))


def out_of_order(records: Iterable[Published]) -> list[Published]:
    """New results behind a punctuation of their partition that matches them, where its patterns are `equals`;
    and records of a batch behind those of a later one."""
    wrong: list[Published] = []
    for mine in _by_partition(records).values():
        seen: set[Published] = set()
        said: set[tuple[tuple[str, Any], ...]] = set()
        newest = -1
        for record in mine:
            values = record.spoken
            if not record.is_result:
                patterns = values[MARK]
                said.add(tuple(sorted((name, pattern["equals"]) for name, pattern in patterns.items())))
            elif record not in seen and any(
                tuple((name, values[name]) for name in names) in said
                for names in {tuple(name for name, _ in each) for each in said}
            ):
                wrong.append(record)
            if record.batch < newest:
                wrong.append(record)
            newest = max(newest, record.batch)
            seen.add(record)
    return wrong


def _by_partition(records: Iterable[Published]) -> dict[int, list[Published]]:
    found: dict[int, list[Published]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found
