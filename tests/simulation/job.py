"""The plan of a job in a world, in the form in which Spark gets it, and its tables before the first batch."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from unittest.mock import patch

from pyspark.cloudpickle import dumps, loads

from endmark.driver.checkpoint import claimed
from endmark.engine.bucket.lookup_levels import lookup_positions
from endmark.engine.bucket.lookup_plan import LookupPlan, lookup_plan, unpaged_lookups
from endmark.engine.channels import Buckets
from endmark.engine.earlier_buckets import EarlierBuckets
from endmark.engine.ingest.control_rows import ControlPlan
from endmark.engine.ingest.ingest import Ingest
from endmark.engine.stages import group_stages, stage_plans
from endmark.engine.streams import StreamPlan, stream_plans
from endmark.operators.lookup import gate
from endmark.pipeline import Lookup
from endmark.relation import read_ahead
from endmark.spark.plan import processors
from endmark.spark.tables import prepare, targets
from simulation.broker import partitioned
from simulation.clock import Clock
from simulation.expressions import Expressions
from simulation.relation import PAGE_ROWS, SimulatedRelation
from support.bucket_tasks import LABELS, relation_in_memory
from support.verify_others import OTHERS
from support.verify_recompute import sellers_of
from support.verify_world import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from endmark.spark.sink import Sink
    from simulation.world import World


# A bucket keeps its label when the number of buckets is doubled, as with `endmark.spark.plan.bucket_labels`.
_LABELS = (*LABELS, 14)


class Planned(NamedTuple):
    """The plans of all tasks.

    Attributes:
        buckets: the buckets of each stage.
        processors: the operator of each stage.
        pickled: the plan of the tasks that read.
    """

    buckets: Buckets
    processors: Sequence[Any]
    pickled: bytes

    def ingest(self) -> Ingest:
        """Return what a task that reads gets."""
        found: Ingest = loads(self.pickled)
        return found


class Job:
    """A job whose runs all begin anew.

    Attributes:
        world: the world.
        tables: the tables.
        partitions: the partitions of each topic, also of the control topic.
        relations: the relations by name.
        records: the records of each partition.
        expressions: the answers of regular expressions.

    Args:
        world: the world.
        directory: an empty directory, for all runs.
    """

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        pipeline = world.pipeline
        self.directory = directory
        self._empty = directory / "empty"
        self.tables = targets(pipeline, self.warehouse)
        checkpoint = directory / "checkpoint"
        with claimed(checkpoint) as self.app_id:
            prepare({table.channel: table for table in self.tables}, self.app_id, checkpoint)
        shutil.copytree(self.warehouse, self._empty)
        self.partitions = {**world.partitions, pipeline.control_topic: 1}
        self.records = partitioned(locate(world.records), self.partitions)
        self.relations: dict[str, SimulatedRelation] = {}
        self.expressions = Expressions()
        for name, declared in pipeline.relations.items():
            held = relation_in_memory(declared, OTHERS.get(name, sellers_of(pipeline)))
            rows = held.pages([(None, None)])
            self.relations[name] = SimulatedRelation(name, rows, declared.key)
        self._planned: dict[int, Planned] = {}

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"

    @property
    def segments(self) -> Path:
        """The directory of local copies of segments."""
        return self.directory / "segments"

    @property
    def earlier(self) -> EarlierBuckets:
        """The copies of the states of buckets whose number is doubled."""
        return EarlierBuckets(self.directory / "earlier", self.world.buckets)

    def begin(self) -> None:
        """Make the tables and the copies of segments empty."""
        for directory in (self.warehouse, self.segments, self.directory / "earlier"):
            shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self._empty, self.warehouse)
        self.segments.mkdir()

    def planned(self, sink: Sink, *, doubled: bool) -> Planned:
        """Return the plans of all tasks; they are made once for all runs.

        Args:
            sink: the sink, which knows the tables.
            doubled: whether there are twice as many buckets as the world has.
        """
        count = self.world.buckets * (2 if doubled else 1)
        if count not in self._planned:
            self._planned[count] = self._plan(sink, count, self.earlier if doubled else None)
        return self._planned[count]

    def _plan(self, sink: Sink, count: int, fewer: EarlierBuckets | None) -> Planned:
        """Make the plans of all tasks, as `endmark.spark.plan.build` does it."""
        world, pipeline = self.world, self.world.pipeline
        buckets = Buckets(_LABELS[:count])
        streams, places = stream_plans(pipeline, dict(world.partitions)), lookup_positions(pipeline)
        directories = {name: each.directory(PAGE_ROWS) for name, each in self.relations.items()}

        def looking(declared: Lookup, stream: StreamPlan) -> LookupPlan:
            reader = self.relations[declared.relation]
            place, directory = places[declared.relation], directories[declared.relation]
            return lookup_plan(declared, place, stream, len(buckets), reader, directory, reader.batch, "job")

        with Clock().running(), unthreaded():
            stages = group_stages(pipeline, buckets, buckets)
            plans = stage_plans(pipeline, streams, looking, buckets, stages, world.full_batch)
        control = ControlPlan.of(pipeline, unpaged_lookups(pipeline, directories))
        ingest = dumps(Ingest(streams, buckets, control))  # type: ignore[no-untyped-call]
        return Planned(buckets, processors(plans, stages, sink.files, buckets, fewer), ingest)


@contextmanager
def unthreaded() -> Iterator[None]:
    """Threads of the lookup take turns in the order in which they are started, so that runs repeat."""
    with ExitStack() as patched:
        for module in (gate, read_ahead):
            patched.enter_context(patch.object(module, "ThreadPoolExecutor", _Turns))
        yield


class _Turns:
    def __init__(self, *args: Any, **more: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)
        return done
