"""Unpacks the blobs of a bucket into the batch of one stream."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.engine import channels
from endmark.operators.stream_batch import RunNews, StreamBatch
from endmark.state import codec
from endmark.state.segment import merge_sorted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.engine.streams import StreamPlan


def unpacked(stream: StreamPlan, blobs: Mapping[str, list[bytes]], *, looked_up: bool) -> StreamBatch:
    """Unpack the batch of one stream from the blobs of a bucket.

    Args:
        stream: the plan of the stream.
        blobs: all blobs of the batch, by channel.
        looked_up: whether rows go through a lookup first. If so, they need not be sorted by the join's key.
    """

    def of(channel: str) -> list[bytes]:
        return blobs.get(channels.stream_channel(channel, stream.name), [])

    def table(channel: str) -> pa.RecordBatch | None:
        found = [codec.decode(blob) for blob in of(channel)]
        return codec.concat(found) if found else None

    rows = [codec.decode(blob) for blob in of(channels.ROWS)]
    together = codec.concat if looked_up else partial(merge_sorted, key=stream.side.key)
    newest: dict[int, int] = {}
    for blob in of(channels.PROGRESS):
        for partition, time in json.loads(blob).items():
            newest[int(partition)] = max(time, newest.get(int(partition), time))
    heard: dict[int, tuple[int, int]] = {}
    for blob in of(channels.HEARD):
        heard |= {int(partition): tuple(times) for partition, times in json.loads(blob).items()}
    promises = stream.side.codec.read(map(json.loads, of(channels.PROMISES)))
    return StreamBatch(
        rows=together(rows) if rows else None,
        closed_keys=table(channels.CLOSED_KEYS),
        deleted_keys=table(channels.DELETED_KEYS),
        promises=promises,
        key_promises=stream.side.codec.on_key(promises),
        newest=newest,
        marks=table(channels.MARKS),
        heard=heard,
        runs=RunNews(table(channels.ENDED), table(channels.FIRST), table(channels.LAST)),
    )
