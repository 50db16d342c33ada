"""Pipelines whose streams forget closed keys, and records that keep what these streams promise."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta

from endmark.pipeline import Pipeline
from endmark.verify.judge.forgotten_keys import check_forgotten
from support.verify_recompute import recomputed
from support.verify_world import Record, locate


def forgetting(pipeline: Pipeline) -> Pipeline | None:
    """The pipeline, whose streams forget closed keys as soon as they may; `None` if none may."""
    document = pipeline.model_dump(by_alias=True)
    forgets = False
    for name in filter(pipeline.streams.__contains__, pipeline.sides):
        changed = deepcopy(document)
        changed["streams"][name]["forget_keys_after"] = pipeline.window_of(name) or timedelta(0)
        try:
            Pipeline.model_validate(changed)
        except ValueError:
            continue
        document, forgets = changed, True
    return Pipeline.model_validate(document) if forgets else None


def without_forgotten_keys(
    pipeline: Pipeline, records: list[Record], partitions: Mapping[str, int]
) -> list[Record]:
    """The records, in which unreadable ones stand for rows that use a key again long after its closing."""
    while again := _used_again(pipeline, records, partitions):
        records = [
            replace(record, value=b"{") if place[:3] in again else record
            for record, place in zip(records, locate(records), strict=True)
        ]
    return records


def _used_again(
    pipeline: Pipeline, records: list[Record], partitions: Mapping[str, int]
) -> set[tuple[str, int, int]]:
    """The places of some rows that use a key again, none if there are none."""
    topics = {declared.topic for declared in pipeline.streams.values()}
    with recomputed(pipeline, records, None, partitions) as session:
        return {
            (topic, row["partition"], row["offset"])
            for breach in check_forgotten(session, pipeline)
            for topic in topics
            if f"topic {topic}:" in breach.rule
            for row in breach.examples
        }
