"""The world of a run: a pipeline, the records of its topics, and how the job is cut up.

Ten seeds share a world: to draw a pipeline and to recompute its tables takes longer than to run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.pipeline.tables import is_latest_role
from endmark.types import JoinType
from simulation.faults import share
from simulation.noise import ELSEWHERE, NOISE, with_noise
from support.cases import examples
from support.graph_records import graph_records
from support.graph_world import graphs, require, valid
from support.promised_sellers import promised_sellers
from support.published_rows import with_published_rows
from support.random_turns import with_turns
from support.sizes import MERGING, Merging
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS
from support.verify_world import Record, make_pipeline
from support.written_tables import laid_out

SEEDS_OF_A_WORLD = 10
_PARTITIONS = st.sampled_from([1, 1, 2, 2, 3])


@dataclass(frozen=True)
class World:
    """The pipeline, records and sizes that the runs of ten seeds share.

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
    # Half of the worlds are auctions. They have few streams, so many of their groups become final. Those of
    # promised sellers have groups by another key, whose buckets do not close them together.
    kind = _graphs() if number % 2 else _promised() if number % 8 == 6 else _auctions()
    drawn = examples(kind, 2, number)
    world = min(drawn, key=_size)
    kinds = [kind for kind in NOISE if share("noise", number, kind) < 0.3]
    if any(map(is_latest_role, world.pipeline.outputs.tables_by_role)):
        kinds = [kind for kind in kinds if kind not in ELSEWHERE]
    records, noise = with_noise(list(world.records), number, kinds)
    return World(**vars(world) | {"records": records, "noise": noise})


def _size(world: World) -> int:
    """About how long a batch takes: each task has costs of its own."""
    pipeline = world.pipeline
    return sum(world.partitions.values()) + world.buckets * (3 * len(pipeline.stages) + len(pipeline.lookups))


@st.composite
def _auctions(draw: st.DrawFn) -> World:
    keys = draw(st.sampled_from(list(KEY_KINDS.values())))
    kind = draw(st.sampled_from([*JoinType, None]))
    pipeline = draw(_waiting(draw(pipelines(kind, keys, parking=True, several=True, gaps=True))))
    partitions = {stream.topic: draw(_PARTITIONS) for stream in pipeline.streams.values()}
    both = {"all.items": 1, "all.bids": 1} | partitions
    return draw(_cut_up(pipeline, partitions, draw(histories(keys, both, pipeline.streams, least=30))))


@st.composite
def _promised(draw: st.DrawFn) -> World:
    kind = draw(st.sampled_from([each for each in JoinType if each is not JoinType.SEMI]))
    by = draw(st.sampled_from(["items.seller_id", "bids.seller_id", "sellers.name"]))
    plain = make_pipeline(
        windows=(None, None), wider=("seller_id",), kind=kind, lookup="items", looking={"miss": "nulls"}
    )
    document: dict[str, Any] = plain.model_dump(by_alias=True)
    document["steps"]["by_key"]["aggregate"] = {"by": [by], "measures": {"rows": "count"}}
    document["tables"]["running"] = {"from": "by_key", "mode": "changes"}
    if draw(st.booleans()):
        document = draw(_rolled_up(document, by))
    partitions = {stream.topic: draw(_PARTITIONS) for stream in plain.streams.values()}
    records = [record for _ in range(3) for record in draw(promised_sellers(partitions))]
    return draw(_cut_up(require(document), partitions, records))


@st.composite
def _rolled_up(draw: st.DrawFn, document: dict[str, Any], by: str) -> dict[str, Any]:
    """The document with groups by the join key beside those by a column, and groups of the final ones.

    Args:
        document: auctions whose groups by a column are the step `by_key`.
        by: this column.
    """
    rows, groups = {"rows": "count"}, {"groups": "count"}
    others = sorted({"items.seller_id", "bids.seller_id", "sellers.name"} - {by})
    columns = [by, draw(st.sampled_from(others))]
    among = st.sampled_from([*(column.replace(".", "_") for column in columns), "rows"])
    steps = document["steps"] | {
        "by_key": {"from": "matched", "aggregate": {"by": columns, "measures": rows}},
        "by_item": {"from": "matched", "aggregate": {"by": "item_id", "measures": rows}},
        "of_others": {"from": "by_key", "aggregate": {"by": draw(among), "measures": groups}},
        "of_items": {"from": "by_item", "aggregate": {"by": "rows", "measures": groups}},
    }
    so_far = {"mode": "upsert"}
    tables = document["tables"] | {"of_others": so_far, "of_items": so_far, "by_item": {}}
    final = tables | {"final_others": {"from": "of_others"}}
    able = [document | {"steps": steps, "tables": written} for written in (final, tables)]
    return next((each for each in able if valid(each) is not None), document)


@st.composite
def _graphs(draw: st.DrawFn) -> World:
    union, timed = draw(st.integers(0, 4)) == 0, draw(st.integers(0, 4)) == 0
    pipeline = unpublished(draw(graphs(union=union, timed=timed)))
    pipeline = draw(_waiting(pipeline))
    if draw(st.integers(0, 3)) == 0:
        pipeline = draw(laid_out(pipeline))
    partitions = {stream.topic: draw(_PARTITIONS) for stream in pipeline.streams.values()}
    return draw(_cut_up(pipeline, partitions, draw(graph_records(pipeline, partitions))))


@st.composite
def _cut_up(
    draw: st.DrawFn, pipeline: Pipeline, partitions: Mapping[str, int], records: list[Record]
) -> World:
    """The world of a pipeline and records, with turns of knobs among them and random sizes."""
    if draw(st.integers(0, 2)) == 0:
        records = draw(with_turns(pipeline, records))
    return World(
        pipeline,
        partitions,
        records,
        buckets=draw(st.sampled_from([1, 2, 2, 3])),
        merging=draw(MERGING),
        full_batch=draw(st.sampled_from([None, 2, 2, 8])),
    )


@st.composite
def _waiting(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline, in which rows of most lookups wait from batch to batch, or are parked."""
    document: dict[str, Any] = pipeline.model_dump(by_alias=True)
    for name, step in document["steps"].items():
        if step.get("lookup") is None or draw(st.integers(0, 2)) == 0:
            continue
        waiting: dict[str, Any] = {"time_per_batch": "0ms"}
        if isinstance(step["lookup"]["miss"], str) and draw(st.booleans()):
            park = {"delay": "1s", "attempts": draw(st.integers(2, 3)), "then": step["lookup"]["miss"]}
            waiting["miss"] = {"park": park}
        changed = {**step, "lookup": {**step["lookup"], **waiting}}
        found = valid({**document, "steps": {**document["steps"], name: changed}})
        if found is not None:
            pipeline, document = found, found.model_dump(by_alias=True)
    return pipeline


def unpublished(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a table in the place of what it publishes."""
    document: dict[str, Any] = with_published_rows(pipeline).model_dump(by_alias=True)
    return require(document | {"publish": {}})
