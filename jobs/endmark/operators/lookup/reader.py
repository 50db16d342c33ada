"""Reads of R in one batch, until no row waits or the batch's budget is spent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.errors import EndmarkError
from endmark.operators.lookup.reads import LIST_KEYS, PAGES_AT_ONCE, ReadKeys, ReadPages, parts
from endmark.relation.read_ahead import read_ahead
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from endmark.operators.lookup.costs import ReadCosts
    from endmark.operators.lookup.strategies import Planner
    from endmark.operators.lookup.waiting_rows import Waiting
    from endmark.relation.contract import KeyRange, PageDirectory, RelationReader
    from endmark.state.keys import Keys
    from endmark.state.search import Bools, Ints

    # The rows that a read answers, the read, its seconds, and the rows of R that it has returned.
    _Done = tuple[Ints, ReadPages | ReadKeys, float, pa.RecordBatch]


class DuplicateKeyError(EndmarkError):
    """R has several rows of one key, or several versions at one moment, where only one is allowed."""


@dataclass(frozen=True)
class Budget:
    """The limit of one batch's reads. Rows beyond it wait for the next batch.

    Args:
        reads: the number of pages and lists of keys; `None`: no limit.
        seconds: the time from the start of the first read; `None`: no limit. A read that exceeds it is
            finished.
    """

    reads: int | None = None
    seconds: float | None = None

    @property
    def unlimited(self) -> bool:
        """True if all waiting rows are to be answered."""
        return self.reads is None and self.seconds is None


@dataclass
class ReadFigures:
    """Figures of the reads of one batch.

    Args:
        pages: the number of pages that were read.
        lists: the number of lists of keys that were read.
        keys: the number of keys in these lists.
        rows: the number of rows of R that were read.
        page_keys: the number of distinct keys of R on the pages that were read.
        seconds: the seconds of all reads.
        left_by_budget: the number of rows that waited when the budget was spent; 0 if it was not spent.
    """

    pages: int = 0
    lists: int = 0
    keys: int = 0
    rows: int = 0
    page_keys: int = 0
    seconds: float = 0.0
    left_by_budget: int = 0

    @property
    def reads(self) -> int:
        """The number of pages and lists, which `Budget.reads` limits."""
        return self.pages + self.lists


@dataclass(frozen=True)
class Answer:
    """The answer of one read.

    Args:
        rows: the positions of the rows that it answers, in `Waiting`.
        found: a mask of the answered rows that have a match in R.
        pairs: the position among `rows` and the position in `block` of each match.
        block: the rows of R that were read, with the code of their key.
    """

    rows: Ints
    found: Bools
    pairs: list[tuple[Ints, Ints]]
    block: pa.RecordBatch

    @property
    def matched(self) -> pa.RecordBatch:
        """The rows of R in some match. They are all of R's rows for the answered keys."""
        taken = [np.unique(j) for _, j in self.pairs]
        return self.block.take(pa.array(np.unique(np.concatenate([np.empty(0, np.int64), *taken]))))


@dataclass
class Resolver:
    """Does the reads of R that a planner chooses.

    Args:
        reader, directory: R and its pages.
        planner: chooses each read.
        costs: the costs of reads, which every read updates.
        unique: whether R must not have two rows of a key.
        figures: the figures of the last call of `resolve`.
    """

    reader: RelationReader
    directory: PageDirectory
    planner: Planner
    costs: ReadCosts
    unique: bool = False
    figures: ReadFigures = field(default_factory=ReadFigures)

    def __post_init__(self) -> None:
        kinds = [self.reader.schema.field(name).type for name in self.reader.key]
        self.key = KeySpec.of(self.reader.key, kinds)

    def resolve(self, waiting: Waiting, budget: Budget, keep: int | None = None) -> Iterator[Answer]:
        """Read R until no row waits or the budget is spent; yield answers of at least one row each.

        The next read is under way while an answer is joined.

        Args:
            waiting: the rows that wait. It marks those that a read answers.
            budget: the limit of this batch.
            keep: when the budget is spent, go on until at most this many rows wait; `None`: stop at the
                budget.

        Raises:
            DuplicateKeyError: R has two rows of a key, though `unique` is set.
        """
        self.figures = ReadFigures()
        for rows, read, seconds, block in read_ahead(self._planned(waiting, budget, keep)):
            self.figures.seconds += seconds
            self.figures.rows += block.num_rows
            started = time.perf_counter()
            answer = self._answer(waiting, rows, block)
            if isinstance(read, ReadPages):
                self.figures.page_keys += _distinct(self.key.keys(answer.block).codes)
            self._saw(read, seconds + time.perf_counter() - started)
            if len(answer.rows):
                yield answer
                self.costs.saw_rows(len(answer.rows), time.perf_counter() - started)

    def _planned(self, waiting: Waiting, budget: Budget, keep: int | None) -> Iterator[Callable[[], _Done]]:
        """Yield reads while rows wait and the budget lasts."""
        started = time.monotonic()
        while len(waiting):
            left = PAGES_AT_ONCE if budget.reads is None else budget.reads - self.figures.reads
            late = budget.seconds is not None and time.monotonic() - started >= budget.seconds
            if left <= 0 or late:
                self.figures.left_by_budget = self.figures.left_by_budget or len(waiting)
                if keep is None or len(waiting) <= keep:
                    return
                left = PAGES_AT_ONCE
            read = self.planner.plan(waiting, min(left, PAGES_AT_ONCE), drain=budget.unlimited)
            for part in parts(read):
                yield self._prepared(part, waiting)

    def _prepared(self, read: ReadPages | ReadKeys, waiting: Waiting) -> Callable[[], _Done]:
        """Return a function that does the read. The rows that it will answer count as answered at once."""
        fetch: Callable[[], pa.RecordBatch]
        if isinstance(read, ReadPages):
            rows = waiting.on_pages(read.numbers)
            self.figures.pages += len(read.numbers)
            fetch = partial(self.reader.pages, self._ranges(read))
        else:
            rows = waiting.of_keys(read.groups)
            keys = waiting.keys_in(read.groups).rename_columns(list(self.key.columns))
            self.figures.lists += -(-keys.num_rows // LIST_KEYS)
            self.figures.keys += keys.num_rows
            fetch = partial(self.reader.read_keys, keys)
        waiting.answer(rows)
        return partial(_done, rows, read, fetch)

    def _saw(self, read: ReadPages | ReadKeys, seconds: float) -> None:
        if isinstance(read, ReadPages):
            self.costs.saw_pages(read.numbers, seconds)
        else:
            self.costs.saw_keys(len(read.groups), seconds)

    def _ranges(self, read: ReadPages) -> list[KeyRange]:
        breaks = np.flatnonzero(np.diff(read.numbers) > 1) + 1
        runs = [run.tolist() for run in np.split(read.numbers, breaks)]
        return [self.directory.range_of(run[0], run[-1]) for run in runs]

    def _answer(self, waiting: Waiting, rows: Ints, block: pa.RecordBatch) -> Answer:
        """Match waiting rows with the rows of R that were read for them."""
        block = self.key.sorted(self.key.coded(block))
        keys = self.key.keys(block)
        if self.unique:
            self._check_unique(block, keys)
        found = np.zeros(len(rows), bool)
        pairs = list(waiting.keys_of(rows).pairs(keys))
        for i, _ in pairs:
            found[i] = True
        return Answer(rows, found, pairs, block)

    def _check_unique(self, block: pa.RecordBatch, keys: Keys) -> None:
        if not (keys.codes[1:] == keys.codes[:-1]).any():
            return
        for i, j in keys.pairs(keys):
            if (again := i[i != j]).size:
                row = block.select(list(self.key.columns)).slice(int(again[0]), 1).to_pylist()[0]
                named = ", ".join(f"{name} = {value!r}" for name, value in row.items())
                raise DuplicateKeyError(
                    f"the relation has several rows of {named}, but a row has one match at most; remove "
                    "rows, name more key columns, or set lookup.cardinality: many_to_many"
                )


def _distinct(codes: Ints) -> int:
    """Count the distinct codes among ascending ones."""
    return len(codes) and 1 + int(np.count_nonzero(codes[1:] != codes[:-1]))


def _done(rows: Ints, read: ReadPages | ReadKeys, fetch: Callable[[], pa.RecordBatch]) -> _Done:
    started = time.perf_counter()
    block = fetch()
    return rows, read, time.perf_counter() - started, block
