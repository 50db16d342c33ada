"""Declared clustering: all rows of a key come in one run, which the first row of another key ends.

This is MJoin's 1-NC. Ingest finds the runs that end within a batch. If a run is open at the end of a batch,
the bucket of its key remembers it until a later batch begins with another key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.pattern import Equals, values_of
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from endmark.operators.stream_batch import RunNews
    from endmark.state.keys import KeySpec, Share


def ended_runs(rows: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """Return the keys whose runs end, with the `partition` and `offset` of the row that ends each run.

    Args:
        rows: rows of one partition, in the order of offsets.
        key: the columns of the key.
    """
    ends = np.zeros(max(rows.num_rows - 1, 0), bool)
    for name in key:
        column = rows.column(name)
        ends |= pc.not_equal(column.slice(1), column.slice(0, len(ends))).to_numpy(zero_copy_only=False)
    before, behind = (rows.slice(at, len(ends)).filter(pa.array(ends)) for at in (0, 1))
    columns = [*(before.column(name) for name in key), behind.column("partition"), behind.column("offset")]
    return pa.record_batch(columns, names=[*key, "partition", "offset"])


class KeyRuns:
    """The open runs of one clustered side whose key belongs to this bucket, by partition.

    Args:
        key: the key, by the names that both sides share.
        types: the types of the key's columns.
    """

    def __init__(self, key: KeySpec, types: Iterable[pa.DataType]) -> None:
        self._key = key
        self._kinds = dict(zip(key.columns, types, strict=True))
        self._open: dict[int, pa.RecordBatch] = {}

    def take(self, news: RunNews) -> list[pa.RecordBatch]:
        """Return the keys whose runs a batch ends, with `partition` and `offset` of the row that ends it."""
        found = [] if news.ended is None else [news.ended]
        if news.first is not None:
            for at, partition in enumerate(news.first.column("partition").to_pylist()):
                first, last = news.first.slice(at, 1), self._open.pop(partition, None)
                if last is not None:
                    two = codec.concat([last, first.select(last.schema.names)])
                    found.append(self._key.coded(ended_runs(two, self._key.columns)))
        if news.last is not None:
            names = [*self._key.columns, "partition", "offset"]
            for at, partition in enumerate(news.last.column("partition").to_pylist()):
                self._open[partition] = news.last.select(names).slice(at, 1)
        return found

    def keep(self, share: Share) -> None:
        """Forget the open runs whose keys belong to other buckets."""
        self._open = {
            partition: last
            for partition, last in self._open.items()
            if share.has(self._key.keys(self._key.coded(last)).codes).all()
        }

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the state for `restore`, ready for JSON."""
        return [
            {
                name: pattern_to_json(Equals(row[name]), domain_of_type(kind))
                for name, kind in self._kinds.items()
            }
            | {"partition": row["partition"], "offset": row["offset"]}
            for last in self._open.values()
            for row in last.to_pylist()
        ]

    def restore(self, snapshot: Sequence[Mapping[str, Any]]) -> None:
        schema = pa.schema([*self._kinds.items(), ("partition", pa.int64()), ("offset", pa.int64())])
        for kept in snapshot:
            values = {
                name: values_of(pattern_from_json(kept[name], domain_of_type(kind)))[0]
                for name, kind in self._kinds.items()
            }
            row = values | {"partition": kept["partition"], "offset": kept["offset"]}
            self._open[kept["partition"]] = pa.RecordBatch.from_pylist([row], schema)
