"""The simulated relation: rows in memory, whose reads may be slow or fail, and rows that nobody asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.relation.contract import KeyRange, PageDirectory
from endmark.relation.outage import Patience
from endmark.state import codec
from support.memory_relation import MemoryRelation

if TYPE_CHECKING:
    from simulation.clock import Clock
    from simulation.faults import Faults

RETRY = 4.0  # seconds that a batch may lose
PAGE_ROWS = 2
# The relations by name; the plans of tasks are pickled and name theirs.
_PRESENT: dict[str, SimulatedRelation] = {}


def present(name: str) -> SimulatedRelation:
    return _PRESENT[name]


class SimulatedRelation:
    """A relation that a run reads. Tasks find it by its name.

    Args:
        name: its name.
        rows: its rows.
        key: the columns of its key.
    """

    def __init__(self, name: str, rows: pa.RecordBatch, key: tuple[str, ...]) -> None:
        self.name = name
        self.schema = rows.schema
        self.key = key
        self._rows = rows
        self._relation = MemoryRelation(rows, key)
        self._patience = Patience(name, RETRY)
        self._failing = 0
        self._faults: Faults | None = None
        self._clock: Clock | None = None
        _PRESENT[name] = self

    def __reduce__(self) -> tuple[Callable[[str], SimulatedRelation], tuple[str]]:
        return present, (self.name,)

    def begin(self, faults: Faults, clock: Clock) -> None:
        """Begin a run with the rows as they were."""
        self._faults, self._clock, self._failing = faults, clock, 0
        self._relation = MemoryRelation(self._rows, self.key)

    def directory(self, page_rows: int) -> PageDirectory:
        return self._relation.directory(page_rows)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Wrap the reads of a batch, which lose no more than `RETRY` seconds in all."""
        self._patience.renew()
        yield

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        return self._patience.retried(partial(self._read, lambda: self._relation.pages(ranges)))

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        return self._patience.retried(partial(self._read, lambda: self._relation.read_keys(keys)))

    def _read(self, read: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        faults, clock = self._faults, self._clock
        if faults is None or clock is None:
            return read()
        place = f"relation {self.name}"
        if self._failing:
            self._failing -= 1
            raise ConnectionResetError(f"{place} does not answer")
        if faults.ends_batches and faults.happens("outage", place):
            self._failing = 100  # far more tries than the deadline allows
            raise ConnectionResetError(f"{place} does not answer")
        if faults.happens("failed read", place):
            self._failing = int(3 * faults.share(place, clock.now))
            raise ConnectionResetError(f"{place} does not answer")
        if faults.happens("slow read", place):
            clock.move(2 * faults.share(place, clock.now))
        if faults.happens("relation altered", place):
            count = int(4 * faults.share("altered", place, clock.now))
            self._relation = MemoryRelation(codec.concat([self._rows, self._unasked(count)]), self.key)
        return read()

    def end_outage(self) -> None:
        self._failing = 0

    def _unasked(self, count: int) -> pa.RecordBatch:
        """Return rows of keys that no record has: each lies behind all others."""
        keys: dict[str, Any] = {
            field.name: [f"~{at}" if pa.types.is_string(field.type) else 1_000 + at for at in range(count)]
            for field in self.schema
            if field.name in self.key
        }
        columns = [
            pa.array(keys[field.name], field.type) if field.name in keys else pa.nulls(count, field.type)
            for field in self.schema
        ]
        return pa.record_batch(columns, schema=self.schema)
