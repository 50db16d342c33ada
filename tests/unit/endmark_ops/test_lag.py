"""A job that is gone, and what waits in Kafka meanwhile, as the sidecar and `endmark status` say it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families as parse

from endmark.control.description import describe
from endmark.control.ops_database.runs import LOST_SECONDS
from endmark.control.ops_database.signs_of_life import SIGN_SECONDS, SignsOfLife
from endmark.control.ops_database.tables import runs
from endmark.embedded.broker import Broker
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_feed.producer import create_topics
from endmark_ops.app import create_app
from endmark_ops.reach import Reach
from endmark_ops.readers import lag
from endmark_ops.readers.lag import CachedEnds, Ends
from support.commands import endmark
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job, job_in

NOWHERE = "127.0.0.1:1"
TOPICS = {"items": "lag-items", "bids": "lag-bids"}
CONTROL = "lag-control"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with job_in(tmp_path) as job:
        pipeline = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
        described = describe(pipeline).model_copy(update={"topics": TOPICS, "control_topic": CONTROL})
        job.database.pipelines.describe(PIPELINE, described.model_dump())
        yield job


class Nobody:
    """A consumer of no broker."""

    def close(self) -> None:
        pass


def sidecar(job: Job, bootstrap: str | None) -> OpsClient:
    app = create_app(str(job.database.engine.url), reach=Reach(bootstrap=bootstrap), shared_seconds=0)
    return OpsClient(app)


def let_signs_be_old(job: Job, seconds: float = LOST_SECONDS + 1) -> None:
    with job.database.engine.begin() as connection:
        connection.execute(runs.update().values(alive_at=runs.c.alive_at - seconds))


def metrics(client: OpsClient) -> dict[str, dict[str, float]]:
    """By name and topic, of those that are not a batch's."""
    return {
        sample.name: {each.labels.get("topic", ""): each.value for each in family.samples}
        for family in parse(client.get("/metrics").text)
        for sample in family.samples
    }


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_driver_without_a_sign_of_life_is_lost(job: Job) -> None:
    """Though its run says that it is running, and its last batch is young; until it gives one again."""
    job.start()
    job.commit()
    with sidecar(job, None) as client:
        let_signs_be_old(job)
        assert client.get(f"{API}/status").json()["state"] == "lost"
        assert metrics(client)["endmark_run_up"] == {"": 0.0}
        assert metrics(client)["endmark_sign_of_life_age_seconds"][""] > LOST_SECONDS
        (reason,) = client.get(f"/readyz/{PIPELINE}").json()["reasons"]
        assert reason.startswith(
            "the latest run says it is running, but its driver has given no sign of life"
        )
        job.database.runs.sign_of_life(job.run_id)
        assert client.get(f"{API}/status").json()["state"] == "running"
        assert metrics(client)["endmark_run_up"] == {"": 1.0}
        let_signs_be_old(job, -LOST_SECONDS - 5)  # the clock was put back since the last sign
        assert client.get(f"{API}/status").json()["state"] == "lost"
        let_signs_be_old(job)
        job.database.runs.set_state(job.run_id, "stopped")
        assert client.get(f"{API}/status").json()["state"] == "stopped"


def test_a_bounded_run_that_is_done_tells_since_when(job: Job) -> None:
    """Alerts would otherwise fire between bounded runs."""
    name = "endmark_run_done_age_seconds"
    job.start()
    with sidecar(job, None) as client:
        assert name not in metrics(client)
        job.database.runs.set_state(job.run_id, "stopped")
        assert name not in metrics(client)
        job.database.runs.set_state(job.run_id, "done")
        with job.database.engine.begin() as connection:
            connection.execute(runs.update().values(stopped_at=runs.c.stopped_at - 400))
        assert 400 <= metrics(client)[name][""] < 460
        assert metrics(client)["endmark_run_up"] == {"": 0.0}
        assert client.get(f"/readyz/{PIPELINE}").json() == {"ready": True, "reasons": []}


def test_signs_are_given_while_what_is_asked_answers(job: Job) -> None:
    """A driver whose JVM does not answer gives none any more."""
    job.start()

    def age() -> float:
        run = job.database.runs.latest(PIPELINE)
        assert run is not None
        return job.database.now() - float(run["alive_at"])

    def silent() -> None:
        raise ConnectionResetError

    with SignsOfLife(job.database, job.run_id, print) as signs:
        let_signs_be_old(job)
        until(lambda: age() < SIGN_SECONDS)
        signs.ask(silent)
        until(lambda: age() > 2 * SIGN_SECONDS)
        signs.ask(None)
        until(lambda: age() < SIGN_SECONDS)


def test_what_waits_is_counted_while_the_job_is_away(job: Job, broker: Broker) -> None:
    """The lag is counted even before the first batch. It is unknown, and never 0, while Kafka does not
    answer."""
    create_topics(broker.bootstrap, {TOPICS["items"]: 1, TOPICS["bids"]: 2, CONTROL: 1})
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for partition in (0, 0, 0, 1):
            producer.send(TOPICS["bids"], b"{}", partition=partition)

    job.start()
    with sidecar(job, broker.bootstrap) as client:
        until(lambda: client.get(f"{API}/status").json()["lag_records"] == 4)
        job.database.batches.record(PIPELINE, 0, job.run_id, {}, {TOPICS["bids"]: {"0": 2}})
        let_signs_be_old(job)
        status = client.get(f"{API}/status").json()
        assert (status["state"], status["lag_records"]) == ("lost", 2)
        told = metrics(client)
        assert told["endmark_lag_known"] == {"": 1.0}
        assert told["endmark_lag_records"] == {TOPICS["bids"]: 2.0, TOPICS["items"]: 0.0, CONTROL: 0.0}
        assert told["endmark_topic_records_total"] == {TOPICS["bids"]: 4.0, TOPICS["items"]: 0.0}
    url = f"--ops-url={job.database.engine.url}"
    said = endmark("status", PIPELINE, url, f"--bootstrap={broker.bootstrap}").stdout.splitlines()
    assert (said[0], said[2]) == ("auction is lost", f"behind: 2 records (2 of {TOPICS['bids']})")


def test_the_ends_are_those_of_the_topics_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines share a cache. A topic of another pipeline would be a lag that never ends."""
    held: Ends = {"bids": {0: (0, 3)}, "orders": {0: (0, 9)}}
    monkeypatch.setattr(lag, "asking_consumer", lambda kafka: Nobody())
    monkeypatch.setattr(lag, "topic_ends", lambda consumer, topics: {name: held[name] for name in topics})
    cached = CachedEnds(NOWHERE)
    with closing(cached):
        cached.latest(held)
        until(lambda: cached.latest(held) is not None)

        assert cached.latest(["bids"]) == {"bids": {0: (0, 3)}}


@pytest.mark.parametrize("bootstrap", [None, NOWHERE])
def test_what_nobody_tells_is_unknown(job: Job, bootstrap: str | None) -> None:
    """Without a broker, and with one that does not answer; nobody waits for it."""
    job.start()
    job.commit()
    with sidecar(job, bootstrap) as client:
        for _ in range(3):
            assert client.get(f"{API}/status").json()["lag_records"] is None
            told = metrics(client)
            assert told["endmark_lag_known"] == {"": 0.0}
            assert "endmark_lag_records" not in told
    options = [] if bootstrap is None else [f"--bootstrap={bootstrap}"]
    said = endmark("status", PIPELINE, f"--ops-url={job.database.engine.url}", *options, "--json").stdout
    assert json.loads(said)["lag_records"] is None
