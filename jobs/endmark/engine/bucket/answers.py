"""The answers of a bucket to questions of what keeps a key open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.operators.stream_join.key_facts import key_facts
from endmark.operators.stream_join.presets import Propagation
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.scalars import from_scalar
from endmark.state.keys import bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from endmark.domain import Value
    from endmark.engine.bucket.lookups import Lookups
    from endmark.engine.bucket.plan import BucketPlan
    from endmark.engine.groups.bucket_groups import BucketGroups
    from endmark.expressions.derived_times import TimeBound
    from endmark.operators.stream_join.segment_join import SegmentJoin
    from endmark.state.keys import Keys


def answers(
    blobs: Iterable[bytes],
    plan: BucketPlan,
    join: SegmentJoin,
    lookups: Lookups,
    groups: Sequence[BucketGroups],
) -> Iterator[dict[str, Any]]:
    """Yield the answers to the questions of a batch that are about a key of this bucket, ready for JSON.

    Call it when the batch is over.

    Args:
        blobs: the questions.
        plan: the plan of the bucket.
        join: its join.
        lookups: its lookups.
        groups: the groups by the key. All of these aggregates have a group of the same keys.
    """
    for question in map(json.loads, blobs):
        keys = _keys(plan, join, question["key"])
        if keys is None or bucket_of(keys.codes, plan.buckets)[0] != question["bucket"]:
            continue
        facts = key_facts(join.sides, keys, purges=plan.policy.purge_every is not None)
        for each in facts:
            topics = {read.name: read.topic for read in plan.stream(each["stream"]).read}
            for member in each["members"]:
                member["topic"] = topics[member["stream"]]
            each["held_rows"] = lookups.held_rows(each["stream"])
        first = next(iter(groups), None)
        times = {} if first is None or not first.plan.by_time else _derived_times(plan, join, question["key"])
        past = any(bound.pattern.matches(value) for value, bound in times.values())
        group = None if first is None else bool(first.open.groups.contains(keys)[0])
        yield {
            "partition": question["partition"],
            "offset": question["offset"],
            "step": plan.step.removeprefix("steps.") if len(facts) > 1 else facts[0]["stream"],
            "final": past or (plan.policy.propagate is not Propagation.NEVER and bool(join.final(keys)[0])),
            "announces": plan.policy.propagate.value,
            "group": group,
            "times": list(times),
            "streams": facts,
        }


def _derived_times(
    plan: BucketPlan, join: SegmentJoin, key: Mapping[str, Any]
) -> dict[str, tuple[Value, TimeBound]]:
    """Return the columns of a group key that are derived times, each with its value and the present bound."""
    (stream, *_), bounds = plan.streams, join.times()
    columns = dict(zip(plan.key, stream.side.key.columns, strict=True))
    return {
        name: (from_scalar(key[name], bounds[column].domain), bounds[column])
        for name, column in columns.items()
        if column in bounds
    }


def _keys(plan: BucketPlan, join: SegmentJoin, key: Mapping[str, Any]) -> Keys | None:
    """Return the key that a question asks for; `None` if this stage has another key."""
    spec, columns = join.sides[0].spec, plan.key
    if set(columns) != key.keys():
        return None
    kinds = [spec.schema.field(name).type for name in spec.key.columns]
    values = [
        pa.array([from_scalar(key[name], domain_of_type(kind))], kind)
        for name, kind in zip(columns, kinds, strict=True)
    ]
    return join.key.keys(join.key.coded(pa.record_batch(values, names=list(join.key.columns))))
