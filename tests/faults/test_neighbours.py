"""Jobs that meet what belongs to another job: its tables, its checkpoint, its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.errors import MissingPartError
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.auction_records import bid, item, over, send
from support.commands import endmark
from support.warehouse import Warehouse, errors, wait_for


def warehouse_in(directory: Path, broker: Broker) -> Warehouse:
    create_topics(broker.bootstrap, {"items": 1, "bids": 1})
    return Warehouse(
        directory, broker, f"sqlite:///{directory / 'relation.db'}", FeedOptions(seed=5, sellers=20)
    )


def sell(broker: Broker, *numbers: int) -> None:
    """Items that each have one bid, and are over."""
    send(broker, "items", *map(item, numbers), *map(over, numbers))
    send(broker, "bids", *(bid(number, 1) for number in numbers), *map(over, numbers))


def refusal(job: ManagedProcess) -> str:
    """Why a job does not start."""
    with pytest.raises(MissingPartError, match="failed with code 2"):
        job.wait_done(300)
    (said,) = errors(job)
    return str(said)


def state(warehouse: Warehouse) -> str:
    """Return the state that the latest run has stored."""
    found = json.loads(endmark("status", "auction", f"--ops-url={warehouse.ops_url}", "--json").stdout)
    return str(found["run"]["state"])


def test_a_mistyped_warehouse_loses_nothing(tmp_path: Path) -> None:
    """A job whose tables are missing, or are of another job, ends before it reads a record; the right
    warehouse then gets all of them, also after it has moved."""
    with Broker(tmp_path / "broker") as broker:
        warehouse = warehouse_in(tmp_path, broker)
        sell(broker, 1)
        warehouse.run_to_the_end()
        sell(broker, 2)
        typo, settings = tmp_path / "typo", tmp_path / "checkpoint" / "endmark" / "settings.json"
        before, more = settings.read_bytes(), "--set=streams.bids.columns.note=string?"
        said = refusal(warehouse.start_job("--available-now", f"--warehouse={typo}", more))
        assert said.startswith(f"table {typo / 'results'} is missing, but checkpoint")
        assert str(tmp_path / "warehouse" / "results") in said
        assert not typo.exists()
        assert settings.read_bytes() == before, "the file without the column could not go on"

        (tmp_path / "warehouse").rename(tmp_path / "moved")
        warehouse.start_job("--available-now", f"--warehouse={tmp_path / 'moved'}").wait_done(300)
        (tmp_path / "moved").rename(tmp_path / "warehouse")
        assert warehouse.verify().ok


def test_a_name_and_a_checkpoint_have_one_job(tmp_path: Path) -> None:
    """Another job of the name is refused while the first one lives, and changes nothing that is said of it;
    so is another job on the checkpoint. A job that was killed starts again on its checkpoint at once."""
    with Broker(tmp_path / "broker") as broker:
        warehouse = warehouse_in(tmp_path, broker)
        job = warehouse.start_job()
        wait_for(lambda: b"running" in job.log.read_bytes(), job, seconds=300)
        other = f"--checkpoint={tmp_path / 'other'}", f"--warehouse={tmp_path / 'elsewhere'}"

        same_name = refusal(warehouse.start_job("--available-now", *other))
        assert same_name.startswith("another job named auction runs already")
        assert all(part in same_name for part in (f"process {job.pid}", str(tmp_path / "checkpoint")))
        assert state(warehouse) == "running"
        assert "is in use by another job" in refusal(warehouse.start_job("--available-now"))
        assert state(warehouse) == "running"

        job.kill()
        again = warehouse.start_job()
        wait_for(lambda: b"running" in again.log.read_bytes(), again, seconds=300)
        again.stop()
        assert state(warehouse) == "stopped"
        warehouse.start_job("--available-now", *other).wait_done(300)
