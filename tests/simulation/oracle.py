"""The verdict on a run: its tables are those that DuckDB recomputes from all records, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.metrics import sample
from endmark.state import codec
from endmark.verify.compare.tables import check_conservation, compare_tables
from endmark.wire.control import PULSE
from simulation.run import Outcome, digest
from support.kept_promises import broken_promises
from support.verify_recompute import recomputed, tables_of
from support.verify_world import Record

if TYPE_CHECKING:
    import pyarrow as pa

    from simulation.state_store import State
    from simulation.world import World


@dataclass(frozen=True)
class Verdict:
    """The errors of a run that failed.

    Args:
        text: what is wrong.
        lost: the rows that tables lack.
        doubled: the rows that tables have too often, or that should not be there.
    """

    text: str
    lost: int = 0
    doubled: int = 0


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

    def verdict(self, outcome: Outcome) -> Verdict | None:
        """Return what is wrong with a run; `None` if nothing is."""
        if outcome.failure is not None:
            return Verdict(outcome.failure)
        found = digest(outcome.tables)
        if found not in self._right:
            self.recomputed += 1
            if (wrong := self._different(outcome)) is not None:
                return wrong
            self._right.add(found)
        wrong_texts = (
            *self._unread(outcome),
            *self._miscounted(outcome),
            *self._broken(outcome),
            *_unreachable(outcome.states),
        )
        return next(map(Verdict, wrong_texts), None)

    def _unread(self, outcome: Outcome) -> Iterator[str]:
        """Each record is in exactly one batch: the offsets of the last one are the ends of all partitions."""
        ends: dict[tuple[str, int], int] = {}
        for record in self._world.records:
            at = record.topic, record.partition
            ends[at] = ends.get(at, 0) + 1
        control = self._world.pipeline.control_topic, 0
        ends[control] = ends.get(control, 0) + outcome.pulses
        told = {} if outcome.ledger.batches.last is None else outcome.ledger.batches.last[1]
        for (topic, partition), end in ends.items():
            read = told.get(topic, {}).get(str(partition), 0)
            if read != end:
                yield f"{topic}/{partition}: {read} of {end} records were read"

    def _miscounted(self, outcome: Outcome) -> Iterator[str]:
        """Counters are exact, though batches were repeated."""
        for stream, declared in self._world.pipeline.streams.items():
            mine = sum(record.topic == declared.topic for record in self._world.records)
            counted = outcome.ledger.batches.total("records_total")[sample("records_total", stream=stream)]
            if mine != counted:
                yield f"stream {stream}: {counted} records are counted, and there are {mine}"
        for table, counter in (("dead_letters", "dead_letters_total"), ("violations", "violations_total")):
            counted = outcome.ledger.batches.total(counter).total()
            if len(outcome.tables[table]) != counted:
                yield f"table {table}: {counted} rows are counted, and there are {len(outcome.tables[table])}"

    def _broken(self, outcome: Outcome) -> Iterator[str]:
        """No result of a batch breaks an output punctuation of an earlier one."""
        for text, row in broken_promises(self._world.pipeline, outcome.by_batch):
            yield f"a later result matches {text}: {row}"

    def _different(self, outcome: Outcome) -> Verdict | None:
        pipeline = self._world.pipeline
        records = [*self._world.records, *[Record(pipeline.control_topic, 0, PULSE)] * outcome.pulses]
        with recomputed(pipeline, records, outcome.tables, self._world.partitions) as session:
            tables = compare_tables(session, pipeline, dict.fromkeys(tables_of(pipeline)))
            breaches = check_conservation(session, pipeline)
        wrong = [table for table in tables if table.differs]
        if not wrong and not breaches:
            return None
        text = "\n".join(f"{each}" for each in (*wrong, *breaches))
        return Verdict(text, sum(each.missing for each in wrong), sum(each.unexpected for each in wrong))


def _unreachable(states: Iterable[State]) -> Iterator[str]:
    """State has no segment that no manifest names, and each that one names."""
    for state in states:
        blobs = {blob_id: bytes(data) for (blob_id,), (data,) in state.maps["state"].items()}
        manifests = list(_manifests(blobs.pop("snapshot")))
        named = {name for each in manifests for name in each.column("segment_id").to_pylist()}
        kept = blobs.keys()
        if kept != named:
            yield f"state has {len(kept - named)} segments too many and lacks {len(named - kept)}"


def _manifests(snapshot: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the manifests in a bucket's snapshot: that of its groups, or those of its operators."""
    found = codec.decode(snapshot)
    if "segment_id" in found.schema.names:
        yield found
        return
    for name, part in zip(*(column.to_pylist() for column in found.columns), strict=True):
        if name != "knobs" and part is not None:
            yield codec.decode(part)
