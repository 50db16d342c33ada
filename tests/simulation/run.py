"""One run of a job, as Spark drives it: plan a batch, log its offsets, run its tasks, write, commit.

A batch without a commit is repeated with the same offsets, and with the state of the batch before. The tasks,
the sink and the commits of tables are the product's own.
"""

from __future__ import annotations

import copy
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark import TaskContext

from endmark import storage
from endmark.control.pulse import Pulse
from endmark.driver import table_log
from endmark.driver.pace import NewPaceError, Pace
from endmark.driver.quarantine import Quarantine
from endmark.driver.table_log import TableLog
from endmark.engine import channels, delta_files, delta_log, segment_cache
from endmark.engine.bucket import process_caches
from endmark.engine.stored_task import SNAPSHOT, is_idle
from endmark.errors import EndmarkError
from endmark.kafka.offsets import Offsets, limited, ranges, shared_out
from endmark.maintenance import merge, merge_final
from endmark.pipeline.tables import FINAL
from endmark.spark import query_log
from endmark.spark.sink import JobRun, Sink
from endmark.wire.control import PULSE
from simulation.broker import Broker
from simulation.clock import Clock
from simulation.faults import IN_DRIVER, KINDS, Faults, KilledError, LostTaskError
from simulation.job import Job, unthreaded
from simulation.ledger import Ledger
from simulation.state_store import At, Handle, State, StateStore
from support.bucket_tasks import Tables
from support.delta_batches import rows_by_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from endmark.kafka.ranges import Range
    from endmark.spark.tables import Target
    from endmark.storage import Location

_TOLD = (channels.RESULTS, channels.ANNOUNCED)
_MOST_BATCHES = 120
_MOST_STARTS = 200


class Packed(NamedTuple):
    """A packed row."""

    bucket: int
    channel: str
    blob: bytes


_Done = tuple[list[Packed], State | None]  # what an attempt at a task leaves: its rows and its state


class _Output(NamedTuple):
    """The output of a task: the rows of the attempt that counts, and those of another one."""

    counts: list[Packed]
    other: list[Packed] | None


@dataclass(frozen=True)
class Schedule:
    """The seed, faults and sizes of a run.

    Args:
        seed: decides everything that no other field does.
        kinds: the kinds of faults that may happen.
        most: the most records of a batch.
        readers: the tasks that read.
        chunk: the most records that a task reads at once.
        only: the names of the faults that happen; `None`: all that are drawn.
    """

    seed: int
    kinds: tuple[str, ...] = ()
    most: int = 20
    readers: int = 2
    chunk: int = 8
    only: tuple[str, ...] | None = None

    @classmethod
    def of(cls, seed: int) -> Schedule:
        """Draw the schedule of a seed: some kinds of faults, as a swarm picks them."""
        chance = random.Random(f"schedule {seed}")
        kinds = tuple(kind for kind in KINDS if chance.random() < chance.choice([0.15, 0.4]))
        return cls(
            seed,
            kinds,
            chance.choice([20, 40, 500]),
            chance.choice([1, 1, 2, 3]),
            chance.choice([1, 8, 8, 500, 500, 500]),
        )


@dataclass
class Outcome:
    """The tables, states and trace that a run leaves.

    Args:
        tables: the rows of all tables, by channel.
        by_batch: results and output punctuations of each batch, where a table has them in its files.
        states: the state of each bucket, as the last batch has left it.
        trace: what has happened, in order.
        trace_hash: the hash of the trace.
        injected: the kinds of the faults that have happened, by their names.
        batches: the number of batches.
        pulses: the control records that the job has sent.
        failure: the error that ended the run too early; `None` if none did.
    """

    tables: Tables
    by_batch: list[Tables]
    states: Sequence[State]
    trace: list[str]
    trace_hash: str
    injected: Mapping[str, str]
    batches: int
    pulses: int
    ledger: Ledger
    offsets: Offsets
    failure: str | None = None


class StuckError(Exception):
    """The job makes no progress."""


@dataclass
class _Checkpoint:
    """The content of Spark's checkpoint: planned offsets, the number of committed batches, and states."""

    planned: list[Offsets] = field(default_factory=list)
    committed: int = 0
    store: StateStore = field(default_factory=StateStore)


class Run:
    """A run of a job by a schedule.

    Args:
        job: the job.
        schedule: the schedule.
    """

    def __init__(self, job: Job, schedule: Schedule) -> None:
        self._job = job
        self._schedule = schedule
        self._faults = Faults(schedule.seed, schedule.kinds, schedule.only)
        self._clock = Clock()
        self._broker = Broker(job.records, job.world.pipeline.control_topic)
        self._ledger = Ledger(partial(self._faults.kill, "committed", "before the ops database"))
        self._checkpoint = _Checkpoint()
        self._pulses = self._rounds = self._starts = 0
        self._attempts: dict[int, int] = {}
        self._states: dict[At, int] = {}
        self._has_commit = self._is_doubled = False

    def outcome(self) -> Outcome:
        """Run the job until nothing is left to do, and read its tables."""
        failure = None
        with self._simulated():
            try:
                self._run()
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
        tables = {table.channel: _rows(table.path) for table in self._job.tables}
        faults = self._faults
        faults.say(f"tables {digest(tables)}")
        planned = self._checkpoint.planned
        return Outcome(
            tables,
            self._by_batch(),
            list(self._checkpoint.store.committed.values()),
            faults.trace,
            faults.trace_hash,
            faults.injected,
            self._checkpoint.committed,
            self._pulses,
            self._ledger,
            planned[-1] if planned else {},
            failure,
        )

    @contextmanager
    def _simulated(self) -> Iterator[None]:
        """The product asks the simulated parts, and meets faults between its steps."""
        chance = random.Random(self._schedule.seed)
        write, commit, write_version = storage.write_parquet, TableLog.commit, delta_log.commit_files

        def write_parquet(directory: Location, name: str, rows: pa.Table) -> int:
            self._faults.lose("file", "file begins")
            size = write(directory, name, rows)
            if self._faults.ends_tasks and self._faults.happens("torn file", "file"):
                file = Path(str(directory)) / name
                file.write_bytes(file.read_bytes()[: size // 2])
                raise LostTaskError(name)
            self._faults.lose("file", "file ends")
            return size

        def committed(log: TableLog, files: Any, batch_id: int, deleted: Any = ()) -> None:
            name = log._table.path.name
            self._faults.kill("between tables" if self._has_commit else "commit", f"before {name}")
            self._keep_up(name)
            commit(log, files, batch_id, deleted)
            self._has_commit = True
            self._faults.say(f"{name} has {len(files)} and {len(deleted)} files")

        def commit_files(table: DeltaTable, *files: Any, **more: Any) -> None:
            name = table.table_uri.rstrip("/").rpartition("/")[2]
            self._keep_up(name)
            write_version(table, *files, **more)
            if self._faults.happens("answer lost", name):
                raise CommitFailedError("the answer was lost")

        def new_id() -> uuid.UUID:
            return uuid.UUID(int=chance.getrandbits(128), version=4)

        with ExitStack() as patched:
            for context in (
                self._clock.running(),
                unthreaded(),
                self._job.world.merging.limits(),
                self._job.expressions.remembered(),
                patch.object(uuid, "uuid4", new_id),
                patch.object(delta_files, "write_parquet", write_parquet),
                patch.object(TableLog, "commit", committed),
                patch.object(table_log, "commit_files", commit_files),
                patch.object(delta_log, "commit_files", commit_files),
                patch.object(segment_cache, "cache_directory", lambda: self._job.segments),
                patch.object(query_log, "mute", lambda session: None),
            ):
                patched.enter_context(context)
            self._job.begin()
            for relation in self._job.relations.values():
                relation.begin(self._faults, self._clock)
            yield

    def _keep_up(self, name: str) -> None:
        """Maintain a table, if that is the fault that happens now."""
        if self._faults.happens("upkeep", name):
            [table] = [each for each in self._job.tables if each.path.name == name]
            with self._faults.muted():
                _maintain(table)

    def _by_batch(self) -> list[Tables]:
        shown = [table for table in self._job.tables if table.channel in _TOLD and not table.partition_by]
        if len(shown) < len(_TOLD):
            return []
        found = {table.channel: rows_by_batch(Path(str(table.path))) for table in shown}
        return [
            {channel: batches.get(number, []) for channel, batches in found.items()}
            for number in range(self._checkpoint.committed)
        ]

    def _run(self) -> None:
        while True:
            self._starts += 1
            if self._starts > _MOST_STARTS:
                raise StuckError("the job was started too often")
            try:
                if self._process():
                    return
            except KilledError:
                self._faults.say("the driver starts again")
            for relation in self._job.relations.values():
                relation.end_outage()

    def _process(self) -> bool:
        """Run the job in one process of the driver; return whether everything is done."""
        job, pipeline = self._job, self._job.world.pipeline
        process_caches._caches_of_job.cache_clear()
        pace = Pace(pipeline, self._ledger.turns.all, fixed=False, clock=lambda: self._clock.seconds)
        pulse = Pulse("", pipeline.control_topic)
        run = JobRun(job.app_id, "run", job.tables, {}, self._ledger, job.partitions, self._faults.say)  # type: ignore[arg-type]
        sink = Sink(pipeline, run, pulse, pace, Quarantine(pipeline))
        if self._ledger.batches.last is not None:
            pulse.batch_done(*self._ledger.batches.last)
        self._plan_tasks(sink)
        pace.start()
        while self._plan(pulse, pace):
            number = self._checkpoint.committed
            self._attempts[number] = self._attempts.get(number, -1) + 1
            self._faults.batch(number, self._attempts[number])
            if not self._attempts[number]:
                self._rescale(sink)
            if self._faults.happens("clock moves", "before the batch"):
                self._clock.move(3 * self._faults.share("clock", self._clock.now))
            try:
                self._batch(sink, number)
            except NewPaceError:
                pace.start()
            except EndmarkError as error:
                if "does not answer" not in str(error):
                    raise
                return False
        return True

    def _plan_tasks(self, sink: Sink) -> None:
        with self._faults.muted():
            self._planned = self._job.planned(sink, doubled=self._is_doubled)

    def _rescale(self, sink: Sink) -> None:
        """Double the number of buckets, if that is the fault that happens now, and no row waits.

        A job never does so before it repeats a batch (`can_rescale`). With other buckets, the batch might
        announce other patterns than those that its tables have from the attempt before.
        """
        states = self._checkpoint.store.committed
        snapshots = [bytes(state.maps["state"][SNAPSHOT,][0]) for state in states.values()]
        if self._is_doubled or not snapshots or not all(map(is_idle, snapshots)):
            return
        if self._faults.happens("buckets doubled", "before the batch"):
            for (stage, label), state in states.items():
                number = self._planned.buckets.labels.index(label)
                blobs = [(blob_id, bytes(data)) for (blob_id,), (data,) in state.maps["state"].items()]
                self._job.earlier.state(stage, number).write(blobs)
            self._is_doubled = True
            self._plan_tasks(sink)

    def _plan(self, pulse: Pulse, pace: Pace) -> bool:
        """Log the offsets of the next batch, unless they are; return whether there is a batch to run."""
        checkpoint, broker = self._checkpoint, self._broker
        if len(checkpoint.planned) > checkpoint.committed:
            return True
        if checkpoint.committed > _MOST_BATCHES:
            raise StuckError(f"{checkpoint.committed} batches are not enough")
        start = checkpoint.planned[-1] if checkpoint.planned else {}
        end = start
        while not ranges(start, end):
            if not broker.is_empty:
                self._rounds += 1
                broker.arrive(partial(self._arriving, self._rounds))
            elif not ranges(start, broker.ends()):
                if pulse.due is None:
                    return False
                self._clock.now = max(self._clock.now, round(1e9 * pulse.due))
                self._pulses += 1
                broker.send(PULSE, self._clock.now // 1_000_000)
            end = limited(start, broker.ends(), min(pace.records, self._schedule.most))
        checkpoint.planned.append(end)
        return True

    def _arriving(self, number: int, partition: str) -> float:
        """The share of a partition's records that arrives now."""
        if number > 4:
            return 1.0
        drawn = self._faults.share("arrive", number, partition)
        return 0.0 if drawn < 0.3 else drawn - 0.3

    def _batch(self, sink: Sink, number: int) -> None:
        faults, checkpoint = self._faults, self._checkpoint
        start, end = ({}, *checkpoint.planned)[number], checkpoint.planned[number]
        read = ranges(start, end)
        faults.say(" ".join(f"{each.topic}/{each.partition}:{each.first}-{each.end}" for each in read))
        faults.kill("planned", "the offsets are logged")
        self._states, self._has_commit = {}, False
        with _tasks_of_batch(number):
            sink(_Frame(partial(self._collected, read)), number)  # type: ignore[arg-type]
        faults.kill("committed", "before the commit log")
        checkpoint.store.commit(self._states)
        checkpoint.committed += 1
        faults.kill("logged", "behind the commit log")

    def _collected(self, read: Sequence[Range]) -> list[Packed]:
        """Run all tasks of a batch; return the output of the last stage."""
        outputs = [
            self._task(f"reader {number}", partial(self._read, share), None)
            for number, share in enumerate(shared_out(read, self._schedule.readers))
        ]
        for stage, processor in enumerate(self._planned.processors):
            labels = dict.fromkeys(row.bucket for output in outputs for row in output.counts)
            outputs = [
                self._task(
                    f"stage {stage} bucket {label}",
                    partial(self._stage, processor, (stage, label), self._blocks(outputs, stage, label)),
                    (stage, label),
                )
                for label in labels
            ]
        return [row for output in outputs for row in output.counts]

    def _blocks(self, outputs: Sequence[_Output], stage: int, label: int) -> list[Packed]:
        """Return the rows that a bucket gets of the tasks of the stage before."""
        faults, found = self._faults, []
        for number, output in enumerate(outputs):
            mixed = (
                output.other is not None
                and faults.share("mixed", self._clock.now, stage, label, number) < 0.5
            )
            rows = output.other if mixed and output.other is not None else output.counts
            found += [row for row in rows if row.bucket == label]
        if len(found) > 1 and faults.happens("blocks reordered", f"stage {stage} bucket {label}"):
            random.Random(faults.share("order", stage, label, len(faults.trace))).shuffle(found)
        return found

    def _task(self, name: str, work: partial[_Done], at: At | None) -> _Output:
        """Run the attempts at a task until one ends; sometimes run one more, and choose."""
        faults, attempt = self._faults, 0
        done: list[_Done] = []
        wanted, mixed = 1, False
        while len(done) < wanted:
            faults.task(attempt)
            if faults.happens("worker restarted", name):
                process_caches._caches_of_job.cache_clear()
            with suppress(LostTaskError):
                done.append(work(name))
            attempt += 1
            if len(done) == 1 and wanted == 1:
                twin, mixed = (faults.happens(kind, name) for kind in ("twin", "mixed attempts"))
                wanted += twin or mixed
        faults.task(IN_DRIVER)
        chosen = int(faults.share("chosen", name, len(faults.trace)) * wanted)
        rows, state = done[chosen]
        if at is not None and state is not None:
            self._states[at] = self._checkpoint.store.keep(at, state)
        faults.say(f"{name}: {len(rows)} rows")
        return _Output(rows, done[1 - chosen][0] if mixed else None)

    def _read(self, share: Sequence[Range], name: str) -> _Done:
        def batches() -> Iterator[pa.RecordBatch]:
            for batch in self._broker.read(share, self._schedule.chunk):
                self._faults.lose("reading", name)
                yield batch

        packed = [Packed(**row) for rows in self._planned.ingest()(batches()) for row in rows.to_pylist()]
        self._faults.lose("reading", f"{name} ends")
        return packed, None

    def _stage(self, operator: Any, at: At, rows: Sequence[Packed], name: str) -> _Done:
        state = self._checkpoint.store.load(at)
        processor = copy.copy(operator)
        processor.init(Handle(state, lambda: self._faults.lose("state", name)))
        self._faults.lose("stage", f"{name} begins")
        found = [
            Packed(*row) if len(row) == 3 else Packed(at[1], *row)
            for row in processor.handleInputRows((at[1],), iter(rows), None)
        ]
        self._faults.lose("stage", f"{name} ends")
        return found, state


@dataclass(frozen=True)
class _Frame:
    """The DataFrame of a batch, of which the sink wants all rows."""

    collect: partial[list[Packed]]
    sparkSession: None = None  # noqa: N815


@contextmanager
def _tasks_of_batch(number: int) -> Iterator[None]:
    """Let tasks find the number of their batch where Spark has it.

    Behind it, the process is no task any more: a process that is one cannot start a Spark session.
    """
    with patch.object(TaskContext, "_taskContext", None):
        context = TaskContext._getOrCreate()
        context._localProperties = {"streaming.sql.batchId": str(number)}
        yield


def _maintain(target: Target) -> None:
    """Merge the files of a table as `endmark maintain` does it."""
    table = DeltaTable(str(target.path))
    if FINAL in table.metadata().partition_columns:
        merge_final(table, target.path)
    elif not target.key:
        merge(table, target.path)


def _rows(path: Location) -> list[dict[str, Any]]:
    table = DeltaTable(str(path))
    return table.to_pyarrow_table().to_pylist() if table.version() else []


def digest(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The hash of tables as multisets of rows."""
    lines = [f"{name} {line}" for name in sorted(tables) for line in sorted(map(repr, tables[name]))]
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
