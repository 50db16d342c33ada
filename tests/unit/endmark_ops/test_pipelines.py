"""Several pipelines in one ops database: the list, `/metrics` and `/readyz` have all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.tables import batches
from endmark.errors import ConfigError
from endmark.metrics import Samples
from endmark_ops.answers.durations import BOUNDS
from endmark_ops.app import create_app
from endmark_ops.reach import Reach
from support.commands import endmark
from support.ops_client import OpsClient

HEALTHY: Samples = {
    "records_total{stream=bids}": 120.0,
    "records_total{stream=items}": 30.0,
    "rows_total{stream=bids}": 120.0,
    "progress_event_time_seconds{stream=bids}": 1000.0,
    "progress_behind_seconds{stream=bids}": 3607.0,  # a lateness of an hour
    "partition_behind_seconds{partition=0,stream=bids}": 0.0,
    "progress_event_time_seconds{stream=items}": 900.0,
    "progress_behind_seconds{stream=items}": 5.0,
    "partition_behind_seconds{partition=0,stream=items}": 0.0,
    "lookup_pending_bytes{relation=sellers}": 90.0,
    "lookup_memory_bytes{relation=sellers}": 0.0,  # rows that wait have no bound
}
SICK: Samples = HEALTHY | {
    "silent_partitions{partition=2,stream=items}": 1.0,
    "partition_behind_seconds{partition=0,stream=bids}": 601.0,
    "lookup_held_bytes{relation=sellers}": 1.0,
    "lookup_memory_bytes{relation=sellers}": 100.0,
    "join_spilled_bytes": 1.0,
    "dead_letters_total{reason=not_json}": 1.0,
    "violations_total{reason=late}": 1.0,
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        yield database


@pytest.fixture
def client(database: OpsDatabase) -> OpsClient:
    return OpsClient(create_app(str(database.engine.url), shared_seconds=0))


def run(database: OpsDatabase, pipeline: str, samples: Samples, count: int = 5) -> None:
    """Run a job of this pipeline that has committed `count` batches, two seconds apart."""
    run_id = f"run-of-{pipeline}"
    database.runs.start(run_id, pipeline, "app", "/checkpoint")
    database.runs.set_state(run_id, "running")
    first = time.time() - 2 * (count - 1)
    for number in range(count):
        database.batches.record(pipeline, number, run_id, samples, {})
        this = (batches.c.pipeline == pipeline) & (batches.c.batch_id == number)
        with database.engine.begin() as connection:
            connection.execute(batches.update().where(this).values(committed_at=first + 2 * number))


def listed(client: OpsClient) -> dict[str, Any]:
    return {each["pipeline"]: each for each in client.get("/api/pipelines").json()["pipelines"]}


def test_the_list_has_a_line_for_each_pipeline(database: OpsDatabase, client: OpsClient) -> None:
    assert listed(client) == {}
    run(database, "orders", HEALTHY)
    database.runs.start("run-2", "auction", "app", "/checkpoint")
    found = listed(client)

    assert list(found) == ["auction", "orders"]
    orders = found["orders"]
    assert (orders["state"], orders["lag_records"], orders["alerts"]) == ("running", None, [])
    assert 0 < orders["records_per_second"] <= 75.1  # it falls while no further batch comes
    assert orders["oldest_progress"] == {"stream": "items", "event_time": 900.0, "behind_seconds": 5.0}
    assert 0 <= orders["last_batch_age_seconds"] < 60
    auction = found["auction"]
    nothing = ("oldest_progress", "records_per_second", "last_batch_age_seconds")
    assert (auction["state"], [auction[name] for name in nothing]) == ("starting", [None] * 3)


def test_a_name_may_have_hyphens(database: OpsDatabase, client: OpsClient) -> None:
    """A job may have such a name, so the sidecar must show it."""
    run(database, "my-shop", {"records_total{stream=orders}": 100.0})
    answer = client.get("/api/pipelines/my-shop/status")
    assert (answer.status_code, client.get("/readyz/my-shop").status_code) == (200, 200)
    assert answer.json()["pipeline"] == "my-shop"


@pytest.mark.parametrize(
    ("name", "leads_to"), [("my-shop", "./my-shop/"), ("https:evil.example", "./https%3Aevil.example/")]
)
def test_views_are_found_without_the_slash_behind_a_proxy(
    client: OpsClient, name: str, leads_to: str
) -> None:
    """A proxy may end TLS and add a path, so the sidecar cannot name its own address."""
    answer = client.get(f"/pipelines/{name}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, leads_to)


@pytest.mark.parametrize("path", ["/api/pipelines/", "/metrics/", "/healthz/", "/static"])
def test_no_other_path_leads_to_another_one(client: OpsClient, path: str) -> None:
    assert client.get(path, follow_redirects=False).status_code == 404


def test_the_list_says_what_a_person_should_look_at(database: OpsDatabase, client: OpsClient) -> None:
    """Alerts have the thresholds of Prometheus' rules. A job that has ended has no throughput."""
    run(database, "orders", SICK)
    assert listed(client)["orders"]["alerts"] == [
        "partition 2 of items has never had a row or heartbeat",
        "bids is held back 601 s behind its newest row",
        "rows that wait for a lookup take nine tenths of their memory",
        "the join's rows exceed its memory",
        "more than one record in a thousand is a dead letter",
        "more than one row in a thousand breaks a promise of its stream",
    ]
    database.runs.set_state("run-of-orders", "failed", "no more")
    found = listed(client)["orders"]
    assert (found["alerts"][0], found["records_per_second"]) == ("the job has failed", None)


def test_metrics_of_all_pipelines_are_together(database: OpsDatabase, client: OpsClient) -> None:
    """Each metric comes once, with a series for each pipeline."""
    run(database, "orders", HEALTHY)
    run(database, "sales", SICK)
    families = list(parser.text_string_to_metric_families(client.get("/metrics").text))

    names = [family.name for family in families]
    assert len(names) == len(set(names))
    up = next(family for family in families if family.name == "endmark_run_up")
    assert [sample.labels for sample in up.samples] == [{"pipeline": "orders"}, {"pipeline": "sales"}]
    without = {family.name for family in families for s in family.samples if "pipeline" not in s.labels}
    assert without == {"endmark_failed_logins"}  # it is of the sidecar itself


def test_all_are_ready_when_each_is(database: OpsDatabase, client: OpsClient) -> None:
    assert client.get("/readyz").json()["reasons"] == ["no run of any pipeline has started"]
    run(database, "orders", HEALTHY)
    assert client.get("/readyz").status_code == 200
    run(database, "sales", HEALTHY)
    database.runs.set_state("run-of-sales", "stopped")
    assert client.get("/readyz").json()["reasons"] == ["sales: the latest run is stopped"]
    assert client.get("/readyz/orders").status_code == 200
    assert client.get("/readyz/sales").status_code == 503


def test_one_that_another_version_has_described_leaves_the_others(
    database: OpsDatabase, client: OpsClient
) -> None:
    """It is shown as one that no job has described."""
    run(database, "orders", HEALTHY)
    run(database, "sales", HEALTHY)
    database.pipelines.describe("sales", {"of": "another version"})

    assert listed(client).keys() == {"orders", "sales"}
    assert client.get("/readyz").status_code == 200
    assert client.get("/api/pipelines/sales").json()["pipeline"] is None
    assert 'endmark_run_up{pipeline="sales"} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "deleted"])
def test_a_file_that_is_replaced_or_deleted_is_opened_anew(
    database: OpsDatabase, client: OpsClient, tmp_path: Path, replaced: bool
) -> None:
    run(database, "orders", HEALTHY)
    assert listed(client).keys() == {"orders"}
    for file in tmp_path.glob("ops.db*"):
        file.rename(tmp_path / f"old-{file.name}")
    if replaced:
        with closing(OpsDatabase(str(database.engine.url))) as other:
            run(other, "sales", HEALTHY)

    assert listed(client).keys() == ({"sales"} if replaced else set())


def test_a_retired_pipeline_is_forgotten(database: OpsDatabase, client: OpsClient) -> None:
    """Not while its job lives; and others stay."""
    url = f"--ops-url={database.engine.url}"
    run(database, "orders", HEALTHY)
    run(database, "sales", HEALTHY)
    assert endmark("forget", "orders", url).returncode == 2
    assert listed(client).keys() == {"orders", "sales"}

    database.runs.set_state("run-of-orders", "stopped")
    assert endmark("forget", "orders", url).returncode == 0
    assert listed(client).keys() == {"sales"}
    assert 'pipeline="orders"' not in client.get("/metrics").text
    again = endmark("forget", "orders", url)
    assert (again.returncode, "has nothing of orders" in again.stderr) == (2, True)


def test_each_pipeline_has_its_own_tables() -> None:
    reach = Reach(warehouse="/data/{pipeline}/tables")
    assert reach.warehouse_of("orders") == Path("/data/orders/tables")
    assert Reach(warehouse="/data").warehouse_of("orders") == Path("/data")
    assert Reach().warehouse_of("orders") is None
    assert str(Reach(warehouse="s3://shop/{pipeline}").warehouse_of("orders")) == "s3://shop/orders"
    with pytest.raises(ConfigError, match="the URL has no bucket"):
        Reach(warehouse="s3:///{pipeline}")


def test_the_command_lists_all_pipelines(database: OpsDatabase) -> None:
    url = f"--ops-url={database.engine.url}"
    assert endmark("status", url).stdout == "no pipeline has started with this ops database\n"
    run(database, "orders", HEALTHY)
    run(database, "sales", SICK)
    heads, first, second = endmark("status", url).stdout.splitlines()
    lines = endmark("status", url, "--json").stdout.splitlines()
    unknown = endmark("status", "returns", url)

    assert heads.split() == ["pipeline", "state", "behind", "records/s", "last", "batch", "alerts"]
    assert first.split()[:3] == ["orders", "running", "unknown"]
    assert 0 < int(first.split()[3]) <= 75  # it falls while no further batch comes
    assert "partition 2 of items has never had a row" in second
    assert len(lines) == 2
    assert unknown.returncode == 2
    assert "no pipeline returns; it has: orders, sales" in unknown.stderr


def test_durations_of_batches_are_a_histogram_from_the_start(
    database: OpsDatabase, client: OpsClient
) -> None:
    """It begins at zero, also before the first batch; a batch counts once, when its duration is told."""

    def shown(pipeline: str) -> tuple[float, float, dict[str, float]]:
        families = parser.text_string_to_metric_families(client.get("/metrics").text)
        family = next(each for each in families if each.name == "endmark_batch_duration_seconds")
        assert family.type == "histogram"
        own = [sample for sample in family.samples if sample.labels["pipeline"] == pipeline]
        buckets = {sample.labels["le"]: sample.value for sample in own if "le" in sample.labels}
        [count] = [sample.value for sample in own if sample.name.endswith("_count")]
        [total] = [sample.value for sample in own if sample.name.endswith("_sum")]
        return count, total, buckets

    run(database, "orders", HEALTHY, count=3)
    database.runs.start("run-2", "sales", "app", "/checkpoint")
    assert [shown(name)[:2] for name in ("orders", "sales")] == [(0, 0), (0, 0)]
    assert len(shown("sales")[2]) == len(BOUNDS) + 1
    for number, seconds in ((3, 0.1), (4, 0.2), (5, 700.0)):
        database.batches.record("orders", number, "run-of-orders", {}, {})
        assert shown("orders")[0] == number - 3
        database.batches.amend("orders", number, {"batch_seconds{phase=total}": seconds}, {})
        assert shown("orders")[0] == number - 2
    count, total, buckets = shown("orders")
    assert count == 3
    assert total == pytest.approx(700.3)
    assert [buckets[bound] for bound in ("0.1", "0.25", "300.0", "+Inf")] == [1, 2, 2, 3]
    database.runs.set_state("run-of-orders", "stopped")
    database.runs.start("run-3", "orders", "another app", "/another")
    database.batches.record("orders", 0, "run-3", {"batch_seconds{phase=total}": 1.0}, {})
    assert shown("orders")[0] == 4  # a new checkpoint counts from 0
    assert shown("orders")[0] == 4
