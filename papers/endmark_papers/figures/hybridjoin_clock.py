"""A clock for the literal lookup joins: rows arrive at their times, and a read takes the engine's seconds.

A row's *processing time* is that of the reads from its entry into the join's memory to its answer. Its
*waiting time* is the rest of the time since it arrived: in the stream buffer, and while the join reads
nothing for lack of input.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from endmark_papers.algorithms.relation import Match, ReferenceLookup, StreamRow
from endmark_papers.figures.benchmark_results import read

PAGE_ROWS = 500

Floats = NDArray[np.float64]


class Times(NamedTuple):
    """Mean times of some stream rows, in seconds."""

    processing: float
    waiting: float


class ReadSeconds(NamedTuple):
    """The engine's seconds of a lone read of a page of 500 rows, and of a key."""

    page: float
    key: float

    @classmethod
    def measured(cls) -> ReadSeconds:
        """Return the means of the readings in `benchmarks/results/disk_buffer.json`."""
        report = read("disk_buffer.json")
        [page] = (buffer for buffer in report["buffers"] if buffer["page_rows"] == PAGE_ROWS)
        return cls(float(np.mean(page["page_seconds"])), float(np.mean(report["key_seconds"])))

    def text(self) -> str:
        return (
            f"A lone read of a page of {PAGE_ROWS} rows takes {1e3 * self.page:.2f} ms in the engine, and "
            f"one of a key {1e3 * self.key:.2f} ms "
            "([disk_buffer.json](../../benchmarks/results/disk_buffer.json))."
        )


def run(
    join: ReferenceLookup,
    keys: NDArray[np.int64],
    arrivals: Floats,
    read_seconds: float,
    counted: slice,
) -> Times:
    """Run a join until some of its rows are answered; return their mean times.

    Args:
        join: the join, which has seen nothing yet.
        keys: the keys of the stream, each with a partner in R.
        arrivals: the seconds at which its rows arrive, ascending.
        read_seconds: seconds of one read.
        counted: the rows whose times count.

    Raises:
        ValueError: the stream ended before these rows were answered.
    """
    rows = [StreamRow(key, serial) for serial, key in enumerate(keys.tolist())]
    entered, processing, answered = (np.zeros(len(rows)) for _ in range(3))
    left = set(range(*counted.indices(len(rows))))
    now, offered = 0.0, 0
    while left:
        due = int(np.searchsorted(arrivals, now, "right"))
        join.offer(rows[offered:due])
        offered = max(offered, due)
        reads, inserts = join.counters.page_reads, join.counters.inserts
        output = join.loop()
        if join.counters.page_reads == reads:
            if offered == len(rows):
                raise ValueError(f"the stream ended before {len(left)} rows were answered")
            now = float(arrivals[offered])
            continue
        now += (join.counters.page_reads - reads) * read_seconds
        entered[inserts : join.counters.inserts] = reads
        for found in output:
            if isinstance(found, Match):
                serial = found.stream.serial
                processing[serial] = (join.counters.page_reads - entered[serial]) * read_seconds
                answered[serial] = now
                left.discard(serial)
    spent = answered[counted] - arrivals[counted]
    return Times(float(processing[counted].mean()), float((spent - processing[counted]).mean()))
