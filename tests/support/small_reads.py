"""Reads of few pages and keys, so that small relations are read in several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from endmark.operators.lookup import auto, costs, read_timing, reader, reads, strategies


@contextmanager
def small_reads(size: int) -> Iterator[None]:
    """So many pages and lists at once, and keys in a list."""
    with ExitStack() as sizes:
        for module in (auto, costs, reads, read_timing, reader, strategies):
            for name in {"PAGES_AT_ONCE", "LISTS_AT_ONCE", "LIST_KEYS"} & vars(module).keys():
                sizes.enter_context(patch.object(module, name, size))
        yield
