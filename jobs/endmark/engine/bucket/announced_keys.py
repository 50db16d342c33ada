"""Announced keys of a bucket as rows of the punctuations table."""

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
    """Yield the channel and blobs of the keys that the join's last batch announces.

    Each key is announced once for the key columns of each side that results show. A result of an outer join
    may have one side alone, so one punctuation on the columns of both would not cover it.
    """
    shown = (join.left,) if kind is JoinType.SEMI else (join.left, join.right)
    for by, keys in join.output.announced_by.items():
        values = [keys.column(name) for name in join.left.key.columns]
        for side in shown:
            texts = named(dict(zip(side.spec.key.columns, values, strict=True)))
            reasons = pa.repeat(pa.scalar(by), len(texts))
            rows = pa.record_batch([texts, reasons], schema=channels.PUNCTUATION_SCHEMA)
            yield channels.ANNOUNCED, codec.encode(rows)
