"""The blobs of one stream in one batch, unpacked to a `StreamBatch`."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from endmark.engine import channels
from endmark.operators.stream_batch import RunNews, StreamBatch
from endmark.state import codec
from endmark.state.segment import merge_sorted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from endmark.engine.streams import StreamPlan


def unpack(stream: StreamPlan, blobs: Mapping[str, list[bytes]], *, looked_up: bool) -> StreamBatch:
    """Unpack one bucket's share of a stream.

    Args:
        stream: whose share.
        blobs: all of the batch, by channel.
        looked_up: rows go through a lookup first, so that they need not be sorted by the key of the join.
    """

    def of(channel: str) -> list[bytes]:
        return blobs.get(channels.stream_channel(channel, stream.name), [])

    def batch(channel: str) -> pa.RecordBatch | None:
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
        closed_keys=batch(channels.CLOSED_KEYS),
        promises=promises,
        key_promises=stream.side.codec.on_key(promises),
        newest=newest,
        marks=batch(channels.MARKS),
        heard=heard,
        runs=RunNews(batch(channels.ENDED), batch(channels.FIRST), batch(channels.LAST)),
    )
