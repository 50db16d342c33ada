"""A Spark checkpoint without Spark: batches that are planned, of which the first are committed."""

from __future__ import annotations

import json
from pathlib import Path


def spark_checkpoint(directory: Path, ends: list[dict[str, dict[str, int]]], committed: int) -> Path:
    """A query's checkpoint: planned batches by their end offsets, of which the first are committed."""
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True, exist_ok=True)
    for number, offsets in enumerate(ends):
        lines = ["v1", "{}", json.dumps(offsets)]
        (directory / "offsets" / str(number)).write_text("\n".join(lines))
        (directory / "offsets" / f".{number}.crc").write_text("")
    for number in range(committed):
        (directory / "commits" / str(number)).write_text("v1\n{}")
    return directory
