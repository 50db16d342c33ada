"""The groups that a batch of the join makes final: their key is announced, or their time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.punctuation.columns import matches
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.engine.groups.plan import GroupPlan
    from endmark.operators.group_by.group_by import ClosingAggregate
    from endmark.operators.stream_join.segment_join import SegmentJoin
    from endmark.punctuation.pattern import Pattern


def close_final(
    groups: ClosingAggregate, plan: GroupPlan, past: Mapping[str, Pattern], join: SegmentJoin
) -> pa.RecordBatch:
    """Remove and return the groups that are final.

    Args:
        groups: the groups of the aggregate so far.
        plan: the plan of the aggregate.
        past: the values of derived times that no later result has, by column of results.
        join: the join, whose last batch announces keys.
    """
    closed = _closed_by_key(join, groups)
    patterns = {key.name: past[source] for key in plan.keys for source in key.sources if source in past}
    if not patterns or not plan.by_time:
        return closed
    over = groups.close_rows(
        lambda rows: np.logical_or.reduce(
            [matches(pattern, rows.column(name)) for name, pattern in patterns.items()]
        )
    )
    return codec.concat([closed, over])


def _closed_by_key(join: SegmentJoin, groups: ClosingAggregate) -> pa.RecordBatch:
    """Remove and return the groups whose key the join's last batch announces."""
    announced = join.output.announced
    if join.output.widened:
        return groups.close_where(join.final)
    if announced is None:
        return pa.RecordBatch.from_pylist([], groups.schema)
    return groups.close(join.key.keys(announced))
