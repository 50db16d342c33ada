"""Keys of a relation that a stream will not look up again, because its punctuations close them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.engine.streams import StreamPlan
    from endmark.operators.stream_batch import StreamBatch


@dataclass(frozen=True)
class EvictedKeys:
    """Finds the keys that punctuations of a stream close by name, with a value for each looked-up column.

    A punctuation holds for its own partition. If rows of another partition have the key, it is read again.

    Args:
        columns: the stream's columns that are looked up, in the order of the relation's key.
        joined: if these columns are the key of the join, the same columns by the names that both sides share;
            else empty.
    """

    columns: pa.Schema
    joined: tuple[str, ...]

    @classmethod
    def of(cls, stream: StreamPlan, key: Sequence[str]) -> Self | None:
        """Return a finder for lookups by the columns `key`; `None` if punctuations cannot restrict them.

        Args:
            stream: the plan of the stream.
            key: the columns by their names in results. Punctuations restrict no column of a relation.
        """
        if not set(key) <= set(stream.side.punctuated_on):
            return None
        shared = dict(zip(stream.side.key.columns, stream.side.key.shared.columns, strict=True))
        joined = tuple(shared[name] for name in key) if set(key) == shared.keys() else ()
        return cls(pa.schema([stream.side.schema.field(name) for name in key]), joined)

    def closed_keys(self, came: StreamBatch) -> pa.RecordBatch | None:
        """Return the keys that a batch closes by name, by the stream's own columns; `None` without any."""
        found = []
        if self.joined and came.closed_keys is not None:
            found.append(came.closed_keys.select(list(self.joined)).rename_columns(self.columns.names))
        for promise in came.promises:
            if set(promise.names()) == set(self.columns.names):
                keys = promise.keys_named(self.columns.names)
                found.append(pa.RecordBatch.from_pylist(keys, self.columns))
        return codec.concat(found) if found else None
