"""The simulated broker: records of topics by offset, of which more arrive from batch to batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from endmark.kafka.offsets import Offsets
from endmark.kafka.ranges import Range
from support.bucket_tasks import Located, kafka_batch


def partitioned(
    records: Sequence[Located], partitions: Mapping[str, int]
) -> dict[tuple[str, int], pa.RecordBatch]:
    """Return the records of each partition, in the order of their offsets."""
    found: dict[tuple[str, int], list[Located]] = {
        (topic, partition): [] for topic, count in partitions.items() for partition in range(count)
    }
    for record in records:
        found[record[0], record[1]].append(record)
    return {at: kafka_batch(mine) for at, mine in found.items()}


class Broker:
    """The topics of a pipeline, of which the control topic grows while the job runs.

    Args:
        records: the records of each partition.
        control: the control topic.
    """

    def __init__(self, records: Mapping[tuple[str, int], pa.RecordBatch], control: str) -> None:
        self._records = {(control, 0): kafka_batch([]), **records}
        self._arrived = dict.fromkeys(self._records, 0)
        self._control = control

    @property
    def is_empty(self) -> bool:
        """True once all records have arrived."""
        return all(self._arrived[at] == mine.num_rows for at, mine in self._records.items())

    def arrive(self, share: Callable[[str], float]) -> None:
        """Let a share of the records arrive that each partition has left, by the name of the partition."""
        for (topic, at), mine in self._records.items():
            left = mine.num_rows - self._arrived[topic, at]
            self._arrived[topic, at] += min(left, round(left * share(f"{topic}/{at}")))

    def send(self, value: bytes, milliseconds: int) -> None:
        """Append a record to the control topic."""
        at = self._control, 0
        offset = self._records[at].num_rows
        rows = [self._records[at], kafka_batch([(self._control, 0, offset, value, milliseconds)])]
        self._records[at] = pa.Table.from_batches(rows).combine_chunks().to_batches()[0]
        self._arrived[at] = offset + 1

    def ends(self) -> Offsets:
        """The offsets behind the records that have arrived, by topic and partition."""
        found: Offsets = {}
        for (topic, at), end in self._arrived.items():
            found.setdefault(topic, {})[str(at)] = end
        return found

    def read(self, ranges: Sequence[Range], most: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of some ranges, at most so many at once. The ranges take turns."""
        left = [(each, each.first) for each in ranges]
        while left:
            found, left = left, []
            for each, at in found:
                until = min(each.end, at + most)
                yield self._records[each.topic, each.partition].slice(at, until - at)
                if until < each.end:
                    left.append((each, until))
