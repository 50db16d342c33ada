"""The plan of a stage of groups, and the work of the stage before it.

A stage of groups takes the results of the stage before and groups them by another key, or it takes final
groups and groups them once more. Its buckets are of that key. In every batch, each bucket of the stage before
sends each of these buckets its share of the rows, and its report on the patterns that can close a group. So a
bucket of groups aligns the reports itself, as the sink does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.closing_patterns import ClosingPatterns, narrowed
from endmark.engine.groups.plan import grouped_by, rolled_up
from endmark.operators.group_by.group_by import KeyColumn, group_inputs, group_key
from endmark.operators.stream_join.pattern_reports import Report
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.wire_json import pattern_from_json
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from endmark.domain import Domain
    from endmark.engine.channels import Buckets
    from endmark.engine.groups.plan import GroupPlan
    from endmark.pipeline import Pipeline
    from endmark.pipeline.groups import ResultGroups
    from endmark.pipeline.rollup import Rollup

_GROUPS = "groups"  # the name under which patterns on columns of the group key are read


@dataclass(frozen=True)
class StageAggregate:
    """The plan of one aggregate of a stage of groups.

    Args:
        plan: the aggregate.
        patterns: reads the patterns that close groups.
        takes: the channel of the rows that it groups.
        shows: whether these rows leave the stage before for the sink, too.
    """

    plan: GroupPlan
    patterns: ClosingPatterns
    takes: str
    shows: bool

    @property
    def channel(self) -> str:
        """The channel of what rows bring to their groups."""
        return channels.stream_channel(channels.GROUP_INPUTS, self.plan.step)

    @property
    def domains(self) -> dict[str, Domain]:
        """The domains of the columns of the group key."""
        return {key.name: domain_of_type(key.kind) for key in self.plan.keys}

    def closing(self, text: str) -> Punctuation | None:
        """Return the groups that a pattern closes, by columns of the group key.

        Args:
            text: a pattern in JSON, over columns of results.

        Returns:
            A punctuation without patterns matches every group. `None` if the pattern closes no group.
        """
        restricted = self.patterns.read(text)
        if restricted is None:
            return None
        return Punctuation.read(_GROUPS, restricted, self.domains, pattern_from_json)


@dataclass(frozen=True)
class GroupStage:
    """The plan of a stage of groups. It is pickled and travels to the tasks of this stage and the one before.

    Args:
        groups: the aggregates. All take results, or all take final groups.
        reporters: the number of buckets of the stage before.
        buckets: the buckets of this stage.
        behind_groups: whether the stage before is one of groups, too.
        next_patterns: the readers of the patterns that close groups of the next stage; empty in the last one.
    """

    groups: tuple[StageAggregate, ...]
    reporters: int
    buckets: Buckets
    behind_groups: bool = False
    next_patterns: tuple[ClosingPatterns, ...] = ()

    @classmethod
    def of(cls, pipeline: Pipeline, reporters: int, buckets: Buckets) -> Self | None:
        """Make the plan of a pipeline's groups by other keys than the join's; `None` if it has none.

        Args:
            pipeline: the pipeline.
            reporters: the number of buckets of the stage before.
            buckets: the buckets of the stage of groups.
        """
        if not pipeline.regrouped:
            return None
        groups = tuple(_regrouped(each) for each in pipeline.regrouped)
        behind = tuple(_rolled_up(each).patterns for each in pipeline.rollups)
        return cls(groups, reporters, buckets, next_patterns=behind)

    @classmethod
    def of_rollups(cls, pipeline: Pipeline, reporters: int, buckets: Buckets) -> Self | None:
        """Make the plan of a pipeline's groups of final groups; `None` if it has none.

        Args:
            pipeline: the pipeline.
            reporters: the number of buckets of the stage before.
            buckets: the buckets of this stage.
        """
        if not pipeline.rollups:
            return None
        groups = tuple(_rolled_up(each) for each in pipeline.rollups)
        return cls(groups, reporters, buckets, behind_groups=bool(pipeline.regrouped))

    def hand_over(
        self, label: int, output: Iterable[tuple[str, bytes | pa.RecordBatch]]
    ) -> Iterator[tuple[int, str, bytes]]:
        """Add what the stage of groups needs to the output of a bucket of the stage before.

        A stage puts out results as record batches if they are grouped in this one. They are packed here.

        Args:
            label: the label of the bucket. What only the sink needs passes through this stage under
                this label, so it stays in its partition.
            output: the output of the bucket.

        Yields:
            Packed rows: the label of a bucket of groups, the channel and the blob.
        """
        report_channel = channels.REPORT if self.behind_groups else channels.PATTERNS
        report: dict[str, Any] = vars(Report())
        for channel, blob in output:
            if takers := [groups for groups in self.groups if groups.takes == channel]:
                rows = blob if isinstance(blob, pa.RecordBatch) else codec.decode(blob)
                for groups in takers:
                    yield from self._shares(groups, rows)
                if not takers[0].shows:
                    continue
            if channel == report_channel:
                readers = [*(groups.patterns for groups in self.groups), *self.next_patterns]
                report = narrowed(readers, json.loads(blob))
            if channel != channels.REPORT:
                yield label, channel, codec.encode(blob) if isinstance(blob, pa.RecordBatch) else blob
        # Each bucket sends its report even if it is empty, so that silence is not taken for a statement.
        written = json.dumps(report).encode()
        for bucket in self.buckets.labels:
            yield bucket, channels.REPORT, written

    def _shares(self, groups: StageAggregate, rows: pa.RecordBatch) -> Iterator[tuple[int, str, bytes]]:
        """Yield each bucket's share of some rows that an aggregate takes, packed."""
        plan = groups.plan
        inputs = group_inputs(plan.keys, plan.measures, rows)
        for bucket, share in self.buckets.by_key(inputs, group_key(plan.keys)):
            yield bucket, groups.channel, codec.encode(share)


def _regrouped(groups: ResultGroups) -> StageAggregate:
    pipeline, types = groups.pipeline, groups.columns()
    keys = [
        KeyColumn(name, types[name].arrow, sources, nullable=True) for name, sources in groups.sources.items()
    ]
    patterns = ClosingPatterns(groups.equals, pipeline.last_stage.present_keys)
    return StageAggregate(
        grouped_by(groups, keys), patterns, channels.RESULTS, pipeline.outputs.shows_results
    )


def _rolled_up(rollup: Rollup) -> StageAggregate:
    patterns = ClosingPatterns(rollup.equals, rollup.pipeline.last_stage.present_keys)
    takes = rollup.of.final_role
    return StageAggregate(rolled_up(rollup), patterns, takes, takes in rollup.pipeline.outputs.roles)
