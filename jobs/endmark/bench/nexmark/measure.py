"""`endmark bench nexmark`: queries of Nexmark on frames, beside Spark's own operators, on one recording.

A rate is that of the rows of the streams that a query reads, after the first third of the batches, from
trigger to commit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.bench.contest import Digest, DisagreementError, Rates, compared, in_process, interleaved
from endmark.bench.nexmark.events import Generator
from endmark.bench.nexmark.queries import QUERIES
from endmark.bench.nexmark.record import Recording
from endmark.bench.report import origin
from endmark.errors import ConfigError
from endmark.parts.jars import spark_jars

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "endmark"
_SPARK = "endmark.bench.nexmark.run"
# By name, the module that runs it.
CONTENDERS = {
    "endmark": _SPARK,
    "spark": _SPARK,
    "spark-bounded": _SPARK,
    "duckdb": "endmark.bench.nexmark.at_once",
}


@dataclass(frozen=True)
class Options:
    """What is measured.

    Args:
        queries: by name.
        batches, batch_events: how many there are, and events of each, of all streams.
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
        for option, names, known in (
            ("query", self.queries, list(QUERIES)),
            ("contender", self.contenders, list(CONTENDERS)),
        ):
            if unknown := [name for name in names if name not in known]:
                raise ConfigError(f"--{option}: {unknown[0]!r} is not one of {', '.join(known)}")
        if self.batch_events % 100:
            raise ConfigError(
                f"--batch-events: {self.batch_events} is no multiple of 100; a batch is two files of each "
                "stream, and 50 events are a person, 3 auctions and 46 bids"
            )

    @property
    def recording(self) -> Recording:
        place = f"nexmark-{self.batches}x{self.batch_events}-{self.rate}"
        return Recording(self.directory / place, Generator(rate=self.rate), self.batches, self.batch_events)


def measure(options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Run every contender on every query, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or two gave different answers.
    """
    report = {"bench": "nexmark", **origin()}
    jars = [str(jar) for jar in spark_jars(say)]
    recording = options.recording
    if not recording.directory.exists():
        say(f"recording {options.batches * options.batch_events:,} events in {recording.directory}")
        recording.make()
    turns = [(name, query) for query in options.queries for name in _contenders(query, options)]
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    given: dict[str, Digest] = {}
    for repeat, (name, query) in interleaved(turns, options.repeats):
        task = {"contender": name, "query": query, "recording": recording.told(), "jars": jars}
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


def _contenders(query: str, options: Options) -> list[str]:
    left_out = QUERIES[query].left_out
    return [name for name in CONTENDERS if name in (OURS, *options.contenders) and name not in left_out]
