"""Plan, read, resolve: reads R until no row waits or the batch's budget is spent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.errors import EndmarkError
from endmark.joins.lookup.costs import LIST_KEYS
from endmark.joins.lookup.strategies import ReadAll, ReadKeys, ReadPages
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.joins.lookup.costs import ReadCosts
    from endmark.joins.lookup.strategies import Read, Strategy
    from endmark.joins.lookup.waiting import Waiting
    from endmark.relation.contract import KeyRange, PageDirectory, RelationReader
    from endmark.state.keys import Keys
    from endmark.state.search import Bools, Ints

# Reads done at once. Bounds memory by the size of a page, not of R, and lets one merge resolve many pages.
READS_AT_ONCE = 64


class DuplicateKeyError(EndmarkError):
    """A relation that was declared to hold every key once holds one twice."""


@dataclass(frozen=True)
class Budget:
    """After how many reads (pages, lists of keys, scans) or seconds a batch leaves the rest waiting; `None`
    is without limit. The read that exceeds it is finished."""

    reads: int | None = None
    seconds: float | None = None


@dataclass
class ReadFigures:
    """Reads of one batch: pages, lists of keys, keys in them, scans, rows that came, seconds; and how many
    rows waited when the budget was spent, 0 if it was not."""

    pages: int = 0
    lists: int = 0
    keys: int = 0
    scans: int = 0
    rows: int = 0
    seconds: float = 0.0
    left_by_budget: int = 0

    @property
    def reads(self) -> int:
        return self.pages + self.lists + self.scans


@dataclass(frozen=True)
class Answer:
    """What one read told.

    Args:
        rows: positions, in `Waiting`, of the rows it answers.
        found: which of them R has a row for.
        pairs: position among `rows` beside position in `block`, for every match.
        block: the rows of R that came, with their code.
    """

    rows: Ints
    found: Bools
    pairs: list[tuple[Ints, Ints]]
    block: pa.RecordBatch

    @property
    def matched(self) -> pa.RecordBatch:
        """The rows of R that have a match: all that R has for the keys answered."""
        taken = [np.unique(j) for _, j in self.pairs]
        return self.block.take(pa.array(np.unique(np.concatenate([np.empty(0, np.int64), *taken]))))


@dataclass
class Resolver:
    """Reads R by a strategy.

    Args:
        reader, directory: R.
        costs: kept current by every read.
        unique: whether R must not hold a key twice.
    """

    reader: RelationReader
    directory: PageDirectory
    strategy: Strategy
    costs: ReadCosts
    unique: bool = False
    figures: ReadFigures = field(default_factory=ReadFigures)

    def __post_init__(self) -> None:
        kinds = [self.reader.schema.field(name).type for name in self.reader.key]
        self.key = KeySpec.of(self.reader.key, kinds)

    def resolve(self, waiting: Waiting, budget: Budget, keep: int | None = None) -> Iterator[Answer]:
        """Answers of at least one row, until none waits or the budget is spent and at most `keep` wait.

        Raises:
            DuplicateKeyError: R holds a key twice that it should hold once.
        """
        self.figures = ReadFigures()
        started = time.monotonic()
        while len(waiting):
            left = READS_AT_ONCE if budget.reads is None else budget.reads - self.figures.reads
            late = budget.seconds is not None and time.monotonic() - started >= budget.seconds
            if left <= 0 or late:
                self.figures.left_by_budget = self.figures.left_by_budget or len(waiting)
                if keep is None or len(waiting) <= keep:
                    return
                left = READS_AT_ONCE
            read = self.strategy.plan(waiting, min(left, READS_AT_ONCE))
            for answer in self._read(read, waiting):
                if len(answer.rows):
                    waiting.answer(answer.rows)
                    yield answer

    def _read(self, read: Read, waiting: Waiting) -> Iterator[Answer]:
        match read:
            case ReadPages():
                started = time.perf_counter()
                block = self.reader.pages(self._ranges(read))
                self.costs.saw_pages(len(read.numbers), self._spent(started, block))
                self.figures.pages += len(read.numbers)
                yield self._answer(waiting, waiting.on_pages(read.numbers), block)
            case ReadKeys():
                rows = waiting.of_keys(read.groups)
                keys = waiting.distinct_keys(rows).rename_columns(list(self.key.columns))
                started = time.perf_counter()
                block = self.reader.read_keys(keys)
                self.costs.saw_keys(keys.num_rows, self._spent(started, block))
                self.figures.lists += -(-keys.num_rows // LIST_KEYS)
                self.figures.keys += keys.num_rows
                yield self._answer(waiting, rows, block)
            case ReadAll():
                yield from self._scan(waiting)

    def _scan(self, waiting: Waiting) -> Iterator[Answer]:
        before = self.figures.seconds
        started = time.perf_counter()
        for piece in self.reader.scan():
            self._spent(started, piece)
            yield self._answer(waiting, waiting.all(), piece, proven=False)
            started = time.perf_counter()
        self.figures.scans += 1
        self.costs.saw_scan(self.figures.seconds - before)
        yield self._answer(waiting, waiting.all(), pa.RecordBatch.from_pylist([], self.reader.schema))

    def _spent(self, started: float, block: pa.RecordBatch) -> float:
        seconds = time.perf_counter() - started
        self.figures.seconds += seconds
        self.figures.rows += block.num_rows
        return seconds

    def _ranges(self, read: ReadPages) -> list[KeyRange]:
        breaks = np.flatnonzero(np.diff(read.numbers) > 1) + 1
        runs = [run.tolist() for run in np.split(read.numbers, breaks)]
        return [(self.directory.range_of(run[0])[0], self.directory.range_of(run[-1])[1]) for run in runs]

    def _answer(self, waiting: Waiting, rows: Ints, block: pa.RecordBatch, *, proven: bool = True) -> Answer:
        """What a block of R says of waiting rows; unless it is all R has for them, the others wait on."""
        block = self.key.sorted(self.key.coded(block))
        keys = self.key.keys(block)
        if self.unique:
            self._check_unique(block, keys)
        found = np.zeros(len(rows), bool)
        pairs = list(waiting.keys_of(rows).pairs(keys))
        for i, _ in pairs:
            found[i] = True
        if not proven:
            numbers = np.cumsum(found) - 1
            rows, pairs = rows[found], [(numbers[i], j) for i, j in pairs]
            found = found[found]
        return Answer(rows, found, pairs, block)

    def _check_unique(self, block: pa.RecordBatch, keys: Keys) -> None:
        for i, j in keys.pairs(keys):
            if (again := i[i != j]).size:
                row = block.select(list(self.key.columns)).slice(int(again[0]), 1).to_pylist()[0]
                named = ", ".join(f"{name} = {value!r}" for name, value in row.items())
                raise DuplicateKeyError(
                    f"relation: several rows have {named}, but the lookup is declared one_to_one; "
                    "mend the relation, or declare the lookup many_to_many"
                )
