"""Knobs turned at random among the records: tables stay those of the records, and the audit is one order."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.tuning.knobs import filed, steps_of
from endmark.engine.snapshot_parts import decode_parts
from endmark.operators.stream_join.presets import PRESETS
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.wire.control import PULSE, Turn
from support.bucket_tasks import BucketTasks, Located, total
from support.cases import cases
from support.random_turns import VALUES, turns, with_turns
from support.sizes import BUCKETS, SIZES
from support.verify_histories import broken_histories, histories, pipelines, stamped
from support.verify_keys import LONG
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, Record, bid, item, locate, make_pipeline

CONTROL = "small-control"
PASSING = [preset for preset, able in PRESETS.items() if able.window]  # by which idle partitions matter


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(2, among=60)
@given(data=st.data())
def test_no_result_depends_on_what_is_live(kind: JoinType | None, idle: bool, data: st.DataObject) -> None:
    """`verify` reads turns from the control topic alone, and has no clock."""
    preset = data.draw(st.sampled_from(PASSING)) if idle else None
    pipeline = data.draw(pipelines(kind, LONG, chosen=preset, idle=idle, several=True))
    sizes = data.draw(SIZES)
    history = (broken_histories if idle else histories)(LONG, sizes.partitions, pipeline.streams)
    records = data.draw(with_turns(pipeline, data.draw(history), least=1))
    size = data.draw(st.integers(1, 8))
    full = data.draw(st.sampled_from([None, 1, size]))
    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        tasks = BucketTasks(
            pipeline,
            sellers_of(pipeline),
            sizes.partitions,
            Path(directory),
            full_batch=full,
            others=OTHERS,
            buckets=sizes.buckets,
        )
        located = locate(records)
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        found = total(tasks.batch(batch) for batch in [*batches, [], []])  # the last ones are pauses

    event(f"overtaken: {any(row['reason'] == 'idle' for row in found.get('violations', []))}")
    with recomputed(pipeline, records, found, sizes.partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize(
    ("stream", "place", "overtaken"), [("bids", 3, ["idle"]), ("bids", 1, []), ("items", 1, ["idle"])]
)
def test_more_time_counts_from_then_on(stream: str, place: int, overtaken: list[str], tmp_path: Path) -> None:
    """For the stream it was turned of; progress that was made without a partition is not taken back."""
    pipeline = make_pipeline(kind=JoinType.LEFT, windows=(2, 2), idle=(10, 10))
    records = stamped((item(1, 21), 0), (bid(0, 50), 0), (bid(0, 60), 11), (bid(1, 20), 12))
    turn = Turn(f"streams.{stream}.event_time.idle", "1h", "Ann").written()
    records.insert(place, Record(CONTROL, 0, turn))
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)

    found = total(tasks.batch([each]) for each in locate(records))

    assert [row["reason"] for row in found.get("violations", [])] == overtaken
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


class Shuffled(BucketTasks):
    """In which what the buckets get is in another order, as a shuffle has it; no task has two records."""

    def pack(self, records: Sequence[Located]) -> list[dict[str, Any]]:
        packed = [row for record in records for row in super(Shuffled, self).pack([record])]
        return packed[::-1]

    def held(self) -> list[dict[str, Any]]:
        """Return the knobs that each bucket holds."""
        return [json.loads(decode_parts(each)["knobs"] or b"{}") for each in self.snapshots]


def whole() -> Pipeline:
    """With every knob there is."""
    looking = {"cache": {}, "time_per_batch": "1s"}
    return make_pipeline(looking=looking, idle=(5, 5), join={"memory": "1MB"})


@cases(13)
@given(data=st.data(), buckets=BUCKETS)
def test_the_audit_is_one_order(data: st.DataObject, buckets: int) -> None:
    """By the offsets of the control topic: each turn once, though a batch is repeated, from what the one
    before has left; all buckets hold the last one. What is no turn is refused, and changes nothing."""
    pipeline = whole()
    wanted = data.draw(st.lists(st.one_of(turns(pipeline), st.just(Record(CONTROL, 0, PULSE))), max_size=20))
    located = locate(wanted)
    size = data.draw(st.integers(1, 6))
    held = filed(steps_of(pipeline))
    expected, told = [], {}
    for _, _, offset, value, *_ in located:
        if value == PULSE:
            continue
        ((name, to),) = json.loads(value or b"")["set"].items()
        meant = [means for spelled, means in VALUES.get(name.rpartition(".")[2], []) if spelled == to]
        good = name in held and meant != []
        expected.append((offset, name, held.get(name), *(meant if good else [to]), good, offset // size))
        if good:
            held[name] = told[name] = meant[0]
    with tempfile.TemporaryDirectory() as directory:
        tasks = Shuffled(pipeline, sellers_of(pipeline), PARTITIONS, Path(directory), buckets=buckets)
        with closing(OpsDatabase(f"sqlite:///{directory}/ops.db")) as ops:
            for number, at in enumerate(range(0, len(located), size)):
                tasks.batch(located[at : at + size])
                heard = [turn for report in tasks.reports for turn in report.get("turns", [])]
                for _ in range(data.draw(st.integers(1, 2))):
                    ops.turns.record("small", number, heard, filed(steps_of(pipeline)))
            found = list(ops.turns.of("small"))
        assert tasks.held() == [told] * buckets

    assert [
        (
            turn["offset"],
            turn["name"],
            turn["before"],
            turn["value"],
            turn["refused"] is None,
            turn["batch_id"],
        )
        for turn in found
    ] == expected
