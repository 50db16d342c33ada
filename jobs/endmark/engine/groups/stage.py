"""The plan of the second stage, and the work of the first one for it.

The second stage groups the results of the first one by another key. Its buckets are of that key. In every
batch, each bucket of the first stage sends each of these buckets its share of the results, and its report on
the patterns that can close a group. So a bucket of groups aligns the reports itself, as the sink does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.streams import grouped_by
from endmark.operators.group_by.group_by import KeyColumn, group_inputs, group_key
from endmark.operators.stream_join.announce import ALL_VALUES
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.wire_json import pattern_from_json
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from endmark.domain import Domain
    from endmark.engine.channels import Buckets
    from endmark.engine.streams import GroupPlan
    from endmark.pipeline import Pipeline

_GROUPS = "groups"  # the name under which patterns on columns of the group key are read


@dataclass(frozen=True)
class GroupStage:
    """The plan of the second stage. It is pickled and travels to the tasks of both stages.

    Args:
        group: the group-by.
        equals: the columns of results that equal a column of the group key in every result, each with the
            name of that column. A pattern on such columns alone closes the groups that it matches.
        present: the columns of results that are null in no result. A pattern of all values of such columns
            closes every group, since no result comes any more.
        reporters: the number of buckets of the first stage.
        buckets: the buckets of the second stage.
        shows_results: whether results leave the first stage for the sink, too.
    """

    group: GroupPlan
    equals: Mapping[str, str]
    present: frozenset[str]
    reporters: int
    buckets: Buckets
    shows_results: bool

    @classmethod
    def of(cls, pipeline: Pipeline, reporters: int, buckets: Buckets) -> Self | None:
        """Make the plan of a pipeline's second stage; `None` if it has none.

        Args:
            pipeline: the pipeline.
            reporters: the number of buckets of the first stage.
            buckets: the buckets of the second stage.
        """
        if pipeline.aggregate is None or not pipeline.regroups:
            return None
        types, keys = pipeline.group_columns(), []
        equals: dict[str, str] = {}
        for name, reference in pipeline.group_key.items():
            sources = _sources(pipeline, name, reference)
            keys.append(KeyColumn(name, types[name].arrow, sources, nullable=True))
            if len(sources) == 1:
                equals |= dict.fromkeys(_equal_columns(pipeline, sources[0]), name)
        return cls(
            grouped_by(pipeline, pipeline.aggregate, keys),
            equals,
            frozenset(f"{stream}_{name}" for stream in pipeline.present for name in pipeline.key),
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
        """Add what the second stage needs to the output of a bucket of the first stage.

        The first stage puts out results as record batches. They are packed here.

        Args:
            label: the label of the bucket. What only the sink needs passes through the second stage under
                this label, so it stays in its partition.
            output: the output of the bucket.

        Yields:
            Packed rows: the label of a bucket of the second stage, the channel and the blob.
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
                report = self._narrowed(json.loads(blob))
            yield label, channel, blob
        # Each bucket sends its report even if it is empty, so that silence is not taken for a statement.
        written = json.dumps(report).encode()
        for bucket in self.buckets.labels:
            yield bucket, channels.REPORT, written

    def _narrowed(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Return the statements of a report about patterns that can close a group."""
        return {
            "released": {text: by for text, by in report["released"].items() if self.closing(text)},
            "waiting": [text for text in report["waiting"] if self.closing(text)],
        }

    def closing(self, text: str) -> Punctuation | None:
        """Return the groups that a pattern closes, by columns of the group key.

        Args:
            text: a pattern in JSON, over columns of results.

        Returns:
            A punctuation without patterns matches every group. `None` if the pattern closes no group.
        """
        patterns = {
            name: pattern
            for name, pattern in json.loads(text).items()
            if not (name in self.present and pattern == ALL_VALUES)
        }
        if not patterns.keys() <= self.equals.keys():
            return None
        restricted = {self.equals[name]: pattern for name, pattern in patterns.items()}
        return Punctuation.read(_GROUPS, restricted, self.domains, pattern_from_json)


def _sources(pipeline: Pipeline, name: str, reference: str) -> tuple[str, ...]:
    """Return the columns of results that a column of the group key is made of."""
    if name not in pipeline.key:
        return (pipeline.result_column(reference),)
    # A column of the join key is that of a row that is there.
    return tuple(f"{stream}_{name}" for stream in pipeline.present[:1] or pipeline.shown)


def _equal_columns(pipeline: Pipeline, column: str) -> list[str]:
    """Return the columns of results that equal a column of results in every result, with itself.

    They are a key column of all streams that have a row in every result.
    """
    for name in pipeline.key:
        same = [f"{stream}_{name}" for stream in pipeline.present]
        if column in same:
            return same
    return [column]
