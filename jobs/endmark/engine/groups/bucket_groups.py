"""The groups of one aggregate in one bucket: the open ones, and those that a batch has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.metrics import sample
from endmark.operators.group_by.group_by import ClosingAggregate
from endmark.operators.group_by.running_groups import RunningGroups
from endmark.state import codec

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from endmark.engine.groups.plan import GroupPlan
    from endmark.state.keys import Share
    from endmark.state.store import SegmentStore


class BucketGroups:
    """The groups of one aggregate in one bucket.

    Attributes:
        plan: the plan of the aggregate.
        open: the groups that are not final yet.

    Args:
        plan: the plan of the aggregate.
        store: keeps the bucket's segments.
        restored: the snapshot of an earlier batch; `None` before the first.
    """

    def __init__(self, plan: GroupPlan, store: SegmentStore, restored: bytes | None) -> None:
        self.plan = plan
        self.open = ClosingAggregate(plan.keys, plan.measures, store, restored)
        self._profile = store.profile
        self._running = RunningGroups(self.open, plan.columns) if plan.running else None

    def inputs(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """Return what rows bring to their groups, for `fold`."""
        with self._profile.phase("aggregate"):
            return self.open.inputs(results)

    def fold(
        self,
        inputs: list[pa.RecordBatch],
        close: Callable[[ClosingAggregate], pa.RecordBatch],
        samples: Counter[str],
    ) -> Iterator[tuple[str, bytes]]:
        """Fold rows into groups, and yield the groups that are final then, with their channel.

        Args:
            inputs: what the rows bring to their groups.
            close: removes the final ones among some groups, and returns them.
            samples: collects the metrics.
        """
        plan = self.plan
        with self._profile.phase("aggregate"):
            self.open.add(inputs)
            closed = close(self.open)
            if self._running is not None:
                self._running.note(inputs, closed)
        samples[sample("groups_closed_total", step=plan.step)] += closed.num_rows
        if closed.num_rows and plan.final:
            yield plan.final_channel, codec.encode(closed.select(plan.columns))

    def changed(self, samples: Counter[str], number: int | None = None) -> Iterator[tuple[str, bytes]]:
        """Yield the groups that a batch has changed, with their channel, when the batch is over.

        Args:
            samples: collects the metrics.
            number: the number of the batch, if rows have it.
        """
        if self._running is None:
            return
        with self._profile.phase("aggregate"):
            rows = self._running.end_batch(number)
        samples[sample("running_groups_total", step=self.plan.step)] += rows.num_rows
        if rows.num_rows:
            yield self.plan.running_channel, codec.encode(rows)

    def keep(self, share: Share) -> None:
        """Drop the groups of other buckets, after the number of buckets has changed."""
        self.open.keep(share)

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        return self.open.snapshot()
