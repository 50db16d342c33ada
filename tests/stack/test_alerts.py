"""The alerts of `infra/alerts.yml`: Prometheus takes them, and they fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from endmark.embedded.broker import Broker
from endmark.metrics import CATALOGUE
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.auction_records import bid, item, send
from support.commands import endmark
from support.ops_sidecar import Sidecar
from support.prometheus import Prometheus, sooner
from support.warehouse import Warehouse, wait_for

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "infra/alerts.yml").read_text())["groups"][0]["rules"]
# The sidecar's own; `_totals` names the others.
OF_THE_SIDECAR = {
    "run_up",
    "run_done_age_seconds",
    "sign_of_life_age_seconds",
    "last_batch_age_seconds",
    "lag_known",
    "lag_records",
    "topic_records_total",
}


def promtool(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_they_fire_when_they_should(tmp_path: Path) -> None:
    """`tests/stack/alerts.yaml` says when."""
    for file in ("infra/alerts.yml", "tests/stack/alerts.yaml"):
        shutil.copy(ROOT / file, tmp_path)
    done = promtool("test", "rules", "alerts.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_has_a_test() -> None:
    tested = (ROOT / "tests/stack/alerts.yaml").read_text()
    assert [rule["alert"] for rule in RULES if rule["alert"] not in tested] == []


def test_prometheus_takes_its_configuration() -> None:
    """Compose puts both files into one directory."""
    done = promtool("check", "config", "prometheus.yml", cwd=ROOT / "infra")
    assert done.returncode == 0, done.stdout + done.stderr
    volumes = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["prometheus"]["volumes"]
    assert "./infra/alerts.yml:/etc/prometheus/alerts.yml:ro" in volumes


def test_they_are_about_metrics_that_there_are() -> None:
    named = {name for rule in RULES for name in re.findall(r"endmark_(\w+)", rule["expr"])}
    assert named <= CATALOGUE.keys() | OF_THE_SIDECAR
    assert all(rule["annotations"].keys() == {"summary", "action"} for rule in RULES)


class Market:
    """The auction's topics, and what is sent to them.

    Bids have two partitions, of which the second gets one bid at the beginning and no more.
    """

    def __init__(self, broker: Broker) -> None:
        create_topics(broker.bootstrap, {"items": 1, "bids": 2})
        self._broker = broker
        self._sent = 0
        send(broker, "items", item(1))
        send(broker, "bids", bid(1, 1), partition=1)

    def more_bids(self) -> None:
        """Send 20 bids more than the last time.

        State in small segments shrinks whenever they merge, by more than 20 bids take.
        """
        self.bids(min(1000, 20 * (self._sent + 1)))

    def bids(self, count: int) -> None:
        """Bids on items that never come, half a minute after those before."""
        self._sent += 1
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=30 * self._sent)
        later = {"bid_at": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        send(self._broker, "bids", *(bid(1000 * self._sent + number, 1) | later for number in range(count)))


@pytest.mark.timeout(1800)
def test_a_real_prometheus_fires_them(tmp_path: Path) -> None:
    """The rules, with times and sizes that a test can wait for, over a real job and its sidecar: a partition
    holds all back, state grows, the feed stops, the job is killed. None of them fires before."""
    text = sooner((ROOT / "infra/alerts.yml").read_text(), 60)
    for shipped, small in (("> 300", "> 2.5"), ("> 256e6", "> 1e3")):
        assert text.count(shipped) == 1
        text = text.replace(shipped, small)
    with Broker(tmp_path / "broker") as broker:
        market = Market(broker)
        sellers = FeedOptions(seed=5, sellers=20)
        warehouse = Warehouse(tmp_path, broker, f"sqlite:///{tmp_path / 'relation.db'}", sellers)
        job = warehouse.start_job()
        wait_for(lambda: warehouse.batches() > 0, job, seconds=300)
        sidecar = Sidecar(warehouse.ops_url, reach={"bootstrap": broker.bootstrap})
        sidecar.start()
        try:
            with Prometheus(tmp_path / "prometheus", text, sidecar.url) as prometheus:
                prometheus.seconds_until(lambda: prometheus.values("endmark_lag_records") == [0, 0, 0])
                prometheus.seconds_until(lambda: "EndmarkPartitionSilent" in prometheus.firing())
                assert prometheus.firing() == {"EndmarkPartitionSilent"}

                def feed_until(*alerts: str) -> None:
                    def fed() -> bool:
                        market.more_bids()
                        return prometheus.firing() >= set(alerts)

                    prometheus.seconds_until(fed)

                feed_until("EndmarkProgressBlocked", "EndmarkStateGrows")
                assert not prometheus.firing() & {"EndmarkDown", "EndmarkFeedStopped"}

                prometheus.seconds_until(lambda: "EndmarkFeedStopped" in prometheus.firing())
                prometheus.seconds_until(lambda: sum(prometheus.values("endmark_lag_records")) == 0)
                prometheus.seconds_until(lambda: "EndmarkStale" not in prometheus.firing())
                assert not prometheus.firing() & {
                    "EndmarkDown",
                    "EndmarkLagUnknown",
                    "EndmarkPartitionSilent",
                }

                job.kill()
                market.bids(7)
                prometheus.seconds_until(lambda: "EndmarkDown" in prometheus.firing())
                prometheus.seconds_until(lambda: "EndmarkStale" in prometheus.firing())
                assert sum(prometheus.values("endmark_lag_records")) == 7
                said = endmark(
                    "status",
                    "auction",
                    f"--ops-url={warehouse.ops_url}",
                    f"--bootstrap={broker.bootstrap}",
                ).stdout
                assert said.startswith("auction is lost\n")
                assert "behind: 7 records (7 of bids)\n" in said

                broker.stop()
                prometheus.seconds_until(lambda: "EndmarkLagUnknown" in prometheus.firing())
                assert prometheus.values("endmark_lag_records") == []
        finally:
            sidecar.stop()
