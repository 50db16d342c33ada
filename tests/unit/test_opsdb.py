"""The ops database: batches that are repeated, amended, or begun anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from endmark.opsdb import OpsDatabase


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    database = OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")
    yield database
    database.close()


def record(ops: OpsDatabase, batch_id: int, rows: float) -> None:
    samples = {"records_total{stream=bids}": rows, "state_rows{operator=join,stream=bids}": rows}
    ops.record_batch("auction", batch_id, "run", samples, {"bids": {"0": batch_id}})


def totals(ops: OpsDatabase) -> dict[str, float]:
    batch = ops.latest_batch("auction")
    assert batch is not None
    return batch.totals


def test_repeated_batch_counts_once(ops: OpsDatabase) -> None:
    """A batch that is run again replaces itself: counters do not grow twice, gauges are the newest."""
    record(ops, 0, 10)
    record(ops, 1, 5)
    record(ops, 1, 7)

    assert totals(ops) == {"records_total{stream=bids}": 17, "state_rows{operator=join,stream=bids}": 7}


def test_new_checkpoint_begins_anew(ops: OpsDatabase) -> None:
    """Batch ids that start at 0 again do not hide behind those of the checkpoint before."""
    for batch_id in range(3):
        record(ops, batch_id, 10)
    record(ops, 0, 1)

    assert [batch.batch_id for batch in ops.batches_after("auction", -1, 10)] == [0]
    assert totals(ops)["records_total{stream=bids}"] == 1


def test_duration_is_added_after_the_commit(ops: OpsDatabase) -> None:
    """What is known only later joins its batch, and a batch that is gone is no error."""
    record(ops, 0, 10)
    ops.amend_batch("auction", 0, {"batch_seconds{phase=total}": 1.5})
    ops.amend_batch("auction", 9, {"batch_seconds{phase=total}": 1.5})

    assert totals(ops)["batch_seconds{phase=total}"] == 1.5
    assert totals(ops)["records_total{stream=bids}"] == 10


def test_runs_of_other_pipelines_stay_apart(ops: OpsDatabase) -> None:
    """The latest run is the pipeline's own."""
    ops.start_run("mine", "auction")
    ops.start_run("other", "orders")
    ops.set_run_state("mine", "failed", "the cause")

    run = ops.latest_run("auction")
    assert run is not None
    assert (run["run_id"], run["state"], run["error"]) == ("mine", "failed", "the cause")
    assert ops.latest_run("none") is None
