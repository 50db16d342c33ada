"""The sink writes a batch to the ops database, and refuses some batches; no Spark runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.runs import TakenError
from endmark.driver.pace import Pace
from endmark.driver.quarantine import Quarantine
from endmark.engine import channels
from endmark.errors import PartitionError
from endmark.kafka.gaps import Gap
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.spark.sink import JobRun, Sink

Offsets = dict[str, dict[str, int]]
LOG: list[str] = []


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        yield database


def run(
    ops: OpsDatabase,
    monkeypatch: pytest.MonkeyPatch,
    batch_id: int,
    read: Offsets,
    gaps: tuple[Gap, ...] = (),
) -> Offsets:
    """One batch that has read so far; the offsets that the ops database has then."""
    metrics = [{"samples": {}, "offsets": read}]
    told = {channels.METRICS: metrics, channels.PATTERNS: [], channels.FILES: []}
    monkeypatch.setattr(Sink, "_run", lambda *_: told)
    pipeline = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite:///r.db"})
    pace = Pace(pipeline, [], fixed=False)
    started = JobRun("app", "run", [], {}, ops, {"items": 2, "bids": 2}, LOG.append, gaps)
    Sink(pipeline, started, MagicMock(), pace, Quarantine(pipeline))(MagicMock(), batch_id)
    batch = ops.batches.latest("auction")
    assert batch is not None
    return batch.offsets


def test_a_partition_without_records_is_where_it_was(
    ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(ops, monkeypatch, 0, {"bids": {"0": 3}}) == {"bids": {"0": 3}}
    assert run(ops, monkeypatch, 1, {"bids": {"1": 2}}) == {"bids": {"0": 3, "1": 2}}
    assert run(ops, monkeypatch, 1, {"bids": {"1": 2}}) == {"bids": {"0": 3, "1": 2}}


def test_a_new_checkpoint_knows_nothing_of_other_topics(
    ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline that is reset may read others; those of before are no news of partitions."""
    ops.batches.record("auction", 7, "before", {}, {"offers": {"0": 9}, "bids": {"1": 9}})
    assert run(ops, monkeypatch, 0, {"bids": {"0": 3}}) == {"bids": {"0": 3}}


def test_a_job_whose_place_is_taken_commits_nothing(
    ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later run on the checkpoint of its own has begun while it was paused."""
    ops.runs.start("run", "auction", "app", "s3://shop/checkpoint", locked=False)
    assert run(ops, monkeypatch, 0, {"bids": {"0": 3}}) == {"bids": {"0": 3}}
    ops.runs.set_state("run", "stopped")
    ops.runs.start("later", "auction", "app", "s3://shop/checkpoint", locked=False)

    with pytest.raises(TakenError, match="this one writes nothing more"):
        run(ops, monkeypatch, 1, {"bids": {"0": 7}})
    assert ops.batches.offsets_before("auction", 2) == {"bids": {"0": 3}}


def test_a_partition_that_was_not_counted_stops_its_batch(
    ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PartitionError, match="topic bids has got partition 2 since the query started"):
        run(ops, monkeypatch, 0, {"bids": {"0": 3, "2": 1}})
    assert ops.batches.latest("auction") is None


def test_offsets_move_past_gaps(ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """No task reports a gap. Without it, records that Kafka dropped would wait for ever."""
    gaps = (Gap("bids", 0, 3, 8), Gap("items", 1, 0, 4))
    assert run(ops, monkeypatch, 0, {"bids": {"0": 3}}) == {"bids": {"0": 3}}
    assert run(ops, monkeypatch, 1, {}, gaps) == {"bids": {"0": 8}, "items": {"1": 4}}
    assert run(ops, monkeypatch, 2, {"bids": {"0": 9}}, gaps) == {"bids": {"0": 9}, "items": {"1": 4}}
