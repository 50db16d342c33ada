"""Groups by a derived time, batch by batch, against the recomputation of `verify`.

A group is final once progress is beyond its time and no older row of its stream waits for a partner.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks
from support.cases import cases
from support.graph_runs import require_same
from support.graph_world import require
from support.random_turns import with_turns
from support.sizes import BUCKETS, MERGING, PARTITIONS
from support.verify_histories import histories, pipelines
from support.verify_keys import LONG
from support.verify_recompute import sellers_of
from support.verify_steps import TICK, with_steps
from support.verify_world import EPOCH, TWO_EACH, bid, close, heartbeat, item, locate, make_pipeline

EARLY = [Preset.AUTO, Preset.AUTO, Preset.PWJOIN]


def timed(pipeline: Pipeline, by: list[str], **more: Any) -> dict[str, Any]:
    """The document of a pipeline with a derived time `tick` on each stream, and groups by some columns.

    Args:
        pipeline: a pipeline of items and bids, or of one of them.
        by: the columns.
        more: further steps.
    """
    steps = {
        f"timed_{name}": {"from": name, "derive": {"tick": TICK.replace("$time", stream.event_time.column)}}
        for name, stream in pipeline.streams.items()
    }
    document: dict[str, Any] = with_steps(pipeline, steps).model_dump(by_alias=True)
    results = f"timed_{pipeline.flow.results}"
    results = results if results in document["steps"] else pipeline.flow.results
    for step in pipeline.flow.groups:
        document["steps"].pop(step)
    document["steps"]["by_time"] = {"from": results, "aggregate": {"by": by, "measures": {"rows": "count"}}}
    document["steps"] |= more
    document["tables"] = {"groups": {"from": "by_time"}, "running": {"from": "by_time", "mode": "changes"}}
    document["tables"] |= {name: {} for name in more}
    return document | {"unbounded_state": "allow"}


@st.composite
def grouped(draw: st.DrawFn, kind: JoinType | None) -> Pipeline:
    """A pipeline with groups by a derived time and perhaps another column, and perhaps groups of these."""
    idle = draw(st.integers(0, 3)) == 0
    pipeline = draw(pipelines(kind, LONG, chosen=draw(st.sampled_from(EARLY)), idle=idle, parking=True))
    able = [f"{stream}.tick" for stream in pipeline.shown]
    others = [f"{stream}.seller_id" for stream in pipeline.shown]
    if "sellers" in pipeline.relations and pipeline.stream_of("sellers") in pipeline.shown:
        others.append("sellers.name")
    by = [draw(st.sampled_from(able)), *draw(st.lists(st.sampled_from([*able, *others]), max_size=1))]
    by = list(dict.fromkeys(by))
    more: dict[str, Any] = {}
    if len(by) == 2 and draw(st.booleans()):
        tick = next(iter(require(timed(pipeline, by)).groups[0].references))
        more = {
            "rolled_up": {"from": "by_time", "aggregate": {"by": [tick], "measures": {"groups": "count"}}}
        }
    return require(timed(pipeline, by, **more))


def hold(data: st.DataObject, kind: JoinType | None) -> None:
    pipeline = data.draw(grouped(kind))
    partitions = {"all.items": data.draw(PARTITIONS), "all.bids": data.draw(PARTITIONS)}
    records = data.draw(histories(LONG, partitions, pipeline.streams, least=20))
    if data.draw(st.integers(0, 3)) == 0:
        records = data.draw(with_turns(pipeline, records))
    cuts = data.draw(st.sets(st.integers(0, len(records)), max_size=6))
    sizes: dict[str, Any] = {"buckets": data.draw(BUCKETS), "group_buckets": data.draw(BUCKETS)}
    topics = {stream.topic: partitions[stream.topic] for stream in pipeline.streams.values()}
    with data.draw(MERGING).limits():
        found = require_same(
            pipeline, records, cuts, topics, full_batch=data.draw(st.sampled_from([None, 8])), **sizes
        )
    for groups in pipeline.all_groups:
        event(f"{groups.step}: {bool(found.get(groups.final_role))}")


@cases(6)
@given(data=st.data())
def test_groups_of_a_stream_alone(data: st.DataObject) -> None:
    hold(data, None)


@cases(6)
@given(data=st.data(), kind=st.sampled_from(JoinType))
def test_groups_of_a_join(data: st.DataObject, kind: JoinType) -> None:
    hold(data, kind)


def test_rows_that_wait_to_be_purged_hold_back_no_group(tmp_path: Path) -> None:
    """A batch that is no pause leaves them in state, though their key is closed."""
    joined = make_pipeline(windows=(None, None), lookup="items", join={"purge_every": 100})
    pipeline = Pipeline.model_validate(timed(joined, ["items.tick"]))
    tasks = BucketTasks(pipeline, sellers_of(pipeline), TWO_EACH, tmp_path)

    tasks.batch(locate([item(0, 0), bid(0, 1)]))

    later = [close("bids", 0), *(heartbeat("items", 9, home) for home in range(2)), bid(2, 2)]
    found = tasks.batch(locate([item(0, 0), bid(0, 1), *later])[2:])

    assert [(row["items_tick"], row["rows"]) for row in found["groups"]] == [(EPOCH, 1)]
