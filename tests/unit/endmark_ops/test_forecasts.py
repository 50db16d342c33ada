"""The sidecar's answer about forecasts of `endmark plan`, and about the state of the join measured since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from endmark.control.description import describe
from endmark.control.ops_database import forecasts
from endmark.control.ops_database.database import OpsDatabase
from endmark.metrics import Samples, sample
from endmark_ops.app import create_app
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job, described_job, forecast_of, join_forecast_of
from support.verify_alone import alone
from support.verify_world import make_pipeline


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as found:
        yield found


def answer(database: OpsDatabase) -> dict[str, Any]:
    client = OpsClient(create_app(str(database.engine.url), shared_seconds=0))
    found: dict[str, Any] = client.get(f"{API}/forecasts").json()
    return found


def test_forecasts_of_each_relation_and_of_the_join(database: OpsDatabase) -> None:
    """The newest, by name, and of this pipeline alone."""
    database.runs.start("run-1", PIPELINE, "app", "/checkpoint")
    assert answer(database) == {"lookups": [], "join": None, "join_measured": None}
    told = {name: forecast_of(name) for name in ("sellers", "ranks")}
    old, join = forecast_of("sellers", fastest=1.0), join_forecast_of(20_000)
    for each in (old, *told.values()):
        forecasts.store(database, PIPELINE, each)
    forecasts.store(database, PIPELINE, join)
    forecasts.store(database, "another", old)
    forecasts.store(database, "another", join_forecast_of(1))
    found = answer(database)
    assert found["lookups"] == [told["ranks"].model_dump(), told["sellers"].model_dump()]
    assert found["lookups"][1]["by_memory"][0]["rates"]["hybrid"] > 1.0
    assert found["join"] == join.model_dump()
    assert found["join_measured"] is None


@pytest.fixture
def job(database: OpsDatabase) -> Job:
    return described_job(database)


def state(number: int, rows: float) -> Samples:
    """Return samples of batches 2 s of event time apart, after which 8 of 4 keys a second wait."""
    told = {sample("propagated_punctuations_total", by="closed"): 8.0}
    for name in ("items", "bids"):
        told[sample("progress_event_time_seconds", stream=name)] = 1000.0 + 2 * number
        told[sample("state_rows", operator="join", stream=name)] = rows
        told[sample("state_bytes", operator="join", stream=name)] = 50 * rows
    return told | {sample("pending_punctuations", stream="items", waits_for="window"): 8.0}


def test_state_is_measured_without_a_forecast(database: OpsDatabase, job: Job) -> None:
    job.commit(told=state(0, 7.0))
    assert answer(database)["join_measured"] is None
    for number in (1, 2):
        job.commit(told=state(number, 100.0 * number))
    assert answer(database)["join_measured"] == {
        "batches": 2,
        "preset": "auto",
        "windows": [60.0, 10.0],
        "streams": [{"stream": name, "rows": 150.0, "bytes": 7500.0} for name in ("items", "bids")],
        "announced_after": 3.0,  # 8 keys wait, 4 are announced a second, and a batch takes 2 s
    }


def test_a_stream_alone_has_no_state_of_a_join(database: OpsDatabase) -> None:
    pipeline = alone(make_pipeline(), "bids")
    database.pipelines.describe(PIPELINE, describe(pipeline).model_dump())
    job = Job(database)
    job.start()
    for number in range(3):
        job.commit(told=state(number, 100.0))
    assert answer(database) == {"lookups": [], "join": None, "join_measured": None}


def test_a_forecast_is_not_held_against_batches_that_it_was_made_from(
    database: OpsDatabase, job: Job
) -> None:
    now = 1e9
    for number in range(4):
        job.commit(told=state(number, 100.0 * 2**number), now=now + number)

    def rows(measured_until: float | None) -> float | None:
        forecasts.store(database, PIPELINE, join_forecast_of(1, measured_until))
        measured = answer(database)["join_measured"]
        return None if measured is None else measured["streams"][0]["rows"]

    assert rows(None) == (200 + 400 + 800) / 3
    assert rows(now) == (400 + 800) / 2
    assert rows(now + 1) == 800
    assert rows(now + 2) is None
    assert rows(now + 3) is None
