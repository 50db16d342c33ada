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
from endmark.engine.closing_patterns import ClosingPatterns
from endmark.engine.streams import grouped_by, rolled_up
from endmark.operators.group_by.group_by import KeyColumn, group_inputs, group_key
from endmark.operators.stream_join.announce import Report
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.wire_json import pattern_from_json
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from endmark.domain import Domain
    from endmark.engine.channels import Buckets
    from endmark.engine.streams import GroupPlan
    from endmark.pipeline import Pipeline

_GROUPS = "groups"  # the name under which patterns on columns of the group key are read


@dataclass(frozen=True)
class GroupStage:
    """The plan of a stage of groups. It is pickled and travels to the tasks of this stage and the one before.

    Args:
        group: the group-by.
        patterns: reads the patterns that close groups.
        reporters: the number of buckets of the stage before.
        buckets: the buckets of this stage.
        shows: whether the rows that this stage takes leave the stage before for the sink, too.
        state: the name of the state in metrics.
        of_groups: whether the stage takes final groups; otherwise it takes results.
        behind_groups: whether the stage before is one of groups, too.
        goes_on: whether the groups go on into one more stage.
    """

    group: GroupPlan
    patterns: ClosingPatterns
    reporters: int
    buckets: Buckets
    shows: bool
    state: str = "groups"
    of_groups: bool = False
    behind_groups: bool = False
    goes_on: bool = False

    @classmethod
    def of(cls, pipeline: Pipeline, reporters: int, buckets: Buckets) -> Self | None:
        """Make the plan of a pipeline's stage of groups; `None` if it has none.

        Args:
            pipeline: the pipeline.
            reporters: the number of buckets of the stage before.
            buckets: the buckets of the stage of groups.
        """
        if pipeline.aggregate is None or not pipeline.regroups:
            return None
        types = pipeline.group_columns()
        keys = [
            KeyColumn(name, types[name].arrow, sources, nullable=True)
            for name, sources in pipeline.group_sources.items()
        ]
        return cls(
            grouped_by(pipeline, pipeline.aggregate, keys),
            ClosingPatterns(pipeline.group_equals, pipeline.last_stage.present_keys),
            reporters,
            buckets,
            pipeline.shows_results,
            goes_on=pipeline.rollup is not None,
        )

    @classmethod
    def of_rollup(cls, pipeline: Pipeline, reporters: int, buckets: Buckets) -> Self | None:
        """Make the plan of the stage of a pipeline's rollup; `None` if it has none.

        Args:
            pipeline: the pipeline.
            reporters: the number of buckets of the stage that makes the final groups.
            buckets: the buckets of the rollup.
        """
        if (rollup := pipeline.rollup) is None:
            return None
        return cls(
            rolled_up(pipeline, rollup),
            ClosingPatterns(rollup.equals, pipeline.last_stage.present_keys),
            reporters,
            buckets,
            "groups" in pipeline.laid_out,
            state=rollup.step,
            of_groups=True,
            behind_groups=pipeline.regroups,
        )

    @property
    def final_channel(self) -> str:
        """The channel of final groups."""
        return channels.ROLLUP if self.of_groups else channels.GROUPS

    @property
    def running_channel(self) -> str:
        """The channel of groups that a batch has changed."""
        return channels.RUNNING_ROLLUP if self.of_groups else channels.RUNNING

    @property
    def domains(self) -> dict[str, Domain]:
        """The domains of the columns of the group key."""
        return {key.name: domain_of_type(key.kind) for key in self.group.keys}

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
        takes = channels.GROUPS if self.of_groups else channels.RESULTS
        told_by = channels.REPORT if self.behind_groups else channels.PATTERNS
        report: dict[str, Any] = vars(Report())
        for channel, blob in output:
            if channel == takes:
                rows = blob if isinstance(blob, pa.RecordBatch) else codec.decode(blob)
                yield from self._shares(rows)
                if not self.shows:
                    continue
            if channel == told_by:
                report = self.patterns.narrowed(json.loads(blob))
            if channel != channels.REPORT:
                yield label, channel, codec.encode(blob) if isinstance(blob, pa.RecordBatch) else blob
        # Each bucket sends its report even if it is empty, so that silence is not taken for a statement.
        written = json.dumps(report).encode()
        for bucket in self.buckets.labels:
            yield bucket, channels.REPORT, written

    def _shares(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str, bytes]]:
        """Yield each bucket's share of some rows, packed."""
        inputs = group_inputs(self.group.keys, self.group.measures, rows)
        for bucket, share in self.buckets.by_key(inputs, group_key(self.group.keys)):
            yield bucket, channels.GROUP_INPUTS, codec.encode(share)

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
