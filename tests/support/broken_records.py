"""Dead-letter tables as the job writes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from endmark.engine.channels import DEAD_LETTER_SCHEMA

# Topic, partition, offset, reason, error and value.
Letter = tuple[str, int, int, str, str, bytes | None]


def write_letters(table: Path, letters: list[Letter]) -> None:
    """Append these, in a commit of their own."""
    rows = [dict(zip(DEAD_LETTER_SCHEMA.names, letter, strict=True)) for letter in letters]
    write_deltalake(str(table), pa.Table.from_pylist(rows, schema=DEAD_LETTER_SCHEMA), mode="append")
