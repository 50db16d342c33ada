"""The sidecar's HTTP interface over a real SQLite ops database."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from prometheus_client import parser as plain
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.tables import runs
from endmark.kafka.gaps import Gap
from endmark.metrics import CATALOGUE
from endmark_ops.answers.durations import BOUNDS
from endmark_ops.answers.progress import stream_progress
from endmark_ops.app import create_app
from support.fulfilment import FULFILMENT
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ops.db'}"


@pytest.fixture
def job(url: str) -> Iterator[Job]:
    database = OpsDatabase(url)
    yield Job(database)
    database.close()


@pytest.fixture
def client(url: str, job: Job) -> Iterator[OpsClient]:
    with OpsClient(create_app(url, shared_seconds=0)) as client:
        yield client


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """The time at which the ops database's clock stands still for who reads it."""
    now = time.time()
    monkeypatch.setattr(OpsDatabase, "now", lambda _: now)
    return now


def reasons(client: OpsClient) -> list[str]:
    answer = client.get(f"/readyz/{PIPELINE}")
    body = answer.json()
    assert answer.status_code == (200 if body["ready"] else 503)
    assert body["ready"] == (body["reasons"] == [])
    return list(body["reasons"])


def test_ready_while_batches_are_fresh(client: OpsClient, job: Job) -> None:
    """A running job with a young batch is ready."""
    job.start()
    job.commit()
    assert reasons(client) == []


def test_not_ready_before_the_first_run_and_batch(client: OpsClient, job: Job) -> None:
    """Without a run or a batch the sidecar names both as reasons."""
    assert client.get(f"/readyz/{PIPELINE}").status_code == 404
    job.database.pipelines.describe(PIPELINE, describe(FULFILMENT).model_dump())
    assert reasons(client) == ["no run of this pipeline has started", "no batch has been committed"]
    job.database.runs.start("run-1", PIPELINE, "app", "/checkpoint")
    assert reasons(client) == ["the latest run is starting", "no batch has been committed"]


def test_not_ready_when_the_last_batch_is_old(client: OpsClient, job: Job, now: float) -> None:
    """A batch older than the limit makes a running job not ready, with both ages in the reason."""
    job.start()
    job.commit(age=45, now=now)
    assert reasons(client) == ["the last batch is 45 s old, more than 30 s"]


@pytest.mark.parametrize(
    ("state", "error", "reason"),
    [
        ("failed", "broker went away", "the latest run is failed: broker went away"),
        ("stopped", None, "the latest run is stopped"),
    ],
)
def test_not_ready_after_the_run(
    client: OpsClient, job: Job, state: str, error: str | None, reason: str
) -> None:
    """A run that ended is not ready however young its last batch is."""
    job.start()
    job.commit()
    job.database.runs.set_state(job.run_id, state, error)
    assert reasons(client) == [reason]


def test_status_tells_run_batch_lag_and_totals(client: OpsClient, job: Job, now: float) -> None:
    """The status holds the run, the last batch with its age, the lag and explained totals."""
    job.start()
    for _ in range(3):
        samples = job.commit(age=2, now=now)
    status = client.get(f"{API}/status").json()
    assert (status["pipeline"], status["state"]) == (PIPELINE, "running")
    assert status["run"]["run_id"] == job.run_id
    assert 0 <= status["run"]["uptime_seconds"] < 60
    assert status["last_batch"]["batch_id"] == 2
    assert status["last_batch"]["age_seconds"] == pytest.approx(2, abs=1.5)
    assert status["lag_records"] is None  # nobody has asked Kafka
    assert status["progress"] == [each.model_dump() for each in stream_progress(samples)] != []
    totals = {total["name"]: total for total in status["totals"]}
    assert list(totals) == [name for name in CATALOGUE if name in totals]
    groups = totals["groups_closed_total"]
    assert groups["samples"] == [{"labels": {"step": "by_item"}, "value": 33.0}]
    assert (groups["kind"], groups["unit"]) == ("counter", "groups")
    assert groups["help"] == CATALOGUE["groups_closed_total"].doc
    assert totals["state_rows"]["kind"] == "gauge"
    assert {"operator": "join", "stream": "bids"} in [s["labels"] for s in totals["state_rows"]["samples"]]


def test_status_before_anything_happened(client: OpsClient, job: Job) -> None:
    """Without runs the status is `waiting` and empty. A pipeline that nobody has named is not there."""
    assert client.get(f"{API}/status").status_code == 404
    job.database.pipelines.describe(PIPELINE, describe(FULFILMENT).model_dump())
    status = client.get(f"{API}/status").json()
    assert status["state"] == "waiting"
    assert [status[name] for name in ("run", "last_batch", "lag_records", "totals")] == [None, None, None, []]


def test_restarted_run_is_not_stale_at_once(client: OpsClient, job: Job) -> None:
    """A run counts as stale by its own silence, not by the age of a batch before it."""
    job.start()
    job.commit(age=600)
    assert client.get(f"{API}/status").json()["state"] == "running"
    with job.database.engine.begin() as connection:
        connection.execute(runs.update().values(started_at=runs.c.started_at - 100))
    assert client.get(f"{API}/status").json()["state"] == "stale"


def test_uptime_ends_with_the_run(client: OpsClient, job: Job) -> None:
    """The uptime of a stopped run is how long it ran."""
    job.start()
    job.database.runs.set_state(job.run_id, "stopped")
    with job.database.engine.begin() as connection:
        connection.execute(runs.update().values(started_at=1000.0, stopped_at=1090.0))
    assert client.get(f"{API}/status").json()["run"]["uptime_seconds"] == 90


def test_other_pipelines_are_not_shown(client: OpsClient, job: Job) -> None:
    """Runs and batches of another pipeline in the same database change nothing."""
    job.start()
    job.commit()
    job.database.runs.start("other", "payments", "app", "/checkpoint")
    job.database.runs.set_state("other", "failed", "not ours")
    job.database.batches.record("payments", 900, "other", {}, {})
    status = client.get(f"{API}/status").json()
    assert (status["state"], status["last_batch"]["batch_id"]) == ("running", 0)
    assert reasons(client) == []


def test_batches_after_an_id(client: OpsClient, job: Job) -> None:
    """Only newer batches come, oldest first, and the newest ones when there are too many."""
    job.start()
    written = [job.commit() for _ in range(6)]
    points = client.get(f"{API}/batches", params={"after": 2}).json()["batches"]
    assert [point["batch_id"] for point in points] == [3, 4, 5]
    assert points[0]["samples"] == written[3]
    assert points[0]["totals"]["groups_closed_total{step=by_item}"] == 44
    newest = client.get(f"{API}/batches", params={"limit": 2}).json()["batches"]
    assert [point["batch_id"] for point in newest] == [4, 5]
    assert client.get(f"{API}/batches", params={"after": 5}).json() == {"batches": []}


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-2", "after=x", f"after={2**63}"])
def test_batches_refuses_a_bad_query(client: OpsClient, job: Job, query: str) -> None:
    """A limit or id out of bounds is answered with 422."""
    job.start()
    assert client.get(f"{API}/batches?{query}").status_code == 422


@pytest.mark.parametrize(
    ("accept", "parse", "help_suffix"),
    [
        ("text/plain", plain.text_string_to_metric_families, "_total"),
        ("application/openmetrics-text; version=1.0.0", openmetrics.text_string_to_metric_families, ""),
    ],
    ids=["plain", "openmetrics"],
)
def test_metrics_publish_the_totals(
    client: OpsClient, job: Job, accept: str, parse: Callable[[str], Iterable[Metric]], help_suffix: str
) -> None:
    """Every total is there under its name, type and help, labelled with the pipeline."""
    job.start()
    for _ in range(2):
        job.commit()
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith(accept.partition(";")[0])
    families = {family.name: family for family in parse(answer.text)}
    rows = families["endmark_state_rows"]
    assert (rows.type, rows.documentation) == ("gauge", CATALOGUE["state_rows"].doc)
    assert {"operator": "join", "stream": "bids", "pipeline": PIPELINE} in [s.labels for s in rows.samples]
    batch = job.database.batches.latest(PIPELINE)
    assert batch is not None
    published = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    late = frozenset({"reason": "late", "pipeline": PIPELINE}.items())
    assert published["endmark_violations_total", late] == batch.totals["violations_total{reason=late}"] == 2
    ours = frozenset({"pipeline": PIPELINE}.items())
    assert published["endmark_run_up", ours] == 1
    assert 0 <= published["endmark_last_batch_age_seconds", ours] < 30
    histogram = len(BOUNDS) + 3
    parts = [key for key in batch.totals if key.startswith("latency_")]  # of histograms by described streams
    assert len(published) == len(batch.totals) - len(parts) + histogram + 6  # of the sidecar itself
    assert f"# HELP endmark_groups_closed{help_suffix} Groups of an aggregate put out" in answer.text


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics", "/api/pipelines", f"{API}/status"])
def test_a_head_is_the_answer_without_its_body(client: OpsClient, job: Job, path: str) -> None:
    """Load balancers and checks of links ask this way, and were told that they must not."""
    job.start()
    whole, head = client.get(path), client.head(path)

    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_a_stream_of_events_has_no_head(client: OpsClient, job: Job) -> None:
    """Nothing of it is known before it ends."""
    job.start()
    assert client.head(f"{API}/events").status_code == 405


def test_metrics_without_a_running_job(client: OpsClient, job: Job) -> None:
    """A run that is not running is down. Before the first batch, the age is that of the run."""
    assert "last_batch_age" not in client.get("/metrics").text
    job.database.runs.start("run-1", PIPELINE, "app", "/checkpoint")
    with job.database.engine.begin() as connection:
        connection.execute(runs.update().values(started_at=runs.c.started_at - 400))
    text = client.get("/metrics").text
    assert 'endmark_run_up{pipeline="auction"} 0.0' in text
    [age] = re.findall(r'^endmark_last_batch_age_seconds{pipeline="auction"} (.*)$', text, re.MULTILINE)
    assert 400 <= float(age) < 460


def test_metrics_are_given_whatever_version_of_the_format_is_asked_for(client: OpsClient) -> None:
    for version in ("abc", "0.0.4.1", "9" * 5000):
        for kind in ("text/plain", "application/openmetrics-text"):
            answer = client.get("/metrics", headers={"Accept": f"{kind};version={version}"})
            assert answer.status_code == 200
            assert "endmark_failed_logins" in answer.text


def test_gaps_are_shown_with_their_offsets(client: OpsClient, job: Job) -> None:
    """They are there before the job has a batch, since the job describes them when it starts."""
    gaps = [Gap("paid", 0, 5, 8), Gap("paid", 0, 10, 12), Gap("orders", 1, 0, 1)]
    job.database.pipelines.describe(PIPELINE, describe(FULFILMENT, gaps).model_dump())
    job.start()

    text, status = client.get("/metrics").text, client.get(f"{API}/status").json()

    assert 'endmark_gap_offsets_total{pipeline="auction",topic="paid"} 5.0' in text
    assert 'endmark_gap_offsets_total{pipeline="auction",topic="orders"} 1.0' in text
    assert status["gaps"] == [asdict(gap) for gap in gaps]
    [total] = status["totals"]
    assert (total["name"], total["kind"], total["unit"]) == ("gap_offsets_total", "counter", "offsets")


def test_metrics_this_version_does_not_know(client: OpsClient, job: Job) -> None:
    """A newer job's metric is passed on without help or unit."""
    job.start()
    job.database.batches.record(PIPELINE, 0, job.run_id, {"shiny_total{kind=new}": 3.0}, {})
    assert 'endmark_shiny_total{kind="new",pipeline="auction"} 3.0' in client.get("/metrics").text
    assert client.get(f"{API}/status").json()["totals"][0]["help"] == ""


def test_pipeline_is_told_by_its_steps(client: OpsClient, job: Job) -> None:
    """Streams, steps with inputs, and tables and topics with the step that they come from."""
    job.start()
    assert client.get(API).json() == {"pipeline": None}
    job.database.pipelines.describe(PIPELINE, describe(FULFILMENT).model_dump())
    told = client.get(API).json()["pipeline"]
    assert told["streams"][0] == {"name": "orders", "topic": "orders"}
    joined = {"name": "fulfilled", "kind": "join", "inputs": ["located", "payments", "shipments"]}
    assert told["steps"][3] == joined | {"relation": None}
    assert told["steps"][1]["relation"] == "customers"
    assert told["tables"][1] == {"name": "by_country", "rows": "running", "step": "by_country"}
    assert told["published"] == [{"name": "fulfilled", "rows": "results", "step": "fulfilled"}]
    assert told["keys"] == [{"order_id": "long"}]
    assert "sqlite" not in str(told)


def test_openapi_describes_the_answers(client: OpsClient) -> None:
    """The schema names typed answers and bounds; the documentation views, which load scripts, are off."""
    schema = client.get("/openapi.json").json()
    own = "/api/pipelines/{pipeline}/"
    nouns = {path.removeprefix(own).partition("/")[0] for path in schema["paths"] if path.startswith(own)}
    assert nouns == {"status", "batches", "events", "forecasts", "what-ifs", "knobs", "dead-letters", "why"}
    of_all = {"/healthz", "/readyz", "/readyz/{pipeline}", "/metrics", "/api/pipelines", own.rstrip("/")}
    assert {path for path in schema["paths"] if not path.startswith(own)} == of_all
    answer = schema["paths"]["/api/pipelines/{pipeline}/batches"]["get"]["responses"]["200"]
    assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Batches"}
    assert "503" in schema["paths"]["/api/pipelines/{pipeline}/status"]["get"]["responses"]
    assert client.get("/docs").status_code == 404
