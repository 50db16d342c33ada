"""The Prometheus view of the ops database: the latest totals as `endmark_<name>`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from endmark.metrics import CATALOGUE, Samples
from endmark_ops.source import OpsSource
from endmark_ops.totals import by_name


class OpsCollector(Collector):
    """Reads the ops database at every scrape. Series carry the label `pipeline` besides their own.

    Raises:
        UnreadableError: from `collect`, so that the scrape fails and no old value is shown as current.
    """

    def __init__(self, source: OpsSource) -> None:
        self._source = source

    def collect(self) -> Iterable[Metric]:
        snapshot = self._source.snapshot()
        run = snapshot.run
        yield self._gauge(
            "endmark_run_up",
            "1 while the latest run is running, as far as it told.",
            1.0 if run is not None and run.state == "running" else 0.0,
        )
        if snapshot.batch_age is not None:
            yield self._gauge(
                "endmark_last_batch_age_seconds",
                "Seconds since the last batch was committed.",
                snapshot.batch_age,
            )
        if snapshot.batch is not None:
            yield from self._totals(snapshot.batch.totals)

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
