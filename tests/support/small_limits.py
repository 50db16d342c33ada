"""Limits of the engine that a dozen rows reach."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from endmark.state import keys, row_bytes, search
from support.sizes import Merging

_hash = keys.hash_columns


@contextmanager
def small_limits(merging: Merging) -> Iterator[Path]:
    """Merges, splits of hot keys, cuts of results, sieves and colliding codes happen on a dozen rows."""
    with (
        tempfile.TemporaryDirectory() as directory,
        merging.limits(),
        patch.object(search, "PAIRS_AT_ONCE", 4),
        patch.object(row_bytes, "BYTES_AT_ONCE", 300),
        patch.object(keys, "SIFTED", 2),
        patch.object(keys, "hash_columns", lambda columns: _hash(columns) & 1),
    ):
        yield Path(directory)
