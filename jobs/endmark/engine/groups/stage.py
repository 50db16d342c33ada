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
from endmark.engine.streams import GroupPlan, measure_specs, result_column
from endmark.operators.group_by.group_by import KeyColumn, group_inputs, group_key
from endmark.operators.stream_join.announce import ALL_VALUES
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.wire_json import pattern_from_json
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from endmark.domain import Domain
    from endmark.engine.channels import Buckets
    from endmark.pipeline import Aggregate, Pipeline

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
    shows_results: bool = True

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        aggregate: Aggregate,
        reporters: int,
        buckets: Buckets,
    ) -> Self:
        """Make the plan of a pipeline's second stage.

        Args:
            pipeline: the pipeline.
            aggregate: the aggregate, by another key than the join's.
            reporters: the number of buckets of the first stage.
            buckets: the buckets of the second stage.
        """
        present, keys = _present(pipeline), []
        equals: dict[str, str] = {}
        for reference in aggregate.by:
            name, sources = _column(pipeline, reference, present)
            kind = pipeline.type_of(reference) if "." in reference else pipeline.key_types[reference]
            keys.append(KeyColumn(name, kind.arrow, sources, nullable=True))
            if len(sources) == 1:
                equals |= dict.fromkeys(_equal_columns(pipeline, sources[0], present), name)
        columns = [*(key.name for key in keys), *aggregate.measures]
        return cls(
            GroupPlan(keys, measure_specs(pipeline, aggregate), columns, aggregate.running),
            equals,
            frozenset(f"{stream}_{name}" for stream in present for name in pipeline.key),
            reporters,
            buckets,
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


def _present(pipeline: Pipeline) -> list[str]:
    """Return the streams that have a row in every result, in the order of sides."""
    if pipeline.join is None:
        return list(pipeline.sides)
    first, *others = pipeline.sides
    absent = {first} if pipeline.join.type.keeps_right else set()
    absent |= set(others) if pipeline.join.type.keeps_left else set()
    return [stream for stream in pipeline.shown if stream not in absent]


def _column(pipeline: Pipeline, reference: str, present: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a column of the group key, and the columns of results that it is made of."""
    if "." in reference:
        column = result_column(pipeline, reference)
        return column, (column,)
    # A column of the join key is that of the row that is there.
    return reference, tuple(f"{stream}_{reference}" for stream in present[:1] or pipeline.shown)


def _equal_columns(pipeline: Pipeline, column: str, present: Sequence[str]) -> list[str]:
    """Return the columns of results that equal a column of results in every result, with itself.

    They are the key columns of all streams if each of these has a row in every result.
    """
    for name in pipeline.key:
        same = [f"{stream}_{name}" for stream in present]
        if column in same:
            return same
    return [column]
