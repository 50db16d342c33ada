"""Running groups batch by batch, by their definition: each that a batch had results of, as it is by then."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.group_by.functions import Count
from endmark.operators.group_by.group_by import ClosingAggregate, KeyColumn
from endmark.operators.group_by.running_groups import RunningGroups
from endmark.pipeline import Pipeline
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.types import JoinType
from support.bucket_tasks import Tables
from support.cases import cases
from support.random_batches import batches_of, random_tasks
from support.sizes import SIZES
from support.verify_histories import histories, pipelines
from support.verify_keys import COMPOSITE, LONG, KeyKind
from support.verify_measures import measured
from support.verify_recompute import recomputed, require_within


def _has_running_groups(pipeline: Pipeline) -> bool:
    return any(groups.is_running for groups in pipeline.groups)


class Groups:
    """All results so far, by key."""

    def __init__(self, pipeline: Pipeline) -> None:
        assert pipeline.groups
        self._pipeline = pipeline
        self._measures = pipeline.groups[0].aggregate.measures
        self._by = pipeline.groups[0].aggregate.by
        self._results: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)

    def key_of(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._by)

    def expected(self, found: Tables) -> list[dict[str, Any]]:
        """Rows that a batch must tell, without its number: those of groups it has closed are final."""
        final = {self.key_of(row): row | {"final": True} for row in found["groups"]}
        changed = set()
        for row in found["results"]:
            key = tuple(self._shown(row, name) for name in self._by)
            self._results[key].append(row)
            changed.add(key)
        told = [self._group(key) | {"final": False} for key in changed - final.keys()]
        assert [row for key, row in final.items() if row != self._group(key) | {"final": True}] == []
        return [*told, *final.values()]

    def _shown(self, row: dict[str, Any], name: str) -> Any:
        """Return the value of a column from the side that has a row."""
        found = (row.get(f"{stream}_{name}") for stream in self._pipeline.sides)
        return next(value for value in found if value is not None)

    def _group(self, key: tuple[Any, ...]) -> dict[str, Any]:
        rows = self._results[key]
        values = {name: measured(self._pipeline, each, rows) for name, each in self._measures.items()}
        return dict(zip(self._by, key, strict=True)) | values


@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(2, among=60)
@given(data=st.data(), keys=st.sampled_from([LONG, COMPOSITE]))
def test_a_batch_tells_what_it_changed(kind: JoinType | None, data: st.DataObject, keys: KeyKind) -> None:
    """Each group once, whatever waits, is spilled or enters in steps; and as `verify` has it in the end."""
    pipeline = data.draw(
        pipelines(kind, keys, several=True).filter(
            lambda each: any(groups.is_running for groups in each.groups)
        )
    )
    sizes = data.draw(SIZES)
    records = data.draw(histories(keys, sizes.partitions, pipeline.streams))
    groups = Groups(pipeline)
    found: Tables = defaultdict(list)
    with random_tasks(data, pipeline, sizes) as (tasks, size):
        for coming in [*batches_of(records, size), []]:
            batch = tasks.batch(coming)
            told = [{name: row[name] for name in row if name != "batch"} for row in batch["running"]]
            assert sorted(told, key=groups.key_of) == sorted(groups.expected(batch), key=groups.key_of)
            for channel, rows in batch.items():
                found[channel] += rows
    with recomputed(pipeline, records, found, sizes.partitions) as session:
        require_within(session, pipeline)


def test_the_groups_of_all_steps_are_returned(tmp_path: Path) -> None:
    """A batch that enters the join in two steps returns the groups that only the first one changed, too."""
    keys = [KeyColumn("item", pa.int64(), ("l_item",))]
    groups = ClosingAggregate(keys, [Count("rows", None, pa.int64())], SegmentStore(MemoryBlobs(), tmp_path))
    running = RunningGroups(groups, groups.schema.names)
    for number in (1, 2):
        added = [groups.inputs(pa.record_batch([pa.array([number])], names=["l_item"]))]
        groups.add(added)
        running.note(added, pa.RecordBatch.from_pylist([], groups.schema))

    rows = running.end_batch().to_pylist()

    assert sorted(row["item"] for row in rows) == [1, 2]
    assert [(row["rows"], row["final"]) for row in rows] == [(1, False), (1, False)]
