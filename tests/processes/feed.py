"""A feed of auction records that outlasts outages of the broker, and remembers what was acknowledged."""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka import KafkaProducer

from endmark_feed.message import BIDS, ITEMS, Kind, Message
from endmark_feed.options import FeedOptions, Partitions
from endmark_feed.producer import NAP_SECONDS, create_topics, when_due
from endmark_feed.workload import messages
from simulation.noise import with_noise
from support.verify_world import Record

PARTITIONS = Partitions(items=2, bids=2)
SELLERS = 2_000
RATE = 120.0  # records a second, a fraction of what a job takes here, so that it soon works off an outage
MAX_RECORD = 8 << 20
_PATIENCE_MS = 600_000  # longer than any outage
_NOISY_CHUNK = 100  # records, since noise moves a record by up to 20 places
_END = b'{"$punctuation": {"item_id": {"anything": true}}}'


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Feed(threading.Thread):
    """Publishes the auction in real time, except while it is paused.

    Attributes:
        acknowledged: the checksums of all acknowledged values by offset, by partition.
        acknowledgements: the number of acknowledged records.
        sent: the number of records handed to the producer.
        noise: the number of records that noise has met, by kind.

    Args:
        bootstrap: the address of the broker.
        seed: equal seeds give equal records.
        rate: records a second.
    """

    def __init__(self, bootstrap: str, seed: int, rate: float = RATE) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[Place, dict[int, int]] = {}
        self.acknowledgements = self.sent = 0
        self.noise: Counter[str] = Counter()
        self._options = FeedOptions(
            seed=seed,
            minutes=1_440,
            rate=rate,
            sellers=SELLERS,
            open_items=200,
            bad_rate=0.02,
            bursts=False,
            partitions=PARTITIONS,
        )
        create_topics(bootstrap, {ITEMS: PARTITIONS.items, BIDS: PARTITIONS.bids})
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            max_request_size=MAX_RECORD,
            max_block_ms=_PATIENCE_MS,
            delivery_timeout_ms=_PATIENCE_MS,
            request_timeout_ms=5_000,
            reconnect_backoff_max_ms=1_000,
            allow_auto_create_topics=False,
            metadata_max_age_ms=1_000,
            metrics_enabled=False,
        )
        self._lock = threading.Lock()  # one chunk is sent as a whole
        self._flows = threading.Event()
        self._ended = threading.Event()
        self._elapsed, self._since, self._speed = 0.0, 0.0, 1.0
        self._kinds: list[str] = []
        self._ends: dict[Place, int] = {}
        self._failures: list[Exception] = []

    def run(self) -> None:
        held: list[Message] = []
        for number, chunk in enumerate(when_due(messages(self._options), self._clock, self._sleep)):
            with self._flowing():
                if self._ended.is_set():
                    return
                held += chunk
                if not self._kinds or len(held) >= _NOISY_CHUNK:
                    self.send(self._noisy(held, number) if self._kinds else held)
                    held = []

    @contextmanager
    def _flowing(self) -> Iterator[None]:
        """Hold the lock at a moment at which records flow.

        A chunk that had waited for the lock was once sent behind a pause, and the oracle met a job at work.
        """
        while True:
            self._flows.wait()
            with self._lock:
                if self._flows.is_set():
                    yield
                    return

    def send(self, records: Iterable[Message]) -> None:
        """Queue records, in order."""
        for record in records:
            value = None if record.kind is Kind.TOMBSTONE else record.value
            sent = self._producer.send(record.topic, value, record.key, partition=record.partition)
            sent.add_callback(self._note, zlib.crc32(value or b""))
            sent.add_errback(self._failures.append)
            self.sent += 1

    def send_to(self, topic: str, partition: int, *values: bytes) -> None:
        """Queue values for one partition, in order and without other records between them."""
        with self._lock:
            self.send(Message(topic, partition, b"", value, 0.0, Kind.ROW) for value in values)

    @contextmanager
    def noisy(self, kinds: list[str]) -> Iterator[None]:
        """Add noise of some kinds while the body runs."""
        self._kinds = kinds
        try:
            yield
        finally:
            self._kinds = []

    def hurry(self, seconds: float) -> None:
        """Let the records of the next seconds be due at once."""
        self._elapsed += seconds

    def go_at(self, speed: float) -> None:
        """Let so many seconds of the workload pass in each second."""
        self._elapsed, self._since, self._speed = self._clock(), time.monotonic(), speed

    def resume(self) -> None:
        """Let records flow."""
        if not self.is_alive():
            self.start()
        if not self._flows.is_set():
            self._since = time.monotonic()
            self._flows.set()

    def pause(self) -> None:
        """Hold records back, and wait until all that were sent are acknowledged."""
        with self._lock:
            if self._flows.is_set():
                self._elapsed = self._clock()
                self._flows.clear()
            self._producer.flush(timeout=60)
        assert not self._failures, f"the broker lost a record: {self._failures[0]}"

    def end(self) -> None:
        """Promise in each partition that nothing follows, and wait until all is acknowledged."""
        self.pause()
        counts = {ITEMS: PARTITIONS.items, BIDS: PARTITIONS.bids}
        places = {Place(topic, partition) for topic, count in counts.items() for partition in range(count)}
        for topic, partition in sorted(places | self._ends.keys()):
            self.send_to(topic, partition, _END)
        self.pause()

    def close(self) -> None:
        self._ended.set()
        self._flows.set()
        self._producer.close(timeout=1)

    def partitions(self, topic: str) -> set[int]:
        """Return the partitions of a topic that can be sent to."""
        return set(self._producer.partitions_for(topic))

    def ends(self) -> dict[Place, int]:
        """Return the first offset behind the acknowledged records of each partition."""
        return dict(self._ends)

    def _note(self, checksum: int, where: Any) -> None:
        place = Place(where.topic, where.partition)
        self.acknowledged.setdefault(place, {})[where.offset] = checksum
        self._ends[place] = max(self._ends.get(place, 0), where.offset + 1)
        self.acknowledgements += 1

    def _noisy(self, chunk: list[Message], number: int) -> list[Message]:
        records = [Record(each.topic, each.partition, each.value, key=each.key) for each in chunk]
        records, counts = with_noise(records, (self._options.seed, number), self._kinds)
        self.noise += counts
        return [
            Message(each.topic, each.partition, each.key or b"", each.value or b"", 0.0, Kind.ROW)
            for each in records
        ]

    def _clock(self) -> float:
        if not self._flows.is_set():
            return self._elapsed
        return self._elapsed + self._speed * (time.monotonic() - self._since)

    def _sleep(self, seconds: float) -> None:
        until = self._clock() + max(seconds, NAP_SECONDS)
        while not self._ended.is_set():
            self._flows.wait(1.0)
            rest = until - self._clock()
            if rest <= 0:
                return
            if self._flows.is_set():
                time.sleep(min(rest, 0.05))
