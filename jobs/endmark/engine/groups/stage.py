"""The plan of a stage of groups, and the work of the stage before it.

A stage of groups is the last one of a query. It groups the results of the stage before by another key, and
its buckets are of that key. In every batch, each bucket of the stage before sends each of these buckets its
share of the results, and its report on the patterns that can close a group. So a bucket of groups aligns the
reports itself, as the sink does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.closing_patterns import ClosingPatterns
from endmark.engine.streams import grouped_by
from endmark.operators.group_by.group_by import KeyColumn, group_inputs, group_key
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
        shows_results: whether results leave the stage before for the sink, too.
    """

    group: GroupPlan
    patterns: ClosingPatterns
    reporters: int
    buckets: Buckets
    shows_results: bool

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
        )

    @property
    def domains(self) -> dict[str, Domain]:
        """The domains of the columns of the group key."""
        return {key.name: domain_of_type(key.kind) for key in self.group.keys}

    def hand_over(
        self, label: int, output: Iterable[tuple[str, bytes | pa.RecordBatch]]
    ) -> Iterator[tuple[int, str, bytes]]:
        """Add what the stage of groups needs to the output of a bucket of the stage before.

        That stage puts out results as record batches. They are packed here.

        Args:
            label: the label of the bucket. What only the sink needs passes through this stage under
                this label, so it stays in its partition.
            output: the output of the bucket.

        Yields:
            Packed rows: the label of a bucket of groups, the channel and the blob.
        """
        key = group_key(self.group.keys)
        report: dict[str, Any] = {"released": {}, "waiting": []}
        for channel, blob in output:
            if isinstance(blob, pa.RecordBatch):
                inputs = group_inputs(self.group.keys, self.group.measures, blob)
                for bucket, rows in self.buckets.by_key(inputs, key):
                    yield bucket, channels.GROUP_INPUTS, codec.encode(rows)
                if self.shows_results:
                    yield label, channel, codec.encode(blob)
                continue
            if channel == channels.PATTERNS:
                report = self.patterns.narrowed(json.loads(blob))
            yield label, channel, blob
        # Each bucket sends its report even if it is empty, so that silence is not taken for a statement.
        written = json.dumps(report).encode()
        for bucket in self.buckets.labels:
            yield bucket, channels.REPORT, written

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
