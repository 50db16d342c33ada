"""`python -m endmark_benchmarks nexmark`: queries of Nexmark on frames, beside Spark's own operators.

A rate is that of the rows of the streams that a query reads, after the first third of the batches, from
trigger to commit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.errors import ConfigError
from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.harness.contest import (
    Digest,
    DisagreementError,
    Rates,
    compared,
    in_process,
    interleaved,
    require_known,
)
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.nexmark.events import AUCTIONS, BIDS, PERSONS, Generator
from endmark_benchmarks.workloads.nexmark.queries import QUERIES
from endmark_benchmarks.workloads.nexmark.record import Recording

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "endmark"
# Without bids, of which there are 46 in 50, a batch of as many events measures what a batch costs at all.
_WITHOUT_BIDS = 8
_SPARK = "endmark_benchmarks.contenders.nexmark_run"
# By name, the module that runs it.
CONTENDERS = {
    "endmark": _SPARK,
    "spark": _SPARK,
    "spark-bounded": _SPARK,
    "duckdb": "endmark_benchmarks.contenders.nexmark_duckdb",
}


@dataclass(frozen=True)
class NexmarkOptions:
    """The options of the measurement.

    Args:
        queries: by name.
        batches, batch_events: how many there are, and events of each, of all streams; eight times as many for
            queries that read no bids.
        rate: events for each second of event time.
        repeats: runs of each contender.
        contenders: by name; `OURS` is always among them.
        directory: of recorded input, which is made when it is not there.
    """

    queries: tuple[str, ...]
    batches: int
    batch_events: int
    rate: int
    repeats: int
    contenders: tuple[str, ...]
    directory: Path

    def __post_init__(self) -> None:
        require_known("query", self.queries, QUERIES)
        require_known("contender", self.contenders, CONTENDERS)
        if self.batch_events % 100:
            raise ConfigError(
                f"--batch-events: {self.batch_events} is no multiple of 100; a batch is two files of each "
                "stream, and 50 events are a person, 3 auctions and 46 bids"
            )

    def recording(self, query: str) -> Recording:
        """Return the recorded input of a query."""
        events, generator = self.batch_events, Generator(rate=self.rate)
        if BIDS in QUERIES[query].streams:
            place = self.directory / f"nexmark-{self.batches}x{events}-{self.rate}"
            return Recording(place, generator, self.batches, events)
        events *= _WITHOUT_BIDS
        place = self.directory / f"nexmark-{self.batches}x{events}-{self.rate}-without-bids"
        return Recording(place, generator, self.batches, events, (PERSONS, AUCTIONS))


def measure(options: NexmarkOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run every contender on every query, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or two gave different answers.
    """
    report = {"bench": "nexmark", **origin()}
    jars = [str(jar) for jar in local_jars(say)]
    recordings = {query: options.recording(query) for query in options.queries}
    for recording in recordings.values():
        if not recording.directory.exists():
            say(f"recording {recording.batches * recording.batch_events:,} events in {recording.directory}")
            recording.make()
    turns = [(name, query) for query in options.queries for name in _contenders(query, options)]
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    given: dict[str, Digest] = {}
    for repeat, (name, query) in interleaved(turns, options.repeats):
        task = {"contender": name, "query": query, "recording": recordings[query].to_json(), "jars": jars}
        [run] = in_process(CONTENDERS[name], task)
        answers = Digest(*run["given"])
        if given.setdefault(query, answers) != answers:
            raise DisagreementError(
                f"{query}: {name} gave {answers.rows:,} answers of digest {answers[1:]}, but {OURS} "
                f"{given[query].rows:,} of {given[query][1:]}; there is nothing to compare"
            )
        rates[query][name].append(run["rate"])
        say(f"{repeat + 1}: {query}, {name}: {run['rate']:,.0f} rows/s, {answers.rows:,} answers")
    report["options"] = {
        "batches": options.batches,
        "batch_events": options.batch_events,
        "rate": options.rate,
        "repeats": options.repeats,
    }
    report["cells"] = [
        {
            "title": f"{query}, {QUERIES[query].title}, {given[query].rows:,} answers",
            "contenders": compared({name: Rates.of(each) for name, each in found.items()}, OURS),
        }
        for query, found in rates.items()
    ]
    return report


def _contenders(query: str, options: NexmarkOptions) -> list[str]:
    left_out = QUERIES[query].left_out
    return [name for name in CONTENDERS if name in (OURS, *options.contenders) and name not in left_out]
