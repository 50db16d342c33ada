"""The keys that a bucket announces, as rows of the punctuations table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.engine import channels
from endmark.punctuation.json_text import named
from endmark.state import codec
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.stream_join.join import StreamJoin


def announced(join: StreamJoin, kind: JoinType) -> Iterator[tuple[str, bytes]]:
    """Channel and blobs, after a batch of the join.

    A key is said of the key columns of each side that results show, each by itself, since a row beside nulls
    has only one of them.
    """
    shown = (join.left,) if kind is JoinType.SEMI else (join.left, join.right)
    for by, keys in join.output.announced_by.items():
        values = [keys.column(name) for name in join.left.key.columns]
        for side in shown:
            texts = named(dict(zip(side.spec.key.columns, values, strict=True)))
            reasons = pa.repeat(pa.scalar(by), len(texts))
            rows = pa.record_batch([texts, reasons], schema=channels.PUNCTUATION_SCHEMA)
            yield channels.ANNOUNCED, codec.encode(rows)
