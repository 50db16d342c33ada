"""The pulse: a control record that the driver sends to start a batch for rows that wait.

Spark runs a batch only when a record comes, and its timers would run empty batches back to back. A pulse in
Kafka runs exactly one batch. It is replayed with that batch and accounted for like any record.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from endmark.kafka.sending import PATIENCE_MS, connected_producer, sent_by
from endmark.metrics import sample
from endmark.wire.control import PULSE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka import KafkaProducer

    from endmark.control.tuning.job_autotune import Tuning
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.metrics import Samples


class Pulse:
    """Sends pulses, one at a time, and the turns of autotune to the control topic. Close it in the end.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topic: the control topic.
        tuning: the tuner of the job's knobs; `None` if the job tunes none.
    """

    def __init__(self, bootstrap: ClusterOrAddress, topic: str, tuning: Tuning | None = None) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._tuning = tuning
        self._producer: KafkaProducer | None = None
        self._sent = -1  # offset of the last pulse
        self._read = 0
        self._due: float | None = None
        self._oldest: float | None = None
        self._turns: deque[bytes] = deque()

    def batch_done(self, samples: Samples, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Take the samples of a batch, and its first offsets that are not read, by topic and partition."""
        self._due = samples.get(sample("batch_due_time_seconds"))
        self._oldest = samples.get(sample("lookup_waiting_time_seconds"))
        self._read = offsets.get(self._topic, {}).get("0", 0)

    @property
    def due(self) -> float | None:
        """The time at which a batch is due, in Unix seconds; `None` if nothing waits for one."""
        return self._due

    @property
    def read(self) -> int:
        """The first offset of the control topic that no batch has read."""
        return self._read

    def waits_for(self, before: float) -> bool:
        """Return whether something still waits that came until `before`, a time in Unix seconds."""
        return self._due is not None and (self._oldest is None or self._oldest <= before)

    def beat(self) -> None:
        """Send a pulse if a batch is due and the last pulse has been read.

        A broker that does not answer is left to the query, which reports it.
        """
        if self._due is None or self._due > time.time() or self._sent >= self._read:
            return
        self._sent = self._send(PULSE, self._sent)

    def tune(self, batch_id: int, samples: Samples, turns: Sequence[Mapping[str, Any]]) -> None:
        """Give a batch to autotune; `turn` sends the record that autotune answers with.

        Args:
            batch_id: the number of the batch.
            samples: the samples of the batch.
            turns: the turns that the batch has read, as rows of the ops database.
        """
        move = None if self._tuning is None else self._tuning.batch_done(batch_id, samples, turns)
        if move is not None:
            self._turns.append(move)

    def turn(self) -> None:
        """Send the waiting turns of autotune. A turn that the broker does not take is dropped."""
        while self._turns:
            self._send(self._turns.popleft(), -1)

    def _send(self, record: bytes, otherwise: int) -> int:
        """Send a record and return its offset; return `otherwise` if the broker does not answer."""
        try:
            if self._producer is None:
                self._producer = connected_producer(self._bootstrap)
            return sent_by(self._producer, self._topic, record)
        except KafkaError:
            return otherwise

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=PATIENCE_MS / 1000)
