"""What the contenders of a stream join meet: two streams of one file per second of event time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WINDOW_SECONDS = 10
STREAM_DDL = "k bigint, ts timestamp, v bigint, p string"


def record(directory: Path, files: int, rows: int) -> None:
    """Streams a and b: `rows` rows a second, keys that drift by a fortieth of their range each second."""
    part = directory.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    rng = np.random.default_rng(1)
    for stream in ("a", "b"):
        (part / stream).mkdir(parents=True)
        for second in range(files):
            stamps = second * 1_000_000 + np.arange(rows) * (1_000_000 // rows)
            table = pa.table(
                {
                    "k": rng.integers(0, 2_000_000, rows) + second * 50_000,
                    "ts": pa.array(stamps.astype("int64"), pa.timestamp("us", "UTC")),
                    "v": rng.integers(0, 1 << 40, rows),
                    "p": pa.array([f"payload-{n:020d}" for n in rng.integers(0, 1000, rows)]),
                }
            )
            file = part / stream / f"{second:04d}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1e9 + second, 1e9 + second))  # Spark reads files in the order of their age
    part.rename(directory)  # all of it, or nothing
