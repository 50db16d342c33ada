"""Batches that are repeated, amended, or begun anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from endmark.control.ops_database.database import OpsDatabase, offsets_read
from endmark.errors import ConfigError


def record(ops: OpsDatabase, batch_id: int, rows: float, run: str = "run") -> None:
    samples = {"records_total{stream=bids}": rows, "state_rows{operator=join,stream=bids}": rows}
    ops.batches.record("auction", batch_id, run, samples, {"bids": {"0": batch_id}})


def totals(ops: OpsDatabase) -> dict[str, float]:
    batch = ops.batches.latest("auction")
    assert batch is not None
    return batch.totals


def test_repeated_batch_counts_once(ops: OpsDatabase) -> None:
    """A batch that is run again keeps its first figures, so no counter grows twice or goes backwards."""
    ops.runs.start("run", "auction", "app", "/checkpoint")
    record(ops, 0, 10)
    record(ops, 1, 5)
    ops.runs.set_state("run", "failed")
    ops.runs.start("next", "auction", "app", "/checkpoint")
    record(ops, 1, 3, run="next")

    repeated = ops.batches.latest("auction")
    assert repeated is not None
    assert repeated.run_id == "next"
    assert totals(ops) == {"records_total{stream=bids}": 15, "state_rows{operator=join,stream=bids}": 5}

    record(ops, 2, 1, run="next")
    ops.runs.set_state("next", "failed")
    ops.runs.start("other", "auction", "another checkpoint", "/other")
    record(ops, 1, 3, run="other")

    assert totals(ops) == {"records_total{stream=bids}": 13, "state_rows{operator=join,stream=bids}": 3}


def test_new_checkpoint_begins_anew(ops: OpsDatabase) -> None:
    """Batch ids that start at 0 again do not hide behind those of the checkpoint before."""
    for batch_id in range(3):
        record(ops, batch_id, 10)
    record(ops, 0, 1)

    assert [batch.batch_id for batch in ops.batches.after("auction", -1, 10)] == [0]
    assert totals(ops)["records_total{stream=bids}"] == 1


def test_a_batch_goes_on_where_the_one_before_it_ended(ops: OpsDatabase) -> None:
    """One that is repeated, or that a new checkpoint begins with, knows nothing of batches beyond it."""
    for batch_id in range(3):
        record(ops, batch_id, 10)

    ends = [ops.batches.offsets_before("auction", batch_id) for batch_id in range(4)]
    assert ends == [{}, {"bids": {"0": 0}}, {"bids": {"0": 1}}, {"bids": {"0": 2}}]
    assert ops.batches.offsets_before("orders", 3) == {}


def test_duration_is_added_after_the_commit(ops: OpsDatabase) -> None:
    """Figures that are known only later join their batch. A batch that is gone is no error."""
    record(ops, 0, 10)
    ops.batches.amend("auction", 0, {"batch_seconds{phase=total}": 1.5}, {"items": {"0": 4, "1": 0}})
    ops.batches.amend("auction", 9, {"batch_seconds{phase=total}": 1.5}, {})

    assert totals(ops)["batch_seconds{phase=total}"] == 1.5
    assert ops.batches.offsets_before("auction", 1) == {"bids": {"0": 0}, "items": {"0": 4, "1": 0}}
    assert totals(ops)["records_total{stream=bids}"] == 10


def test_what_was_read_until(tmp_path: Path) -> None:
    """`verify --until-read` counts no more than the last batch had read; without a batch it is refused."""
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as ops:
        with pytest.raises(ConfigError, match="no batch of auction"):
            offsets_read(url, "auction")
        record(ops, 0, 10)
        record(ops, 1, 10)

    assert offsets_read(url, "auction") == {"bids": {0: 1}}
    with pytest.raises(ConfigError, match="give --ops-url"):
        offsets_read("", "auction")


def test_batches_of_many_jobs_are_stored_at_once(server_ops: OpsDatabase) -> None:
    """MySQL gave up one of two transactions that waited for each other, and that job stopped."""
    together = Barrier(4)

    def run(number: int) -> None:
        name = f"pipeline-{number}"
        together.wait()
        for batch in range(40):
            server_ops.batches.record(
                name, batch, f"run-{number}", {"records_total": 1.0}, {"t": {"0": batch}}
            )
            turn = {"partition": 0, "offset": batch, "set_at": 1.0, "by": "ann", "name": "batch.records"}
            server_ops.turns.record(name, batch, [{**turn, "value": 9, "refused": None, "why": None}], {})
            server_ops.answers.record(name, batch, [{"partition": 0, "offset": batch}])

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(run, number) for number in range(4)]:
            done.result()
    for number in range(4):
        batch = server_ops.batches.latest(f"pipeline-{number}")
        assert batch is not None
        assert batch.totals == {"records_total": 40}
