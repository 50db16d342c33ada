"""The task of one bucket of groups: it folds rows into groups, and closes groups by patterns."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.engine import channels
from endmark.engine.bucket.state_samples import group_samples
from endmark.metrics import sample
from endmark.operators.group_by.group_by import ClosingAggregate
from endmark.operators.group_by.running_groups import RunningGroups
from endmark.operators.stream_join.announce import Report, aligned
from endmark.operators.stream_join.promises import PromiseUnion
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from endmark.engine.groups.stage import GroupStage
    from endmark.state.keys import Share
    from endmark.state.store import SegmentStore


_CLOSED = {channels.GROUPS: "groups_closed_total", channels.ROLLUP: "rollup_closed_total"}
_CHANGED = {channels.RUNNING: "running_groups_total", channels.RUNNING_ROLLUP: "running_rollup_total"}


class GroupTask:
    """Runs the batches of one bucket of groups, from blobs to blobs.

    A pattern that all buckets of the stage before announce together matches no later row. So the groups that
    it matches are final, and it needs not be remembered.

    Args:
        stage: the plan of the stage.
        store: keeps the bucket's segments.
        restored: the state after an earlier batch; `None` before the first.
    """

    def __init__(self, stage: GroupStage, store: SegmentStore, restored: bytes | None) -> None:
        self._stage = stage
        self._profile = store.profile
        self._groups = ClosingAggregate(stage.group.keys, stage.group.measures, store, restored)
        if restored is None:
            self._groups.notes["buckets"] = len(stage.buckets)
        self._running = RunningGroups(self._groups, stage.group.columns) if stage.group.running else None

    def keep(self, share: Share) -> None:
        """Drop what belongs to other buckets, if the restored state is that of a bucket with more keys."""
        if self._groups.notes["buckets"] != share.buckets:
            self._groups.keep(share)
            self._groups.notes["buckets"] = share.buckets

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        return self._groups.snapshot()

    def run(self, packed: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Run one batch.

        Args:
            packed: the blobs of the batch, each with its channel. Those for the sink pass through.

        Yields:
            Blobs for the sink and for the next stage, each with its channel.
        """
        inputs: list[pa.RecordBatch] = []
        reports: list[dict[str, Any]] = []
        for channel, blob in packed:
            if channel == channels.GROUP_INPUTS:
                inputs.append(codec.decode(blob))
            elif channel == channels.REPORT:
                reports.append(json.loads(blob))
            else:
                yield channel, blob
        if len(reports) != self._stage.reporters:
            raise AssertionError(
                f"{len(reports)} of {self._stage.reporters} buckets of the stage before have sent a report"
            )
        samples: Counter[str] = Counter()
        with self._profile.phase("aggregate"):
            together = aligned(reports)
            self._groups.add(inputs)
            closed = self._closed(together)
        samples[sample(_CLOSED[self._stage.final_channel])] += closed.num_rows
        if closed.num_rows and self._stage.group.final:
            yield self._stage.final_channel, codec.encode(closed.select(self._stage.group.columns))
        if self._running is not None:
            with self._profile.phase("aggregate"):
                self._running.note(inputs, closed)
                changed = self._running.end_batch()
            samples[sample(_CHANGED[self._stage.running_channel])] += changed.num_rows
            if changed.num_rows:
                yield self._stage.running_channel, codec.encode(changed)
        if self._stage.goes_on:
            # All groups that these patterns match are final, in whichever bucket they were.
            yield channels.REPORT, json.dumps(vars(Report(together))).encode()
        samples.update(group_samples(self._groups, self._stage.state))
        yield channels.METRICS, json.dumps({"samples": samples}).encode()

    def _closed(self, patterns: Iterable[str]) -> pa.RecordBatch:
        """Remove and return the groups that patterns close."""
        closing = [found for text in patterns if (found := self._stage.closing(text)) is not None]
        if not closing:
            return pa.RecordBatch.from_pylist([], self._groups.schema)
        if not all(each.patterns for each in closing):  # no result comes any more
            return self._groups.close_rows(lambda rows: np.ones(rows.num_rows, bool))
        final = PromiseUnion(self._stage.domains)
        for each in closing:
            final.add(each)
        return self._groups.close_rows(final.match)
