"""The ops database: batches that are repeated, amended, or begun anew."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy as sa

from endmark.errors import ConfigError
from endmark.ops import forecasts
from endmark.ops.database import OpsDatabase, offsets_read
from endmark.ops.tables import META
from support.ops_job import forecast_of


@pytest.fixture(params=["sqlite", "mariadb"])
def ops(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpsDatabase]:
    on_server = request.param == "mariadb"
    url = request.getfixturevalue("mariadb").url if on_server else f"sqlite:///{tmp_path / 'ops.db'}"
    database = OpsDatabase(url)
    yield database
    if on_server:
        META.drop_all(database.engine)
    database.close()


def record(ops: OpsDatabase, batch_id: int, rows: float) -> None:
    samples = {"records_total{stream=bids}": rows, "state_rows{operator=join,stream=bids}": rows}
    ops.record_batch("auction", batch_id, "run", samples, {"bids": {"0": batch_id}})


def totals(ops: OpsDatabase) -> dict[str, float]:
    batch = ops.latest_batch("auction")
    assert batch is not None
    return batch.totals


def test_a_forecast_takes_the_place_of_the_one_before(ops: OpsDatabase) -> None:
    for forecast in (forecast_of("sellers", fastest=1.0), newest := forecast_of("sellers")):
        forecasts.tell(ops, "auction", forecast)

    assert forecasts.told(ops, "auction") == [newest]


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


def test_a_batch_goes_on_where_the_one_before_it_ended(ops: OpsDatabase) -> None:
    """One that is repeated, or that a new checkpoint begins with, knows nothing of batches beyond it."""
    for batch_id in range(3):
        record(ops, batch_id, 10)

    ends = [ops.offsets_before("auction", batch_id) for batch_id in range(4)]
    assert ends == [{}, {"bids": {"0": 0}}, {"bids": {"0": 1}}, {"bids": {"0": 2}}]
    assert ops.offsets_before("orders", 3) == {}


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


def test_a_database_of_an_earlier_version_learns_why_knobs_are_turned(tmp_path: Path) -> None:
    """What it has stays."""
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    turn = {"partition": 0, "offset": 1, "set_at": 7.0, "by": "Ann", "name": "join.memory", "value": 9}
    with closing(OpsDatabase(url)) as ops:
        ops.record_turns("auction", 3, [turn], {})
        with ops.engine.begin() as connection:
            connection.execute(sa.text("ALTER TABLE turns DROP COLUMN why"))
    with closing(OpsDatabase(url)) as ops:
        ops.record_turns("auction", 4, [turn | {"offset": 2, "why": "it is cheaper"}], {})
        assert [(each["before"], each["why"]) for each in ops.turns("auction")] == [
            (None, None),
            (9, "it is cheaper"),
        ]


def _open_by_many(url: str) -> None:
    together = Barrier(8)

    def opened() -> None:
        together.wait()
        with closing(OpsDatabase(url)) as database:
            assert database.turns("auction") == []

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(opened) for _ in range(8)]:
            done.result()


def test_a_database_may_be_opened_for_the_first_time_by_many_at_once(tmp_path: Path) -> None:
    """The job, the sidecar and whoever looks on start together; the second time after an upgrade."""
    for attempt in range(5):
        url = f"sqlite:///{tmp_path / f'ops-{attempt}.db'}"
        _open_by_many(url)
        with closing(OpsDatabase(url)) as ops, ops.engine.begin() as connection:
            connection.execute(sa.text("ALTER TABLE turns DROP COLUMN why"))
        _open_by_many(url)
