"""`python -m endmark_benchmarks lookup-map`: the lookup's strategies beside each other, one core, no Spark.

R lies in a local MariaDB. A contender answers every batch as it comes, or, with a memory behind its name,
lets rows wait until they fill that memory, so that a page answers more of them (HYBRIDJOIN's regime). It is
measured for some seconds, and until it has answered what may wait five times over, once it has answered that
before; all it gave, with DuckDB's answers to the rows that wait in the end, is compared with DuckDB's answers
to all it was given.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from endmark.embedded.mariadb import MariaDb
from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.join import LookupJoin, LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.reader import Budget
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark_benchmarks.harness.contest import DisagreementError, interleaved
from endmark_benchmarks.harness.lookup_answers import Answers, Digest, Expected
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads import lookup_input
from endmark_feed.zipf import zipf_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from endmark.operators.lookup.strategies import Name
    from endmark.relation.contract import PageDirectory
    from endmark.relation.sql import SqlRelation
    from endmark.state.search import Ints

PAGE_ROWS = 500
BATCH_ROWS = 100_000
# INLJ answers a row a round trip, and carries nothing over, so that small batches do it no harm.
SINGLE_ROWS = 1_000
AT_ONCE: tuple[Name, ...] = ("auto", "batched", "hybrid", "mesh", "scan", "inlj")
WAITING: tuple[Name, ...] = ("auto", "hybrid", "best_page", "mesh")
# What waits is rewritten now and then: of 250 MB, that was half of 2 s, or none. In 6 s, three times each,
# `mesh` had 545 to 639 and `auto` 471 to 521 thousand rows/s, in 17 s 533 to 595 and 574 to 590.
_TIMES_OVER = 5
_KEY = KeySpec.of(["key"], [pa.int64()])
_STREAM = pa.schema([("key", pa.int64()), ("id", pa.int64()), ("payload", pa.string())])
# Bytes, so that a waiting row has about the 157 that HYBRIDJOIN's paper gives it.
PAYLOAD = 110


@dataclass(frozen=True)
class LookupMapOptions:
    """The options of the measurement.

    Args:
        rows: of each R.
        exponents: of skew; 0 is uniform.
        delays: milliseconds added to each statement.
        memories: MB that rows may wait in.
        driver: of the database, as SQLAlchemy names it.
        seconds: of measuring, for each contender and turn.
        repeats: turns of which each contender's middle one counts.
    """

    rows: tuple[int, ...]
    exponents: tuple[float, ...]
    delays: tuple[float, ...]
    memories: tuple[int, ...]
    driver: str
    seconds: float
    repeats: int


@dataclass(frozen=True)
class Cell:
    """One cell of the map: rows of R, skew of the stream, milliseconds added to each statement."""

    relation_rows: int
    exponent: float
    delay: float


@dataclass(frozen=True)
class MapRun:
    """One contender in one cell; `waits` are MB that rows may wait in, 0 where a batch answers all; `rows` of
    the stream came; `row_bytes` are those of a row that waits."""

    strategy: str
    waits: int
    rate: float
    rows_per_read: float
    reads: int
    rows: int
    row_bytes: float = 0.0


class _Remote:
    """Makes every statement of this process slower by a round trip. `Faraway` would do so in its own
    threads, which would take the time that is measured."""

    def __init__(self) -> None:
        self.seconds = 0.0
        sa.event.listen(sa.Engine, "before_cursor_execute", lambda *_: time.sleep(self.seconds))


class Stream:
    """Batches of keys without end, the same ones for every contender.

    Args:
        cell: says which keys.
        scattered: keys asked for often are anywhere in R, instead of at its beginning.
    """

    def __init__(self, cell: Cell, *, scattered: bool = True) -> None:
        self._cell = cell
        self._scattered = scattered

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the stream in batches of `rows` rows. The size of batches does not change the rows."""
        for batch in self._whole():
            for at in range(0, BATCH_ROWS, rows):
                yield batch.slice(at, rows)

    @cached_property
    def _hot(self) -> Ints:
        """Keys, those asked for most often first."""
        if not self._scattered:
            return np.arange(1, self._cell.relation_rows + 1)
        return np.random.default_rng(1).permutation(self._cell.relation_rows) + 1

    def _whole(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(7)
        for first in count(0, BATCH_ROWS):
            ranks = zipf_keys(random, BATCH_ROWS, self._cell.exponent, self._cell.relation_rows)
            ids = np.arange(first, first + BATCH_ROWS)
            payload = pa.repeat(pa.scalar("x" * PAYLOAD), BATCH_ROWS)
            yield pa.record_batch([pa.array(self._hot[ranks - 1]), pa.array(ids), payload], schema=_STREAM)


@dataclass
class Bench:
    """The relation, its pages, and what reads of it cost."""

    reader: SqlRelation
    directory: PageDirectory
    costs: ReadCosts
    seconds: float

    def run(
        self, strategy: Name, waits: int, stream: Stream, take: Callable[[list[pa.RecordBatch]], object]
    ) -> tuple[MapRun, list[pa.RecordBatch]]:
        """Run a strategy; return its figures, and the rows that still wait.

        Args:
            strategy: the strategy.
            waits: MB of rows that may wait.
            stream: the stream.
            take: gets the results of each batch and should not keep them. When they were kept, the first
                contender had a third less, since later ones found memory that it had claimed.
        """
        with tempfile.TemporaryDirectory() as folder:
            join = self.join(strategy, waits, Path(folder))
            reads = answered = turned = came = 0
            spent, row_bytes, warm = 0.0, 0.0, not waits
            for number, rows in enumerate(stream.batches(SINGLE_ROWS if strategy == "inlj" else BATCH_ROWS)):
                started = time.perf_counter()
                output = join.process(rows, number)
                seconds = time.perf_counter() - started
                take(output.joined)
                came += rows.num_rows
                joined = sum(batch.num_rows for batch in output.joined)
                row_bytes = output.ordered_bytes / max(1, output.ordered_rows)
                if not warm:
                    turned += joined
                    warm = turned >= output.pending_rows
                    continue
                spent += seconds
                reads += output.figures.reads
                answered += joined
                if spent > self.seconds and reads and answered >= _TIMES_OVER * output.pending_rows:
                    break
            left = [piece.select(_STREAM.names) for piece in join.pending.waiting()]
        return MapRun(strategy, waits, answered / spent, answered / reads, reads, came, row_bytes), left

    def join(self, strategy: Name, waits: int, folder: Path) -> LookupJoin:
        """Make the join of a contender.

        Args:
            strategy: the strategy.
            waits: MB of rows that may wait; with 0, none waits.
            folder: a directory for its state.
        """
        return LookupJoin(self.spec(waits), self.source(strategy), SegmentStore(MemoryBlobs(), folder))

    def spec(self, waits: int) -> LookupSpec:
        """Return what is joined, where `waits` MB of rows may wait."""
        renamed = {name: name for name in ("name", "price", "pad")}
        capacity = waits * 1_000_000 if waits else None
        budget = Budget(0) if waits else Budget()
        return LookupSpec(_STREAM, _KEY, renamed, Misses("dead_letter"), budget, capacity)

    def source(self, strategy: Name) -> Source:
        """Return R, read by a strategy."""
        return Source(self.reader, self.directory, strategy, ReadCosts(**vars(self.costs)))


def measure_map(options: LookupMapOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Every contender in every cell.

    Raises:
        EndmarkError: there is no MariaDB, or a contender gave other answers than DuckDB.
    """
    report: dict[str, Any] = {"bench": "lookup-map", **origin(), "options": asdict(options)}
    remote = _Remote()
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        MariaDb(Path(folder), memory=lookup_input.SERVER_MEMORY) as server,
    ):
        report["versions"]["mariadb"] = lookup_input.version(server.url)
        for rows in options.rows:
            table = f"r_{rows}"
            say(f"making R of {rows:,} rows")
            lookup_input.fill(server.url, rows, table)
            reader = lookup_input.relation(server.url.replace("pymysql", options.driver), table)
            directory, answers = reader.directory(PAGE_ROWS), Answers(lookup_input.made(rows))
            for number, (delay, exponent) in enumerate(product(options.delays, options.exponents)):
                remote.seconds = delay / 1000
                bench = Bench(reader, directory, measure(reader, directory), options.seconds)
                found += _cell(Cell(rows, exponent, delay), bench, answers, options, say, first=number)
    return report | {"runs": found}


def _cell(
    cell: Cell,
    bench: Bench,
    answers: Answers,
    options: LookupMapOptions,
    say: Callable[[str], None],
    first: int,
) -> list[dict[str, Any]]:
    """The contenders in one cell by turns, each answer compared with DuckDB's."""
    stream = Stream(cell)
    expected = Expected(answers, stream.batches(BATCH_ROWS))
    contenders: list[tuple[Name | None, int]] = [(None, 0), *((name, 0) for name in AT_ONCE)]
    contenders += [(name, memory) for memory in options.memories for name in WAITING]
    runs: dict[tuple[Name | None, int], list[MapRun]] = {each: [] for each in contenders}
    for _, (name, waits) in interleaved(contenders, options.repeats, first):
        given = Digest()
        if name is None:
            run = _in_memory(answers, stream, bench.seconds, given)
        else:
            run, left = bench.run(name, waits, stream, given.take)
            for rows in left:
                given.take(answers.to(rows))
        if given != expected.to_first(run.rows):
            raise DisagreementError(f"{run} gave other answers in {cell} than DuckDB")
        runs[name, waits].append(run)
    middle = [sorted(each, key=lambda run: run.rate)[len(each) // 2] for each in runs.values()]
    shown = " ".join(f"{run.strategy}{run.waits or ''}={run.rate / 1000:.0f}k" for run in middle)
    say(f"{cell.relation_rows:,} rows, exponent {cell.exponent}, +{cell.delay} ms: {shown}")
    return [{**asdict(cell), **asdict(run)} for run in middle]


def _in_memory(answers: Answers, stream: Stream, seconds: float, given: Digest) -> MapRun:
    """All of R in DuckDB, which has a hash table of its key for as long as it answers."""
    spent, came = 0.0, 0
    for rows in stream.batches(BATCH_ROWS):
        started = time.perf_counter()
        joined = answers.to(rows)
        spent += time.perf_counter() - started
        given.take(joined)
        came += rows.num_rows
        if spent > seconds:
            break
    return MapRun("memory", 0, given.rows / spent, 0.0, 0, came)
