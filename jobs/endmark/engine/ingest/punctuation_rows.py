"""Punctuations and deletions as packed rows: keys go to their buckets, other promises to every bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.engine import channels
from endmark.engine.channels import stream_channel
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Origin, Punctuation

if TYPE_CHECKING:
    from endmark.engine.channels import Buckets, Packer
    from endmark.engine.streams import ClosingPlan, StreamPlan
    from endmark.expressions.condition_failures import Failures
    from endmark.state.search import Ints


class PromisePacker:
    """Packs the punctuations of one stream.

    Args:
        packer: takes the packed rows.
        buckets: the buckets of the join.
        stream: the plan of the stream.
    """

    def __init__(self, packer: Packer, buckets: Buckets, stream: StreamPlan) -> None:
        self._packer = packer
        self._buckets = buckets
        self._stream = stream

    def named_keys(self, partition: int, keys: pa.RecordBatch, offsets: Ints) -> None:
        """Pack keys that punctuations or deletions name.

        Args:
            partition: the partition of the records.
            keys: the keys, by the stream's names of their columns.
            offsets: the offset of the record of each key.
        """
        if self._stream.punctuated_on:
            self.close(partition, keys, offsets)
        if self._stream.removes_rows:
            self._pack(channels.DELETED_KEYS, partition, keys, offsets)

    def close(self, partition: int, keys: pa.RecordBatch, offsets: Ints) -> None:
        """Pack closed keys; the arguments are those of `named_keys`."""
        self._pack(channels.CLOSED_KEYS, partition, keys, offsets)

    def _pack(self, channel: str, partition: int, keys: pa.RecordBatch, offsets: Ints) -> None:
        if keys.num_rows == 0:
            return
        key = self._stream.side.key.shared
        columns = [
            *(keys.column(name) for name in self._stream.on),
            pa.repeat(pa.scalar(partition, pa.int64()), keys.num_rows),
            pa.array(offsets),
        ]
        keys = pa.record_batch(columns, names=[*key.columns, "partition", "offset"])
        for label, share in self._buckets.by_key(keys, key):
            self._packer.add(label, stream_channel(channel, self._stream.side.name), share)

    def promise(self, partition: int, offset: int, promise: Punctuation) -> None:
        """Pack a punctuation of any shape.

        Args:
            partition, offset: the coordinates of the punctuation.
            promise: the punctuation, by the stream's names of its columns.
        """
        stream, types = self._stream, self._stream.side.schema
        named = promise.keys_named(stream.on)
        if named:
            kinds = pa.schema([(name, types.field(f"{stream.side.name}_{name}").type) for name in stream.on])
            keys = pa.RecordBatch.from_pylist(named, kinds)
            self.close(partition, keys, np.full(len(named), offset, np.int64))
            return
        patterns = {f"{stream.side.name}_{name}": pattern for name, pattern in promise.patterns}
        written = stream.side.codec.write(Punctuation.of(stream.name, patterns, Origin(partition, offset)))
        for label in self._buckets.labels:
            self._packer.add_json(label, stream_channel(channels.PROMISES, stream.side.name), written)

    def close_by_rows(
        self, partition: int, rows: pa.RecordBatch, offsets: Ints, rule: ClosingPlan, failures: Failures
    ) -> int:
        """Pack the punctuations that rows make by the closing rule; return how many rows met the rule.

        The punctuation of a row stands behind the row, and counts even if the row is a violation.

        Args:
            partition: the partition of the rows.
            rows: the rows, by the stream's names of its columns.
            offsets: the offsets of the rows.
            rule: the closing rule.
            failures: collects the rows on which the rule failed. Such rows close nothing.
        """
        answer = rule.condition.ask(rows.select(list(rule.condition.columns)))
        met = answer.holds
        if len(answer.failed):
            at = {
                "stream": self._stream.name,
                "partition": partition,
                "offset": int(offsets[answer.failed[0]]),
            }
            failures.add(len(answer.failed), answer.why, [at])
        last = rows.select(list(rule.on)).filter(pa.array(met))
        if set(rule.on) == set(self._stream.on):
            self.close(partition, last, offsets[met])
            return int(last.num_rows)
        for offset, values in zip(offsets[met].tolist(), last.to_pylist(), strict=True):
            patterns = {name: Equals(value) for name, value in values.items()}
            self.promise(partition, offset, Punctuation.of(self._stream.name, patterns))
        return int(last.num_rows)
