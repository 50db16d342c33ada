"""The world of a run: a pipeline, the records of its topics, and how the job is cut up.

Ten seeds share a world, since it takes longer to draw a pipeline and to recompute its tables than to run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from simulation.faults import share
from simulation.noise import NOISE, with_noise
from support.cases import examples
from support.graph_records import graph_records
from support.graph_world import graphs, require, with_published_rows
from support.random_turns import with_turns
from support.sizes import BUCKETS, MERGING, PARTITIONS, Merging
from support.verify_world import Record
from support.written_tables import laid_out

SEEDS_OF_A_WORLD = 10


@dataclass(frozen=True)
class World:
    """What the runs of some seeds have in common.

    Args:
        pipeline: the pipeline. It publishes nothing, since Kafka gets a batch more than once.
        partitions: the partitions of each topic of a stream.
        records: the records in the order in which they were sent. Their partitions arrive one by one.
        buckets: the buckets of each stage.
        merging: the sizes at which segments merge.
        full_batch: a batch of fewer records is a pause.
        noise: what is wrong with the records, counted by its kind.
    """

    pipeline: Pipeline
    partitions: Mapping[str, int]
    records: list[Record]
    buckets: int = 2
    merging: Merging = field(default_factory=lambda: Merging(4, 1 << 19))
    full_batch: int | None = None
    noise: Mapping[str, int] = field(default_factory=dict)


@lru_cache(maxsize=2)
def world_of(number: int) -> World:
    """Draw a world, given its number."""
    (world,) = examples(_worlds(), 1, number)
    kinds = [kind for kind in NOISE if share("noise", number, kind) < 0.3]
    records, noise = with_noise(list(world.records), number, kinds)
    return World(**vars(world) | {"records": records, "noise": noise})


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    pipeline = unpublished(draw(graphs(union=draw(st.integers(0, 4)) == 0)))
    if draw(st.integers(0, 3)) == 0:
        pipeline = draw(laid_out(pipeline))
    partitions = {stream.topic: draw(PARTITIONS) for stream in pipeline.streams.values()}
    records = draw(graph_records(pipeline, partitions))
    if draw(st.integers(0, 2)) == 0:
        records = draw(with_turns(pipeline, records))
    return World(
        pipeline,
        partitions,
        records,
        buckets=draw(BUCKETS),
        merging=draw(MERGING),
        full_batch=draw(st.sampled_from([None, 2, 8])),
    )


def unpublished(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a table in the place of what it publishes."""
    document: dict[str, Any] = with_published_rows(pipeline).model_dump(by_alias=True)
    return require(document | {"publish": {}})
