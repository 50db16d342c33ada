"""The verdict on a run: its tables are those that DuckDB recomputes from all records, nothing lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from endmark.metrics import sample
from endmark.wire.control import PULSE
from simulation.run import Outcome, digest
from support.verify_recompute import recomputed, require_within
from support.verify_world import Record

if TYPE_CHECKING:
    from simulation.world import World


class Oracle:
    """Judges the runs of a world. The tables of a run that are those of an earlier one need no recomputation.

    Attributes:
        recomputed: how many runs were held against DuckDB; the others had tables that were right before.

    Args:
        world: the world.
    """

    def __init__(self, world: World) -> None:
        self.recomputed = 0
        self._world = world
        self._right: set[str] = set()

    def failure(self, outcome: Outcome) -> str | None:
        """Say what is wrong with a run; `None` if nothing is."""
        if outcome.failure is not None:
            return outcome.failure
        for wrong in (*self._unread(outcome), *self._miscounted(outcome)):
            return wrong
        found = digest(outcome.tables)
        if found in self._right:
            return None
        self.recomputed += 1
        wrong = self._different(outcome)
        if wrong is None:
            self._right.add(found)
        return wrong

    def _unread(self, outcome: Outcome) -> Iterator[str]:
        """Each record is in exactly one batch: the offsets of the last one are the ends of all partitions."""
        ends: dict[tuple[str, int], int] = {}
        for record in self._world.records:
            at = record.topic, record.partition
            ends[at] = ends.get(at, 0) + 1
        control = self._world.pipeline.control_topic, 0
        ends[control] = ends.get(control, 0) + outcome.pulses
        told = {} if outcome.ledger.latest is None else outcome.ledger.latest[1]
        for (topic, partition), end in ends.items():
            read = told.get(topic, {}).get(str(partition), 0)
            if read != end:
                yield f"{topic}/{partition}: {read} of {end} records were read"

    def _miscounted(self, outcome: Outcome) -> Iterator[str]:
        """Counters are exact, though batches were repeated."""
        for stream, declared in self._world.pipeline.streams.items():
            mine = sum(record.topic == declared.topic for record in self._world.records)
            counted = outcome.ledger.total("records_total")[sample("records_total", stream=stream)]
            if mine != counted:
                yield f"stream {stream}: {counted} records are counted, and there are {mine}"
        for table, counter in (("dead_letters", "dead_letters_total"), ("violations", "violations_total")):
            counted = outcome.ledger.total(counter).total()
            if len(outcome.tables[table]) != counted:
                yield f"table {table}: {counted} rows are counted, and there are {len(outcome.tables[table])}"

    def _different(self, outcome: Outcome) -> str | None:
        pipeline = self._world.pipeline
        records = [*self._world.records, *[Record(pipeline.control_topic, 0, PULSE)] * outcome.pulses]
        found: Mapping[str, list[dict[str, Any]]] = outcome.tables
        with recomputed(pipeline, records, found, self._world.partitions) as session:
            try:
                require_within(session, pipeline)
            except AssertionError as error:
                return f"the tables are not those that follow from the records: {error}"
        return None
