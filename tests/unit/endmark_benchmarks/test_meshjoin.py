"""The benchmark's MESHJOIN against the paper's algorithm, batch by batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.join import LookupSpec, Source
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark_benchmarks.contenders.meshjoin import MeshJoin
from endmark_papers.algorithms import meshjoin as paper
from endmark_papers.algorithms.relation import MasterRow, PagedRelation, StreamRow
from support.memory_relation import MemoryRelation
from support.small_reads import small_reads

KEYS = 70
PAGE_ROWS = 5  # R has 14 pages: three segments of 4, and a last one of 2
SEGMENT_PAGES, SEGMENTS = 4, 4
BATCH_ROWS = 23
STREAM = pa.schema([("key", pa.int64()), ("n", pa.int64())])


@pytest.mark.parametrize("memory_rows", [4, 40, 47, 200])
def test_it_reads_and_answers_what_the_papers_algorithm_does(tmp_path: Path, memory_rows: int) -> None:
    """After every batch both have read as many pages and answered the same rows."""
    literal = _literal(memory_rows // SEGMENTS)
    with small_reads(SEGMENT_PAGES):
        join = _join(tmp_path, memory_rows)
        assert join.loop_rows * SEGMENTS == literal.memory_rows <= memory_rows
        expected: list[int] = []
        found: list[int] = []
        pages = 0
        for first in range(0, 12 * BATCH_ROWS, BATCH_ROWS):
            rows = [(31 * n * n % KEYS, n) for n in range(first, first + BATCH_ROWS)]
            literal.offer([StreamRow(*row) for row in rows])
            expected += _looped(literal)
            keys, numbers = zip(*rows, strict=True)
            output = join.process(pa.record_batch([pa.array(keys), pa.array(numbers)], schema=STREAM), first)
            pages += output.figures.pages
            found += [n for joined in output.joined for n in joined["n"].to_pylist()]
            assert (pages, sorted(found)) == (literal.counters.page_reads, sorted(expected))
    assert 0 < len(found) < 12 * BATCH_ROWS


def _literal(loop_rows: int) -> paper.MeshJoin:
    relation = PagedRelation([MasterRow(key, key) for key in range(KEYS)], PAGE_ROWS)
    return paper.MeshJoin(relation, loop_rows, SEGMENT_PAGES)


def _looped(literal: paper.MeshJoin) -> list[int]:
    """Run the loops for which there are rows, and return the numbers of the rows that they answer."""
    answered, loops = [], -1
    while loops < literal.counters.loops:
        loops = literal.counters.loops
        answered += [answer.stream.serial for answer in literal.loop()]
    return answered


def _join(directory: Path, memory_rows: int) -> MeshJoin:
    relation = MemoryRelation(pa.record_batch({"k": pa.array(range(KEYS), pa.int64())}), ("k",))
    costs = ReadCosts(seek=1.0, page=1.0, trip=1.0, key=1.0)
    source = Source(relation, relation.directory(PAGE_ROWS), "hybrid", costs)
    spec = LookupSpec(STREAM, KeySpec.of(["key"], [pa.int64()]), {})
    return MeshJoin(spec, source, SegmentStore(MemoryBlobs(), directory), memory_rows)
