"""The experiment that runs every algorithm on one common input and shows all its counters."""

from __future__ import annotations

from dataclasses import fields

from endmark_feed.options import random_stream
from endmark_feed.papers.names import parse_workload
from endmark_feed.zipf import zipf_keys
from endmark_papers.algorithms.contract import Counters, Element, ReferenceJoin
from endmark_papers.algorithms.hybridjoin import HybridJoin
from endmark_papers.algorithms.inlj import IndexNestedLoopJoin
from endmark_papers.algorithms.meshjoin import MeshJoin
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions
from endmark_papers.algorithms.pjoin import PJoin
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.algorithms.relation import (
    LookupCounters,
    MasterRow,
    PagedRelation,
    ReferenceLookup,
    StreamRow,
)
from endmark_papers.algorithms.shj import SymmetricHashJoin
from endmark_papers.algorithms.wjoin import WindowJoin
from endmark_papers.algorithms.xjoin import XJoin
from endmark_papers.experiments.report import Figures, Table
from endmark_papers.experiments.streams import join_input

LEFT, RIGHT, VALUES = "punct-asc-30-40", "punct-asc-30-40", 50
WINDOW_SECONDS = 1.0
MEMORY_ROWS = 400
PAUSE_EVERY = 500  # elements; the only time at which XJoin's second stage runs
LAZY = 10  # punctuations from one purge to the next

MASTER_ROWS, PAGE_ROWS = 4_000, 20
STREAM_ROWS, STREAM_KEYS = 10_000, 4_200  # keys above the master's have no partner
PENDING_ROWS = 400

Counts = dict[str, int]


class CounterFigures(Figures):
    """The counters of each algorithm at the end of the input, by its name."""

    stream_joins: dict[str, Counts]
    lookup_joins: dict[str, Counts]


def measure() -> CounterFigures:
    streams = join_input(parse_workload(LEFT, VALUES), parse_workload(RIGHT, VALUES), seed=1)
    rows = _lookup_rows()
    return CounterFigures(
        stream_joins={name: _run_stream_join(join, streams) for name, join in _stream_joins().items()},
        lookup_joins={name: _run_lookup(join, rows) for name, join in _lookup_joins().items()},
    )


def tables(figures: CounterFigures) -> dict[str, Table]:
    return {
        "stream-joins": _table(
            f"Stream joins of {LEFT} with {RIGHT}, {VALUES} values each", figures.stream_joins
        ),
        "lookup-joins": _table(
            f"Lookup joins of {STREAM_ROWS:,} Zipf keys with {MASTER_ROWS:,} rows", figures.lookup_joins
        ),
    }


def _stream_joins() -> dict[str, ReferenceJoin]:
    return {
        "SHJ": SymmetricHashJoin(),
        "XJoin": XJoin(MEMORY_ROWS),
        "PJoin eager": PJoin(MEMORY_ROWS),
        "PJoin lazy": PJoin(MEMORY_ROWS, purge_every=LAZY),
        "MJoin eager": MetadataJoin(MJoinOptions(memory_rows=MEMORY_ROWS)),
        "MJoin batch": MetadataJoin(MJoinOptions(memory_rows=MEMORY_ROWS, purge_every=LAZY)),
        "WJoin": WindowJoin(WINDOW_SECONDS, WINDOW_SECONDS),
        "PWJoin": PunctuatedWindowJoin(WINDOW_SECONDS, WINDOW_SECONDS),
    }


def _lookup_joins() -> dict[str, ReferenceLookup]:
    master = PagedRelation([MasterRow(key, key) for key in range(1, MASTER_ROWS + 1)], PAGE_ROWS)
    return {
        "INLJ": IndexNestedLoopJoin(master),
        "INLJ batched": IndexNestedLoopJoin(master, batch=PENDING_ROWS),
        "MESHJOIN": MeshJoin(master, loop_rows=PENDING_ROWS // master.pages),
        "HYBRIDJOIN": HybridJoin(master, PENDING_ROWS),
        "HYBRIDJOIN sliding": HybridJoin(master, PENDING_ROWS, pages="paper"),
    }


def _lookup_rows() -> list[StreamRow]:
    keys = zipf_keys(random_stream(1, "lookups"), STREAM_ROWS, 1.0, STREAM_KEYS, permuted=True)
    return [StreamRow(key, serial) for serial, key in enumerate(keys.tolist())]


def _run_stream_join(join: ReferenceJoin, elements: list[Element]) -> Counts:
    for position, element in enumerate(elements, start=1):
        join.process(element)
        if position % PAUSE_EVERY == 0:
            join.idle()
    join.finish()
    return _counts(join.counters, Counters)


def _run_lookup(join: ReferenceLookup, rows: list[StreamRow]) -> Counts:
    join.offer(rows)
    join.finish()
    return _counts(join.counters, LookupCounters)


def _counts(counters: Counters | LookupCounters, kind: type[Counters | LookupCounters]) -> Counts:
    """Return the counters that all algorithms of a kind have; some have more."""
    return {field.name: getattr(counters, field.name) for field in fields(kind)}


def _table(title: str, found: dict[str, Counts]) -> Table:
    names = next(iter(found.values()))
    rows = [[name.replace("_", " "), *(f"{counts[name]:,}" for counts in found.values())] for name in names]
    return Table(title, ["", *found], rows)
