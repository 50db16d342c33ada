"""Heartbeats of one partition in a batch: those too far in the future, and the rows that others make late."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.stream_join.event_times import late_rows
from endmark.pipeline.duration_words import in_words
from endmark.punctuation.heartbeat import first_possible
from endmark.wire.rejection import Rejection

if TYPE_CHECKING:
    import pyarrow as pa

    from endmark.engine.streams import StreamPlan
    from endmark.state.search import Bools, Ints
    from endmark.wire.json.records import Parsed

FUTURE = "future"


def without_future_heartbeats(
    stream: StreamPlan, parsed: Parsed, timestamps: Ints, values: pa.Array
) -> Parsed:
    """Reject the heartbeats that rule out a time at which a row would be one of the future.

    Args:
        stream: the plan of the stream.
        parsed: the parsed records.
        timestamps: the timestamps (µs) of all records in Kafka.
        values: the bytes of all records.
    """
    if stream.side.ahead is None:
        return parsed
    ahead = in_words(timedelta(microseconds=stream.side.ahead))
    promises, rejections = [], list(parsed.rejections)
    for at, promise in parsed.promises:
        first = first_possible(promise, stream.heartbeat_on)
        if first is None or first - 1 - stream.side.ahead <= int(timestamps[at]):
            promises.append((at, promise))
        else:
            error = (
                f"a heartbeat on {stream.heartbeat_on!r} rules out times that are more than "
                f"`event_time.ahead`, {ahead}, after the record's timestamp; "
                "check the producer's clock"
            )
            rejections.append(Rejection(at, FUTURE, error, values[at].as_py()))
    rejections.sort(key=lambda rejection: rejection.at)
    return replace(parsed, promises=promises, rejections=rejections)


def late_behind(stream: StreamPlan, parsed: Parsed, times: Ints, newest: int) -> tuple[Bools, int]:
    """Return a mask of the late rows, and the newest event time behind all rows and heartbeats.

    A heartbeat counts as a row that makes each row late which the heartbeat rules out.

    Args:
        stream: the plan of the stream.
        parsed: the parsed records of one partition.
        times: the event times (µs) of the rows.
        newest: the newest event time (µs) before them, or `NEVER`.
    """
    lateness = stream.side.lateness
    found = [
        (at, first + lateness)
        for at, promise in parsed.promises
        if (first := first_possible(promise, stream.heartbeat_on)) is not None
    ]
    if not found:
        return late_rows(times, newest, lateness)
    heartbeats = np.array(found, np.int64)
    order = np.argsort(np.concatenate([parsed.row_at, heartbeats[:, 0]]))
    late, newest = late_rows(np.concatenate([times, heartbeats[:, 1]])[order], newest, lateness)
    is_late = np.empty(len(order), bool)
    is_late[order] = late
    return is_late[: len(times)], newest
