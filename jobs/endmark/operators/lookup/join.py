"""The lookup join as an operator: a cache, pending rows, reads within a budget, and a treatment of misses.

Definition: it is the inner or left equi-join of the stream rows with the relation R. Paper: UoA-SE-2010-2,
section 4.

Deviations: pages are aligned, as a directory fixes their bounds. In the paper, a page starts at the dequeued
key. Aligned pages answer 1.1 to 1.9 times as many rows per read. A read answers every pending row whose key
it covers, found or proven absent. So rows without a match leave the queue, too. A strategy chooses the next
read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.lookup.auto import Auto
from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.pending_rows import ASKED, Pending
from endmark.operators.lookup.reader import Budget, ReadFigures, Resolver
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.lookup.waiting_rows import Piece, Waiting
from endmark.operators.stream_join.results import Results
from endmark.state import codec
from endmark.state.keys import nulls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.operators.lookup.cache import FrontCache
    from endmark.operators.lookup.reader import Answer
    from endmark.operators.lookup.strategies import Name
    from endmark.operators.lookup.versions import Versions
    from endmark.relation.contract import PageDirectory, RelationReader
    from endmark.state.keys import KeySpec
    from endmark.state.segment_list import SegmentList
    from endmark.state.store import SegmentStore

Fate = Literal["drop", "nulls", "dead_letter"]


@dataclass(frozen=True)
class Misses:
    """The treatment of rows without a match in R.

    Args:
        fate: `nulls` puts the row out beside nulls (a left join). `drop` and `dead_letter` return it as
            missed.
        attempts: the number of times that R is asked before that. In between, the row is parked.
        delay: microseconds for which a row is parked.
    """

    fate: Fate = "drop"
    attempts: int = 1
    delay: int = 0


@dataclass(frozen=True)
class LookupSpec:
    """The specification of a lookup join.

    Args:
        schema: the columns of the rows: those of the stream, and those that earlier lookups have added.
        key: the columns by which R is asked, in the order of R's key.
        renamed: output names of R's columns, by name. Columns that are not named are left out.
        misses: the treatment of rows without a match.
        budget: the limit of a batch's reads.
        capacity: bytes of rows that may wait. If more would be left, a batch goes on reading beyond its
            budget. `None`: any number.
        versions: the rule of a temporal lookup; `None`: a row meets all of R's rows of its key.
    """

    schema: pa.Schema
    key: KeySpec
    renamed: dict[str, str]
    misses: Misses = field(default_factory=Misses)
    budget: Budget = field(default_factory=Budget)
    capacity: int | None = None
    versions: Versions | None = None


@dataclass(frozen=True)
class Source:
    """The relation R, and the way it is read.

    Args:
        reader, directory: R and its pages.
        strategy: the name of the strategy that chooses reads.
        costs: the costs of reads at the start. The costs in a snapshot are newer, and replace them.
        unique: whether R has at most one row of each key. A second row is an error then.
    """

    reader: RelationReader
    directory: PageDirectory
    strategy: Name
    costs: ReadCosts
    unique: bool = False


@dataclass
class LookupOutput:
    """The output of one batch.

    Args:
        arrived_rows: the number of stream rows that have come.
        joined: rows with a match: the columns of the stream, then those of R.
        missed: stream rows that are given up under `drop` and `dead_letter`, since R does not have their key.
        misses: the number of all rows that are given up, with those that are put out beside nulls.
        pending_rows, pending_bytes: the number of rows that wait now, without parked ones, and their bytes in
            memory.
        parked_rows: the number of rows for which R is to be asked again.
        pressure: the share of `capacity` that waited when the budget was spent. Above 1, the batch went on
            reading.
        oldest: the number of rows that have arrived since the oldest pending one.
        cached_rows: the number of rows that the cache answered.
        predicted: the seconds by strategy that `auto` expected before the first read.
        figures: the figures of the reads.
        ordered_rows, ordered_bytes: the number of rows, of this batch and earlier ones, that the cache did
            not answer, and their bytes in memory.
        ordered_seconds: the time to order these rows, and to keep those that are left.
        costs: the present costs of reads, by the names of `ReadCosts`.
        pages: the number of R's pages; 0 if R is read by keys alone.
    """

    arrived_rows: int = 0
    joined: list[pa.RecordBatch] = field(default_factory=list)
    missed: list[pa.RecordBatch] = field(default_factory=list)
    misses: int = 0
    pending_rows: int = 0
    pending_bytes: int = 0
    parked_rows: int = 0
    pressure: float = 0.0
    oldest: int = 0
    cached_rows: int = 0
    predicted: dict[str, float] = field(default_factory=dict)
    figures: ReadFigures = field(default_factory=ReadFigures)
    ordered_rows: int = 0
    ordered_bytes: int = 0
    ordered_seconds: float = 0.0
    costs: dict[str, float] = field(default_factory=dict)
    pages: int = 0


class LookupJoin:
    """Joins batches of stream rows with R. Rows that a batch leaves unanswered wait for the next one.

    Attributes:
        pending: the rows that wait or are parked.
        notes: JSON values of the caller, which a snapshot keeps.
        output: the output of the last batch.

    Args:
        spec: the specification of the join.
        source: R, and the way it is read.
        store: keeps the rows that wait beyond their batch.
        cache: rows of R in memory; `None` without one. It may outlive this object.
        restored: a snapshot; `None` to begin without state.
        others: lists of segments of the caller, which a snapshot keeps, too; `None` without any.
    """

    def __init__(
        self,
        spec: LookupSpec,
        source: Source,
        store: SegmentStore,
        cache: FrontCache | None = None,
        restored: bytes | None = None,
        others: Mapping[str, SegmentList] | None = None,
    ) -> None:
        self._spec = spec
        self.pending = Pending(spec.key, spec.schema, store, restored, others)
        self._cache = cache
        notes = self.pending.notes
        self.notes: dict[str, Any] = notes.get("caller", {})
        self._pages = len(source.directory) if source.directory.unpaged is None else 0
        self._costs = source.costs
        if notes and notes["pages"] and self._pages:
            kept = ReadCosts.restored(notes["costs"], source.costs)
            self._costs = kept.cut(notes["pages"], self._pages)
        position = notes.get("position", 0)
        self._planner = STRATEGIES[source.strategy].planner(self._costs, self._pages, position)
        self._resolver = Resolver(
            source.reader, source.directory, self._planner, self._costs, unique=source.unique
        )
        looked_up = [source.reader.schema.field(name).with_name(to) for name, to in spec.renamed.items()]
        self._results = Results(spec.schema, pa.schema(looked_up))
        self.output = LookupOutput()

    def snapshot(self) -> bytes:
        """Return the state for the next batch, without the segments."""
        known = {
            "costs": vars(self._costs),
            "pages": self._pages,
            "position": self._planner.position,
            "caller": self.notes,
        }
        return self.pending.snapshot(known)

    def process(
        self, rows: pa.RecordBatch | None, now: int, *, drain: bool = False, reserved: int = 0
    ) -> LookupOutput:
        """Look up one batch. A row with a null in the key has no match, and is not parked.

        Args:
            rows: the stream rows that have come; `None` without any.
            now: microseconds since 1970. It decides which parked rows are due, and what in the cache is too
                old.
            drain: whether to answer all pending rows, whatever the budget.
            reserved: bytes of `capacity` that the caller uses for other rows.
        """
        came = pa.RecordBatch.from_pylist([], self._spec.schema) if rows is None else rows
        self.output = LookupOutput(came.num_rows)
        if (null := nulls(came, self._spec.key.columns)).any():
            self._give_up(came.filter(pa.array(null)))
        arrived = self._from_cache(self.pending.arrived(came), now)
        started = time.perf_counter()
        new = codec.concat([*self.pending.due(now), arrived])
        pieces = [*self.pending.waiting(), Piece(new)]
        waiting = self._ordered(pieces)
        self.output.ordered_seconds = time.perf_counter() - started
        budget, keep = self._limits(waiting, reserved, drain=drain)
        answered: list[tuple[pa.RecordBatch, pa.RecordBatch]] = []
        for answer in self._resolver.resolve(waiting, budget, keep):
            if self._cache is not None:
                answered.append((waiting.distinct_keys(answer.rows), answer.matched))
            self._put_out(waiting.take(answer.rows), answer, now)
        if self._cache is not None:
            self._cache.admit(answered, now)
        self._measure(waiting)
        started = time.perf_counter()
        earlier, of_new = waiting.left()
        self.pending.settle(earlier, new.take(pa.array(of_new)))
        self.output.ordered_seconds += time.perf_counter() - started
        self.output.parked_rows = self.pending.parked_rows
        return self.output

    def _from_cache(self, arrived: pa.RecordBatch, now: int) -> pa.RecordBatch:
        """Answer the rows whose key the cache has; return the others."""
        if self._cache is None:
            return arrived
        answer = self._cache.lookup(self._spec.key.keys(arrived), now)
        self.output.cached_rows = len(answer.rows)
        self._put_out(arrived.take(pa.array(answer.rows)), answer, now)
        others = np.ones(arrived.num_rows, bool)
        others[answer.rows] = False
        return arrived.filter(pa.array(others))

    def _ordered(self, pieces: Sequence[Piece]) -> Waiting:
        """Return waiting rows in the order in which reads answer them. A subclass may let fewer rows wait."""
        return Waiting(pieces, self._spec.key, self._resolver.directory)

    def _limits(self, waiting: Waiting, reserved: int, *, drain: bool) -> tuple[Budget, int | None]:
        """Return the budget of a batch, and how many rows may wait after it; `None`: any number."""
        budget = Budget() if drain else self._spec.budget
        if self._spec.capacity is None:
            return budget, None
        return budget, int(max(0, self._spec.capacity - reserved) / max(1.0, waiting.row_bytes))

    def _put_out(self, rows: pa.RecordBatch, answer: Answer, now: int) -> None:
        """Put out the matches of some rows. Rows without a match are parked or given up."""
        if self._spec.versions is not None:
            answer = self._spec.versions.pick(rows, answer)
        block = answer.block.select(list(self._spec.renamed))
        block = block.rename_columns(list(self._spec.renamed.values()))
        self.output.joined += [self._results.pairs(rows, i, block, j) for i, j in answer.pairs]
        missed = rows.filter(pa.array(~answer.found))
        if missed.num_rows and self._spec.misses.attempts > 1:
            again = pc.less(pc.add(missed.column(ASKED), 1), self._spec.misses.attempts)
            self.pending.park(missed.filter(again), now + self._spec.misses.delay)
            missed = missed.filter(pc.invert(again))
        self._give_up(missed)

    def _give_up(self, missed: pa.RecordBatch) -> None:
        """Put out rows that have no match, and never get one."""
        if not missed.num_rows:
            return
        self.output.misses += missed.num_rows
        if self._spec.misses.fate == "nulls":
            self.output.joined.append(self._results.left_alone(missed))
        else:
            self.output.missed.append(missed.select(self._spec.schema.names))

    def _measure(self, waiting: Waiting) -> None:
        """Add the figures of the batch to the output."""
        output = self.output
        output.figures = self._resolver.figures
        output.pending_rows = len(waiting)
        output.pending_bytes = int(len(waiting) * waiting.row_bytes)
        output.oldest = waiting.age
        output.costs, output.pages = dict(vars(self._costs)), self._pages
        output.ordered_rows = waiting.total
        output.ordered_bytes = int(waiting.total * waiting.row_bytes)
        if self._spec.capacity is not None:
            output.pressure = output.figures.left_by_budget * waiting.row_bytes / self._spec.capacity
        if isinstance(self._planner, Auto):
            output.predicted = self._planner.predicted
