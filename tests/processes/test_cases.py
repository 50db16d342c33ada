"""A few cases on one rig, and faults that are sown into what the oracles look at: each must be noticed."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from deltalake import DeltaTable, write_deltalake

from endmark.verify.read.consume import Range
from endmark.verify.report import VerifyReport
from endmark.verify.verification import verify, verify_records
from processes import evidence
from processes.case import run_case, settled
from processes.fault import Fault, Marker
from processes.faults import FAULTS
from processes.feed import Place
from processes.oracle import (
    broken_log,
    differences,
    doubled_letters,
    doubled_results,
    lost_records,
    read_topics,
    rows_in_state,
    skipped_offsets,
    told_secrets,
)
from processes.rig import Rig
from support.processes import signal_all


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with Rig(tmp_path_factory.mktemp("rig"), "auction", seed=3, has_disks=False) as found:
        yield found


@pytest.mark.parametrize(
    "name",
    ["none", "killed: between tables", "replies: reset", "broker's replies: reset", "deadlocks", "poison"],
)
def test_a_case(rig: Rig, name: str) -> None:
    outcome = run_case(rig, FAULTS[name], f"test {name}")

    assert outcome.is_right, outcome


class _LateLock:
    """A lock that a thread gets only once a pause has ended."""

    def __init__(self, lock: threading.Lock, late: threading.Thread) -> None:
        self.reached, self.paused = threading.Event(), threading.Event()
        self._lock, self._late = lock, late

    def __enter__(self) -> None:
        if threading.current_thread() is self._late:
            self.reached.set()
            self.paused.wait(30)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_nothing_is_sent_in_a_pause(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that is due, and waits for the lock meanwhile, is held back."""
    lock = _LateLock(rig.feed._lock, rig.feed)
    monkeypatch.setattr(rig.feed, "_lock", lock)
    rig.feed.resume()
    assert lock.reached.wait(30)
    rig.feed.pause()
    sent = rig.feed.sent
    lock.paused.set()
    time.sleep(0.5)

    assert rig.feed.sent == sent


@contextmanager
def _missed(_rig: Rig, _chance: Random, _marker: Marker) -> Iterator[None]:
    yield


def test_a_fault_that_does_not_land_is_not_right(rig: Rig) -> None:
    outcome = run_case(rig, Fault("F0", "nothing happens, and nothing is seen", _missed), "missed")

    assert not outcome.wrong
    assert not outcome.is_right


@contextmanager
def _stands(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    signal_all(rig.job.pid, signal.SIGSTOP)
    marker.landed = True
    yield


def test_a_job_that_makes_no_progress_is_wrong(rig: Rig) -> None:
    job = rig.job.pid
    try:
        outcome = run_case(
            rig, Fault("F0", "the job stands still for good", _stands), "stands", healed_seconds=3
        )
    finally:
        signal_all(job, signal.SIGCONT)

    [wrong] = outcome.wrong
    assert "no progress within 3 s" in wrong


Sow = Callable[[Path], Any]


def _lose_row(tables: Path) -> None:
    table = DeltaTable(tables / "results")
    one = table.to_pyarrow_table(columns=["bids_bid_id"])["bids_bid_id"][0]
    table.delete(f"bids_bid_id = {one}")


def _double_commit(tables: Path) -> None:
    table = DeltaTable(tables / "groups")
    write_deltalake(table, table.to_pyarrow_table().slice(0, 3), mode="append")


def _read_stale_row(tables: Path) -> None:
    """Let all bids of a seller have another name of the seller, as an older row of the relation had it."""
    table = DeltaTable(tables / "results")
    one = table.to_pyarrow_table(columns=["bids_seller_id"])["bids_seller_id"][0]
    table.update(new_values={"sellers_name": "an older name"}, predicate=f"bids_seller_id = {one}")


def _miscount(tables: Path) -> None:
    table = DeltaTable(tables / "groups")
    table.update(updates={"bids": "bids + 1"}, predicate=None)


def _lose_letter(tables: Path) -> None:
    table = DeltaTable(tables / "dead_letters")
    one = table.to_pyarrow_table(columns=["offset"])["offset"][0]
    table.delete(f'"offset" = {one}')


@pytest.mark.parametrize("sow", [_lose_row, _double_commit, _read_stale_row, _miscount, _lose_letter])
def test_wrong_tables_are_noticed(rig: Rig, tmp_path: Path, sow: Sow) -> None:
    rig.feed.pause()
    assert rig.wait(rig.is_idle, 120)
    tables = tmp_path / "warehouse"
    shutil.copytree(rig.disk("job") / "warehouse", tables)
    pipeline, bootstrap = rig.warehouse.load(), rig.broker.bootstrap
    assert differences(verify(pipeline, bootstrap, tables)) == []
    sow(tables)

    assert differences(verify(pipeline, bootstrap, tables)) != []


def test_what_a_wrong_run_leaves_is_verified_again(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.feed.pause()
    assert rig.wait(rig.is_idle, 120)
    monkeypatch.setattr(evidence, "PLACE", tmp_path)
    place = evidence.keep(rig, rig.warehouse.verify())
    records = pq.read_table(place / "records.parquet")
    topics = records.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")])
    ranges = [
        Range(row["topic"], row["partition"], row["offset_min"], row["offset_max"] + 1)
        for row in topics.to_pylist()
    ]
    tables = place / "disk-job" / "warehouse"

    def again() -> VerifyReport:
        return verify_records(rig.warehouse.load(), ranges, records.to_batches(), tables)

    assert json.loads((place / "report.json").read_text())["ok"] is True
    assert {file.suffix for file in place.iterdir()} >= {".log", ".json", ".parquet"}
    with rig.engine.connect() as connection:
        sellers = connection.execute(sa.text("SELECT count(*) FROM sellers")).scalar()
    assert pq.read_metadata(place / "relation.parquet").num_rows == sellers
    assert differences(again()) == []
    _lose_row(tables)
    assert differences(again()) != []


def test_a_letter_in_two_places_is_noticed(rig: Rig, tmp_path: Path) -> None:
    tables = tmp_path / "warehouse"
    shutil.copytree(rig.disk("job") / "warehouse", tables)
    assert doubled_letters(tables) == []
    table = DeltaTable(tables / "dead_letters")
    write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")

    assert doubled_letters(tables) == ["1 records of dead_letters are in two places"]


def test_a_pair_of_records_that_is_joined_twice_is_noticed(rig: Rig, tmp_path: Path) -> None:
    tables = tmp_path / "warehouse"
    shutil.copytree(rig.disk("job") / "warehouse", tables)
    assert doubled_results(tables) == []
    table = DeltaTable(tables / "results")
    write_deltalake(table, table.to_pyarrow_table().slice(5, 2), mode="append")

    assert doubled_results(tables) == ["2 results are of records that have one already"]


def test_a_lost_acknowledgement_is_noticed(rig: Rig) -> None:
    rig.feed.pause()
    acknowledged = {place: dict(values) for place, values in rig.feed.acknowledged.items()}
    found = read_topics(rig.broker.bootstrap, acknowledged)
    assert lost_records(acknowledged, found) == []
    place = Place("bids", 0)
    lost, altered = {**found[place]}, {**found[place]}
    del lost[3]
    altered[3] ^= 1

    for wrong in (lost, altered):
        assert lost_records(acknowledged, found | {place: wrong}) == ["bids/0: 1 records lost, 0 unknown"]
    assert lost_records(acknowledged, found | {place: found[place] | {10**6: 0}}) == [
        "bids/0: 0 records lost, 1 unknown"
    ]


def test_a_skipped_offset_is_noticed(rig: Rig) -> None:
    rig.feed.pause()
    assert rig.wait(rig.is_idle, 120)
    batch = rig.batch()
    assert batch is not None
    ends = rig.feed.ends()
    assert skipped_offsets(batch.offsets, ends, rig.topics) == []
    place = Place("bids", 1)

    [wrong] = skipped_offsets(batch.offsets, ends | {place: ends[place] + 1}, rig.topics)
    assert wrong.startswith("bids/1 is read up to")


def test_a_log_that_goes_back_is_noticed(rig: Rig, tmp_path: Path) -> None:
    assert broken_log(rig.spark) == []
    for log in ("offsets", "commits"):
        shutil.copytree(rig.spark / log, tmp_path / log)
    last = max(int(file.name) for file in (tmp_path / "commits").iterdir() if file.name.isdecimal())
    # Spark removes old plans, so the first batch may have none.
    first = min(int(file.name) for file in (tmp_path / "offsets").iterdir() if file.name.isdecimal())
    assert first < last
    shutil.copy(tmp_path / "offsets" / str(first), tmp_path / "offsets" / str(last))
    assert any(f"batch {last} goes back" in wrong for wrong in broken_log(tmp_path))
    (tmp_path / "offsets" / str(last)).unlink()

    assert f"batch {last} has a commit and no plan" in broken_log(tmp_path)


def test_rows_in_state_are_noticed_and_leave(rig: Rig) -> None:
    assert rows_in_state(rig) != []
    rig.feed.end()
    assert rig.wait(rig.is_idle, 120)

    assert settled(rig, 120).wrong == ()
    assert rows_in_state(rig) == []


def test_a_told_secret_is_noticed(rig: Rig) -> None:
    assert told_secrets(rig.directory, rig.database.url) == []
    (rig.directory / "job-9.log").write_text(rig.database.url)

    assert told_secrets(rig.directory, rig.database.url) == ["job-9.log has the password of the database"]
