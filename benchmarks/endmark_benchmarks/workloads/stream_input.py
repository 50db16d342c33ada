"""The input of the contenders of a stream join: two streams of one file per second of event time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from endmark_benchmarks.harness.digest import code, figures

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_SECONDS = 10
KEYS = 2_000_000  # so that a row has about one partner within the window
STREAM_DDL = "k bigint, ts timestamp, v bigint, p string"
_HALVES = pa.schema({"k": pa.int64(), "us": pa.int64(), "v": pa.int64(), "p": pa.string()})


def figures_of(left_micros: str, right_micros: str) -> list[str]:
    """SQL of the digest of results with columns `left_…` and `right_…`, from both times in microseconds."""
    return figures(side_code("left_", left_micros), side_code("right_", right_micros))


def side_code(prefix: str, micros: str) -> str:
    """SQL of the code of a row in a result, from its columns' prefix and its time in microseconds."""
    return code(f"{prefix}v", micros, f"{prefix}k", f"CAST({prefix}p AS BIGINT)")


def recorded(directory: Path, files: int, rows: int, say: Callable[[str], None], keys: int = KEYS) -> Path:
    """Return the directory of recorded streams, which are made if they are not there.

    Args:
        directory: the directory below which they are.
        files: files of each stream.
        rows: rows of a file.
        say: hears of what is made.
        keys: the number of keys at a time.
    """
    place = directory / f"two-streams-{files}x{rows}-of-{keys}"
    if not place.exists():
        say(f"recording {files} files of {rows:,} rows for each stream in {place}")
        record(place, files, rows, keys)
    return place


def record(directory: Path, files: int, rows: int, keys: int = KEYS) -> None:
    """Write the streams a and b, whose keys drift by a fortieth of their range each second.

    The same rows lie in `a-halves` and `b-halves` once more, every other row in a file, for contenders that
    read a stream in two files at once and each from its start; times are microseconds there.

    Args:
        directory: the directory of the streams.
        files: files of each stream, one a second.
        rows: rows of a file.
        keys: the number of keys at a time.
    """
    part = directory.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    rng = np.random.default_rng(1)
    for stream in ("a", "b"):
        (part / stream).mkdir(parents=True)
        halves = _half_files(part / f"{stream}-halves")
        for second in range(files):
            # Not from 0 on: that is Spark's watermark before it has one, and rows of that time are late.
            stamps = second * 1_000_000 + 1 + np.arange(rows) * (1_000_000 // rows)
            table = pa.table(
                {
                    "k": rng.integers(0, keys, rows) + second * (keys // 40),
                    "ts": pa.array(stamps.astype("int64"), pa.timestamp("us", "UTC")),
                    "v": rng.integers(0, 1 << 40, rows),
                    # All digits, for the digest: to cut a text took as long as all else of a sum.
                    "p": pa.array([f"{n:028d}" for n in rng.integers(0, 1000, rows)]),
                }
            )
            file = part / stream / f"{second:04d}.parquet"
            pq.write_table(table, file, use_dictionary=["p"])  # no number comes twice
            os.utime(file, (1e9 + second, 1e9 + second))  # Spark reads files in the order of their age
            for first, half in enumerate(halves):
                times = table.set_column(1, "us", pa.array(stamps.astype("int64")))
                half.write_table(times.take(np.arange(first, rows, 2)))
        for half in halves:
            half.close()
    part.rename(directory)  # all of it, or nothing


def _half_files(directory: Path) -> list[pq.ParquetWriter]:
    directory.mkdir()
    return [pq.ParquetWriter(directory / f"{number}.parquet", _HALVES) for number in range(2)]


def texts(directory: Path, stream: str) -> Path:
    """Return the directory of a recorded stream's rows as CSV, which is made if it is not there.

    Times are microseconds.

    Args:
        directory: the directory of the streams.
        stream: the name of the stream.
    """
    place = directory / f"{stream}-texts"
    if not place.exists():
        part = place.with_name(f"{place.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for file in sorted((directory / stream).iterdir()):
            table = pq.read_table(file)
            times = pc.cast(table["ts"], pa.int64())
            rows = table.set_column(1, "us", times)
            csv.write_csv(rows, part / f"{file.stem}.csv")
        part.rename(place)
    return place
