"""Timing of a few reads all over R, for the costs of reads at the start."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.lookup.costs import LEAST, ReadCosts
from endmark.operators.lookup.reads import LIST_KEYS
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.relation.contract import PageDirectory, RelationReader

_SAMPLED_PAGES = 32
_SAMPLED_LOOKUPS = 8  # single keys, one after the other, as `inlj` reads them
_TIMES = 5


def measure(reader: RelationReader, directory: PageDirectory, times: int = _TIMES) -> ReadCosts:
    """Measure the costs of a few reads all over R. The median of each kind of read counts.

    The kinds take turns. If R is large enough, no read repeats pages or keys of another one: reads of rows in
    the processor's cache took half as long.

    Args:
        reader, directory: R and its pages.
        times: the number of reads of each kind.
    """
    some = min(_SAMPLED_PAGES, len(directory))
    apart = np.unique(np.linspace(0, len(directory) - 1, some * times).astype(np.int64))
    firsts = np.linspace(0, len(directory) - some, times).astype(np.int64)
    first_rows = reader.pages([directory.range_of(int(number)) for number in apart[::times]])
    keys = _sampled_keys(directory, first_rows.select(list(reader.key)), LIST_KEYS * times)
    in_list = max(1, keys.num_rows // times)
    seconds: dict[str, list[float]] = {"apart": [], "together": [], "one": [], "list": []}
    for at, first in enumerate(firsts.tolist()):
        numbers = apart[at::times].tolist() or [first]
        ranges = [directory.range_of(number) for number in numbers]
        seconds["apart"].append(_seconds(partial(reader.pages, ranges)) / len(numbers))
        block = [directory.range_of(first, first + some - 1)]
        seconds["together"].append(_seconds(partial(reader.pages, block)) / some)
        if len(of_list := keys.slice(at * in_list, in_list)):
            seconds["list"].append(_seconds(partial(reader.read_keys, of_list)) / in_list)
            for one in range(0, len(of_list), -(-in_list // _SAMPLED_LOOKUPS)):
                seconds["one"].append(_seconds(partial(reader.read_keys, of_list.slice(one, 1))))
    each, together, trip, listed = (float(np.median(found or seconds["apart"])) for found in seconds.values())
    page = max(LEAST, min(each, together))
    return ReadCosts(max(LEAST, each - page), page, max(LEAST, trip), max(LEAST, listed - trip / in_list))


def _sampled_keys(directory: PageDirectory, some: pa.RecordBatch, most: int) -> pa.RecordBatch:
    """Return keys from all over R. The first keys of pages come first, since they lie apart.

    Args:
        directory: R's pages.
        some: further keys, for when there are too few pages.
        most: return at most this many keys.
    """
    bounds = directory.bounds
    bounds = bounds.take(pa.array(np.random.default_rng(0).permutation(bounds.num_rows)))
    found = codec.concat([bounds, some.rename_columns(bounds.schema.names)]).slice(0, most)
    distinct = pa.Table.from_batches([found]).group_by(found.schema.names, use_threads=False).aggregate([])
    return codec.concat(distinct.to_batches()) if found.num_rows else found


def _seconds(read: Callable[[], object]) -> float:
    started = time.perf_counter()
    read()
    return time.perf_counter() - started
