"""The task of one bucket of groups: it folds rows into groups, and closes groups by patterns."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.engine import channels
from endmark.engine.bucket.state_samples import group_samples
from endmark.engine.groups.bucket_groups import BucketGroups
from endmark.engine.snapshot_parts import GROUPS, decode_parts, encode_parts, with_prefix
from endmark.operators.stream_join.pattern_reports import Report, aligned
from endmark.operators.stream_join.promises import PromiseUnion
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from endmark.engine.groups.stage import GroupStage, StageAggregate
    from endmark.operators.group_by.group_by import ClosingAggregate
    from endmark.state.keys import Share
    from endmark.state.store import SegmentStore


_BUCKETS = "buckets"  # the note of the first aggregate that has the number of buckets of the state


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
        snapshots = {} if restored is None else with_prefix(GROUPS, decode_parts(restored))
        self._groups = [
            BucketGroups(each.plan, store, snapshots.get(each.plan.step)) for each in stage.groups
        ]
        if restored is None:
            self._notes[_BUCKETS] = len(stage.buckets)

    @property
    def _notes(self) -> dict[str, Any]:
        return self._groups[0].open.notes

    def keep(self, share: Share) -> None:
        """Drop what belongs to other buckets, if the restored state is that of a bucket with more keys."""
        if self._notes[_BUCKETS] == share.buckets:
            return
        for groups in self._groups:
            groups.keep(share)
        self._notes[_BUCKETS] = share.buckets

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        return encode_parts({f"{GROUPS}{groups.plan.step}": groups.snapshot() for groups in self._groups})

    def run(self, packed: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Run one batch.

        Args:
            packed: the blobs of the batch, each with its channel. Those for the sink pass through.

        Yields:
            Blobs for the sink and for the next stage, each with its channel.
        """
        inputs: dict[str, list[pa.RecordBatch]] = {each.channel: [] for each in self._stage.groups}
        reports: list[dict[str, Any]] = []
        for channel, blob in packed:
            if channel in inputs:
                inputs[channel].append(codec.decode(blob))
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
        for each, groups in zip(self._stage.groups, self._groups, strict=True):
            close = partial(self._closed, each, together)
            yield from groups.fold(inputs[each.channel], close, samples)
            yield from groups.changed(samples)
            samples.update(group_samples(groups))
        if self._stage.next_patterns:
            # All groups that these patterns match are final, in whichever bucket they were.
            yield channels.REPORT, json.dumps(vars(Report(together))).encode()
        yield channels.METRICS, json.dumps({"samples": samples}).encode()

    def _closed(
        self, aggregate: StageAggregate, patterns: Iterable[str], groups: ClosingAggregate
    ) -> pa.RecordBatch:
        """Remove and return the groups that patterns close."""
        closing = [found for text in patterns if (found := aggregate.closing(text)) is not None]
        if not closing:
            return pa.RecordBatch.from_pylist([], groups.schema)
        if not all(each.patterns for each in closing):  # no result comes any more
            return groups.close_rows(lambda rows: np.ones(rows.num_rows, bool))
        final = PromiseUnion(aggregate.domains)
        for each in closing:
            final.add(each)
        return groups.close_rows(final.match)
