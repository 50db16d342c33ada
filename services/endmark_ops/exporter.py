"""Collectors for Prometheus: the latest totals of the ops database as `endmark_<name>`, and failed logins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from endmark.metrics import CATALOGUE, Samples
from endmark_ops.access import FailedLogins
from endmark_ops.health import is_lost
from endmark_ops.source import OpsSource, Snapshot
from endmark_ops.totals import by_name


class OpsCollector(Collector):
    """A Prometheus collector that reads the ops database at every scrape.

    Its series carry the label `pipeline` besides their own labels.

    Raises:
        UnreadableError: `collect` cannot read the database. The scrape fails, so that no old value passes for
            a current one.
    """

    def __init__(self, source: OpsSource) -> None:
        self._source = source

    def collect(self) -> Iterable[Metric]:
        snapshot = self._source.snapshot()
        run = snapshot.run
        yield self._gauge(
            "endmark_run_up",
            "1 while the latest run is running and its driver gives signs of life.",
            1.0 if run is not None and run.state == "running" and not is_lost(snapshot) else 0.0,
        )
        if snapshot.sign_of_life_age is not None:
            yield self._gauge(
                "endmark_sign_of_life_age_seconds",
                "Seconds since the driver of the latest run gave a sign of life.",
                snapshot.sign_of_life_age,
            )
        if (waited := _without_batch(snapshot)) is not None:
            yield self._gauge(
                "endmark_last_batch_age_seconds",
                "Seconds since the last batch was committed, or since the run started if there is none.",
                waited,
            )
        yield from self._kafka(snapshot)
        if snapshot.batch is not None:
            yield from self._totals(snapshot.batch.totals)

    def _kafka(self, snapshot: Snapshot) -> Iterator[Metric]:
        known = snapshot.lag is not None
        text = "1 while it is known how many records wait in Kafka; else 0, and the number is left out."
        yield self._gauge("endmark_lag_known", text, float(known))
        if snapshot.lag is None or snapshot.ends is None:
            return
        labels = ["pipeline", "topic"]
        waiting = GaugeMetricFamily(
            "endmark_lag_records", "Records in Kafka that no batch has read yet.", labels=labels
        )
        had = CounterMetricFamily(
            "endmark_topic_records_total", "Records that a stream's topic has had.", labels=labels
        )
        for family, counts in ((waiting, snapshot.lag), (had, snapshot.ends)):
            for topic, count in counts.items():
                family.add_metric([self._source.pipeline, topic], count)
            yield family

    def _totals(self, totals: Samples) -> Iterator[Metric]:
        for name, samples in by_name(totals).items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"endmark_{name}", CATALOGUE.get(name, ""))
            for labels, value in samples:
                family.add_sample(f"endmark_{name}", labels | {"pipeline": self._source.pipeline}, value)
            yield family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["pipeline"])
        family.add_metric([self._source.pipeline], value)
        return family


def _without_batch(snapshot: Snapshot) -> float | None:
    """Return the seconds since the last batch or, before the first one, since the latest run started.

    A job that never commits its first batch would otherwise never be stale. `None`: no job has started.
    """
    if snapshot.batch_age is not None or snapshot.run is None:
        return snapshot.batch_age
    return max(0.0, snapshot.now - snapshot.run.started_at)


class LoginCollector(Collector):
    """A Prometheus collector of the sidecar's failed logins since it started, by reason."""

    def __init__(self, pipeline: str, failed: FailedLogins) -> None:
        self._pipeline = pipeline
        self._failed = failed

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "endmark_failed_logins_total",
            "Requests whose token the sidecar does not know, or that has expired.",
            labels=["pipeline", "reason"],
        )
        for reason, count in self._failed.counts.items():
            family.add_metric([self._pipeline, reason], count)
        yield family
