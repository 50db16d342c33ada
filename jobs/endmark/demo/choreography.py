"""The demo starts broker, relation, feed, job and sidecar, stops the job after the feed, and verifies it.

On request it kills the job on the way, or lets everything but the feed stay after the verification.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from kafka import KafkaConsumer, TopicPartition
from rich.console import Console
from rich.live import Live

from endmark.control.ops_database.database import OpsDatabase
from endmark.demo.kills import Kills
from endmark.demo.view import DemoState, live_view, lookup_lines
from endmark.embedded.broker import Broker
from endmark.embedded.jars import broker_jars
from endmark.embedded.java import require_java
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.ports import require_free_port
from endmark.embedded.process import ManagedProcess
from endmark.errors import MissingPartError
from endmark.metrics import sample
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.spark.processes.class_archive import local_jars
from endmark.verify.report import VerifyReport, render
from endmark.verify.verification import verify
from endmark_feed.auction_feed import FeedOptions, seed_relation
from endmark_feed.examples import EXAMPLES, require_length

if TYPE_CHECKING:
    from collections.abc import Sequence

_BATCH_SECONDS = 300.0  # the longest wait for a batch, on a busy machine


@dataclass(frozen=True)
class DemoOptions:
    """The options of the demo.

    Args:
        example: the example pipeline: `auction`, or one of `EXAMPLES`.
        minutes: how long the feed runs.
        seed: the seed of the feed; equal seeds give equal records.
        rate: the feed's mean records a second.
        sellers: the number of rows of the auction's master table.
        lookup: the kind of database for the master tables.
        directory: where runs are kept, in one folder each.
        port: the port of the dashboard; 0 takes a free one.
        kills: how often the job is killed and started again while the feed runs.
        stay: whether broker, job and dashboard stay after the verification, until Ctrl-C.

    Raises:
        ConfigError: a number is one that the feed does not take.
    """

    example: str
    minutes: float
    seed: int
    rate: float
    sellers: int
    lookup: Literal["sqlite", "mysql"]
    directory: Path
    port: int
    kills: int
    stay: bool = False

    def __post_init__(self) -> None:
        if self.example == "auction":
            FeedOptions(seed=self.seed, minutes=self.minutes, rate=self.rate, sellers=self.sellers)
        else:
            require_length(self.minutes, self.rate)

    @property
    def pipeline(self) -> Path:
        """The pipeline file."""
        return AUCTION.with_name(f"{self.example}.yaml")


def run_demo(options: DemoOptions, *, as_json: bool) -> bool:
    """Run the demo; return whether `verify` found the result right.

    Raises:
        MissingPartError: the port is in use, or a part cannot start or ends too early.
    """
    require_free_port(options.port, "dashboard")
    folder = new_folder(options.directory)
    with ExitStack() as parts:
        demo = _Demo(options, folder, parts, Console(stderr=as_json))
        report = demo.run()
        if as_json:
            typer.echo(report.to_json())
        else:
            demo.console.print(render(report))
            warehouse = os.path.relpath(folder / "warehouse")
            demo.console.print(f"Delta tables are in {warehouse}, logs and checkpoint beside it")
        if options.stay:
            demo.stay()
    return report.ok


def new_folder(directory: Path) -> Path:
    """Make the folder of a run, which is named by the time, and numbered if there is one of that name."""
    first = (directory / time.strftime("%Y%m%d-%H%M%S")).absolute()
    folder, number = first, 1
    while True:
        try:
            folder.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            number += 1
            folder = first.with_name(f"{first.name}-{number}")
        else:
            return folder


class _Demo:
    def __init__(self, options: DemoOptions, folder: Path, parts: ExitStack, console: Console) -> None:
        self._options = options
        self._folder = folder
        self._parts = parts
        self.console = console
        self._warehouse = folder / "warehouse"
        self._ops_url = f"sqlite:///{folder / 'ops.db'}"
        self._staying: list[ManagedProcess] = []
        self._reach = ""

    def run(self) -> VerifyReport:
        require_java()
        local_jars(self._say)
        broker_jars(self._say)
        self._start_relation()
        pipeline = load(self._options.pipeline)
        self._say("starting the broker")
        broker = self._parts.enter_context(Broker(self._folder / "broker", say=self._say))
        feed = self._start_feed(broker.bootstrap)
        kills = Kills(self._options.kills, self._options.minutes * 60)
        job = self._start_job(broker.bootstrap)
        ops = self._parts.enter_context(closing(OpsDatabase(self._ops_url)))
        url = self._start_sidecar(broker.bootstrap)
        self._say(f"dashboard: {url}   metrics: {url}metrics   logs: {os.path.relpath(self._folder)}")
        job = self._watch(DemoState(pipeline.name, url, ops), feed, job, kills, broker.bootstrap)
        if self._options.stay:
            self._say("recomputing everything from Kafka and the relation, beside the idle job")
            self._staying = [job, *self._staying]
            self._reach = f"--bootstrap={broker.bootstrap} --ops-url={self._ops_url}"
        else:
            self._say("stopping the job, then recomputing everything from Kafka and the relation")
            job.stop()
        return verify(pipeline, broker.bootstrap, self._warehouse)

    def stay(self) -> None:
        """Keep broker, job and dashboard until Ctrl-C.

        Raises:
            MissingPartError: the job or the dashboard has ended.
        """
        self._say(f"commands reach the broker and the job with {self._reach}")
        self._say("broker, job and dashboard stay until Ctrl-C")
        try:
            while all(part.running for part in self._staying):
                time.sleep(0.5)
        except KeyboardInterrupt:
            self._say("stopping")
            return
        ended = next(part for part in self._staying if not part.running)
        raise MissingPartError(f"{ended.name} ended: {_last_error(ended.log)}; see {ended.log}")

    def _say(self, text: str) -> None:
        # Whoever copies a URL or a path needs it in one piece.
        said = f"[dim]{time.strftime('%H:%M:%S')}[/dim] {text}"
        self.console.print(said, highlight=False, soft_wrap=True)

    def _start_relation(self) -> None:
        if self._options.lookup == "mysql":
            self._say("starting MariaDB")
            url = self._parts.enter_context(MariaDb(self._folder / "mariadb")).url
        else:
            url = f"sqlite:///{self._folder / 'relation.db'}"
        # The URL is in the environment, since the list of processes shows command lines to all users.
        os.environ["ENDMARK_RELATION_URL"] = url
        options = self._options
        if options.example == "auction":
            rows = seed_relation(url, options.sellers, options.seed)
        else:
            rows = EXAMPLES[options.example].fill(url, options.seed)
        self._say(f"master tables: {rows:,} rows in {options.lookup}")

    def _start_feed(self, bootstrap: str) -> ManagedProcess:
        options = self._options
        self._say(f"feeding {options.rate:,.0f} records/s for {options.minutes:g} min, seed {options.seed}")
        arguments = [
            f"--bootstrap={bootstrap}",
            f"--seed={options.seed}",
            f"--minutes={options.minutes}",
            f"--rate={options.rate}",
        ]
        if options.example == "auction":
            return self._start("feed", [*arguments, f"--sellers={options.sellers}"])
        return self._start("feed-example", [options.example, *arguments])

    def _start_job(self, bootstrap: str) -> ManagedProcess:
        self._say("starting the Spark job")
        arguments = [
            str(self._options.pipeline.absolute()),
            f"--bootstrap={bootstrap}",
            f"--warehouse={self._warehouse}",
            f"--checkpoint={self._folder / 'checkpoint'}",
            f"--ops-url={self._ops_url}",
        ]
        return self._start("run", arguments)

    def _start_sidecar(self, bootstrap: str) -> str:
        token = secrets.token_hex(12)
        os.environ["ENDMARK_OPS_TOKENS"] = f"demo:write:{token}"
        self._say(f"token to turn knobs and replay dead letters with: {token}")
        arguments = [
            f"--ops-url={self._ops_url}",
            f"--port={self._options.port}",
            f"--bootstrap={bootstrap}",
            f"--warehouse={self._warehouse}",
        ]
        sidecar = self._start("ops", arguments)
        found: list[str] = []

        def is_ready() -> bool:
            found.extend(line["url"] for line in json_lines(sidecar.log) if "url" in line)
            return bool(found)

        sidecar.wait_ready(is_ready, seconds=30)
        self._staying.append(sidecar)
        return found[0]

    def _start(self, command: str, arguments: Sequence[str]) -> ManagedProcess:
        line = [sys.executable, "-m", "endmark.cli", command, *arguments, "--json"]
        log = self._folder / f"{command}.log"
        return self._parts.enter_context(ManagedProcess(f"endmark {command}", line, log, stop_seconds=90))

    def _watch(
        self, state: DemoState, feed: ManagedProcess, job: ManagedProcess, kills: Kills, bootstrap: str
    ) -> ManagedProcess:
        """Show progress until the feed is done and the job has read all its records.

        Returns:
            The job, which is another one after a kill.
        """
        newest, since = -1, time.monotonic()
        with Live(console=self.console, refresh_per_second=2, transient=True) as live:
            while True:
                fed = [line for line in json_lines(feed.log) if "records" in line]
                state.fed = fed[-1]["records"] if fed else 0
                live.update(live_view(state))
                if not job.running:
                    raise MissingPartError(f"the job ended: {_last_error(job.log)}; see {job.log}")
                batch = state.ops.batches.latest(state.pipeline)
                if feed.running or (batch is not None and batch.batch_id > newest):
                    since = time.monotonic()
                newest = -1 if batch is None else batch.batch_id
                if kills.due(newest):
                    job.kill()
                    self._say(f"killed the job (SIGKILL), time {kills.done} of {kills.number}")
                    job = self._start_job(bootstrap)
                if not feed.running:
                    feed.wait_done(1)
                    if caught_up(state.ops, state.pipeline, bootstrap):
                        break
                    if time.monotonic() - since > _BATCH_SECONDS:
                        raise MissingPartError(
                            f"the job has finished no batch for {_BATCH_SECONDS:.0f} s; see {job.log}"
                        )
                time.sleep(0.5)
        self.console.print(live_view(state))
        for lookup in lookup_lines(state):
            self.console.print(lookup)
        if kills.done < kills.number:
            self._say(
                f"killed the job {kills.done} times, since the feed ended first; give it more --minutes"
            )
        return job


def caught_up(ops: OpsDatabase, pipeline: str, bootstrap: str) -> bool:
    """Return whether the job has finished a batch that reaches the end of every partition, and no row waits.

    Args:
        ops: the ops database.
        pipeline: the pipeline's name.
        bootstrap: the broker's host:port.
    """
    batch = ops.batches.latest(pipeline)
    # A batch that found the topics empty has no offsets.
    if batch is None or not batch.offsets or sample("batch_due_time_seconds") in batch.samples:
        return False
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        for topic, read in batch.offsets.items():
            partitions = [
                TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()
            ]
            ends = consumer.end_offsets(partitions)
            if any(end > read.get(str(partition.partition), 0) for partition, end in ends.items()):
                return False
    finally:
        consumer.close()
    return True


def json_lines(log: Path) -> list[dict[str, Any]]:
    """Return the JSON objects among the lines of a log, without a line that is still being written."""
    found = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def _last_error(log: Path) -> str:
    errors = [line["error"] for line in json_lines(log) if "error" in line]
    return str(errors[-1]) if errors else "without a word"
