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
    if directory.unpaged is not None:
        return _of_keys(reader, directory.samples, times)
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


def _of_keys(reader: RelationReader, keys: pa.RecordBatch, times: int) -> ReadCosts:
    """Measure the costs of reads of a relation without pages. Those of pages are the least ones.

    Args:
        reader: reads the relation.
        keys: keys of the relation.
        times: the number of lists to read.
    """
    in_list = max(1, keys.num_rows // times)
    lists = [_distinct(keys.slice(at * in_list, in_list)) for at in range(times)]
    lone = [
        some.slice(at, 1) for some in lists for at in range(0, some.num_rows, -(-in_list // _SAMPLED_LOOKUPS))
    ]
    trip = float(np.median([_seconds(partial(reader.read_keys, one)) for one in lone] or [LEAST]))
    listed = [_seconds(partial(reader.read_keys, some)) / some.num_rows for some in lists if some.num_rows]
    each = float(np.median(listed or [LEAST])) - trip / in_list
    return ReadCosts(LEAST, LEAST, max(LEAST, trip), max(LEAST, each))


def _sampled_keys(directory: PageDirectory, some: pa.RecordBatch, most: int) -> pa.RecordBatch:
    """Return keys from all over R. The first keys of pages come first, since they lie apart.

    Args:
        directory: R's pages.
        some: further keys, for when there are too few pages.
        most: return at most this many keys.
    """
    bounds = directory.samples
    bounds = bounds.take(pa.array(np.random.default_rng(0).permutation(bounds.num_rows)))
    found = codec.concat([bounds, some.rename_columns(bounds.schema.names)]).slice(0, most)
    return _distinct(found)


def _distinct(keys: pa.RecordBatch) -> pa.RecordBatch:
    distinct = pa.Table.from_batches([keys]).group_by(keys.schema.names, use_threads=False).aggregate([])
    return codec.concat(distinct.to_batches()) if keys.num_rows else keys


def _seconds(read: Callable[[], object]) -> float:
    started = time.perf_counter()
    read()
    return time.perf_counter() - started
