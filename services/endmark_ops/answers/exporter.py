"""Collectors for Prometheus: the latest totals of all pipelines as `endmark_<name>`, and failed logins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from endmark.latency import LABELS, buckets_of
from endmark.metrics import CATALOGUE, sample
from endmark_ops.answers.durations import Durations, Histogram
from endmark_ops.answers.health import is_lost
from endmark_ops.answers.totals import by_name
from endmark_ops.http.access import FailedLogins
from endmark_ops.readers.source import Snapshot
from endmark_ops.readers.sources import Sources

OWN = {
    "endmark_run_up": "1 while the latest run is running and its driver gives signs of life.",
    "endmark_run_done_age_seconds": "Seconds since the latest run, with `--available-now`, had read all. It "
    "is left out after another end, and once the next run starts.",
    "endmark_sign_of_life_age_seconds": "Seconds since the driver of the latest run gave a sign of life.",
    "endmark_last_batch_age_seconds": "Seconds since the last batch was committed, or since the run started "
    "if there is none.",
    "endmark_lag_known": "1 while it is known how many records wait in Kafka; else 0, and the number is left "
    "out.",
    "endmark_lag_records": "Records in Kafka that no batch has read yet.",
    "endmark_topic_records_total": "Records that a stream's topic has had.",
}

HISTOGRAMS = {
    "endmark_batch_duration_seconds": "Wall-clock seconds of batches that the sidecar has seen, by pipeline.",
    "endmark_latency_seconds": "Seconds from Kafka's timestamp of a record to the commit of the batch that "
    "read it, by stream.",
}
IN_HISTOGRAMS = {"latency_records_total", "latency_seconds_total"}


class OpsCollector(Collector):
    """A Prometheus collector that reads the ops database at every scrape.

    All series carry the label `pipeline` besides their own labels.

    Raises:
        UnreadableError: `collect` cannot read the database. The scrape fails, so that no old value passes for
            a current one.
    """

    def __init__(self, sources: Sources, durations: Durations) -> None:
        self._sources = sources
        self._durations = durations

    def collect(self) -> Iterable[Metric]:
        families, durations, latencies = _Families(), {}, {}
        for source in self._sources:
            snapshot = source.snapshot()
            durations[source.pipeline] = self._durations.of(source, snapshot.batch)
            latencies[source.pipeline] = snapshot
            _add(families, source.pipeline, snapshot)
        return [*families.in_order(), *_durations(durations), *_latencies(latencies)]


class _Families:
    """The metrics of one scrape by name. Prometheus wants all series of a metric together."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def in_order(self) -> list[Metric]:
        """Return the sidecar's own metrics, then those of the jobs in the order of the catalogue."""
        order = {f"endmark_{name}": number for number, name in enumerate(CATALOGUE, len(OWN))}
        order |= {name: number for number, name in enumerate(OWN)}
        names = sorted(self._families, key=lambda name: order.get(name, len(order)))
        return [self._families[name] for name in names]

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        family = self._families.get(name)
        if family is None:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            known = CATALOGUE.get(name.removeprefix("endmark_"))
            text = OWN.get(name, "" if known is None else known.doc)
            family = self._families[name] = kind(name, text)
        family.add_sample(name, dict(labels), value)


def _histogram(name: str, *labels: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, HISTOGRAMS[name], labels=labels)


def _durations(durations: Mapping[str, Histogram]) -> list[Metric]:
    if not durations:
        return []
    family = _histogram("endmark_batch_duration_seconds", "pipeline")
    for pipeline, found in durations.items():
        family.add_metric([pipeline], found.cumulative(), found.seconds)
    return [family]


def _latencies(snapshots: Mapping[str, Snapshot]) -> list[Metric]:
    """Return the latencies of records. The series of each stream begin at zero, before its first record."""
    family = _histogram("endmark_latency_seconds", "pipeline", "stream")
    for pipeline, snapshot in snapshots.items():
        totals = {} if snapshot.batch is None else snapshot.batch.totals
        for stream in snapshot.streams:
            counts = accumulate(buckets_of(totals, stream))
            seconds = totals.get(sample("latency_seconds_total", stream=stream), 0.0)
            family.add_metric([pipeline, stream], list(zip(LABELS, counts, strict=True)), seconds)
    return [family] if family.samples else []


def _add(families: _Families, pipeline: str, snapshot: Snapshot) -> None:
    own = {"pipeline": pipeline}
    run = snapshot.run
    up = run is not None and run.state == "running" and not is_lost(snapshot)
    families.add("endmark_run_up", own, float(up))
    if run is not None and run.state == "done" and run.stopped_at is not None:
        families.add("endmark_run_done_age_seconds", own, max(0.0, snapshot.now - run.stopped_at))
    if snapshot.sign_of_life_age is not None:
        families.add("endmark_sign_of_life_age_seconds", own, snapshot.sign_of_life_age)
    if (waited := _without_batch(snapshot)) is not None:
        families.add("endmark_last_batch_age_seconds", own, waited)
    families.add("endmark_lag_known", own, float(snapshot.lag is not None))
    for topic, count in (snapshot.lag or {}).items():
        families.add("endmark_lag_records", own | {"topic": topic}, count)
    for topic, count in (snapshot.ends or {}).items():
        families.add("endmark_topic_records_total", own | {"topic": topic}, count)
    for name, samples in by_name(snapshot.totals).items():
        if name in IN_HISTOGRAMS:
            continue
        for labels, value in samples:
            families.add(f"endmark_{name}", labels | own, value)


def _without_batch(snapshot: Snapshot) -> float | None:
    """Return the seconds since the last batch or, before the first one, since the latest run started.

    A job that never commits its first batch would otherwise never be stale. `None`: no job has started.
    """
    if snapshot.batch_age is not None or snapshot.run is None:
        return snapshot.batch_age
    return max(0.0, snapshot.now - snapshot.run.started_at)


OF_LOGINS = {
    "endmark_failed_logins_total": "Requests whose token the sidecar does not know, or that has expired."
}


class LoginCollector(Collector):
    """A Prometheus collector of the sidecar's failed logins since it started, by reason."""

    def __init__(self, failed: FailedLogins) -> None:
        self._failed = failed

    def collect(self) -> Iterable[Metric]:
        [(name, doc)] = OF_LOGINS.items()
        family = CounterMetricFamily(name, doc, labels=["reason"])
        for reason, count in self._failed.counts.items():
            family.add_metric([reason], count)
        yield family
