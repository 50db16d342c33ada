"""A new checkpoint for a change that the old one cannot take: what it costs, and what becomes of the old one.

The next job finds neither checkpoint nor tables, so it reads Kafka from its first records and writes all
tables anew. The new checkpoint has an app id of its own, so Delta does not take its batches for old ones.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.driver import checkpoint as checkpoints
from endmark.driver.column_changes import column_changes
from endmark.driver.settings import changed, settings
from endmark.errors import ConfigError
from endmark.kafka.gaps import past
from endmark.storage import delta_table, entries, move
from endmark.verify.read.consume import Log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.pipeline import Pipeline
    from endmark.storage import Location
    from endmark.verify.read.consume import Range


@dataclass(frozen=True)
class Loss:
    """The records of one partition that the old checkpoint has read and Kafka does not hold any more.

    Args:
        partition: the number of the partition.
        needed: the first offset that the old checkpoint has read.
        available: the first offset that Kafka holds.
    """

    partition: int
    needed: int
    available: int


@dataclass(frozen=True)
class TopicReplay:
    """The reading of one topic from its first record on.

    Args:
        topic: the name of the topic.
        records: the number of offsets that Kafka holds.
        losses: the partitions whose first records are gone.
    """

    topic: str
    records: int
    losses: tuple[Loss, ...]

    @property
    def lost(self) -> int:
        """The number of records that are gone."""
        return sum(loss.available - loss.needed for loss in self.losses)

    def __str__(self) -> str:
        if not self.losses:
            return f"{self.topic}: {self.records:,} records"
        where = ", ".join(
            f"partition {loss.partition} begins at offset {loss.available}, the job began at {loss.needed}"
            for loss in self.losses
        )
        return f"{self.topic}: {self.records:,} records; {self.lost:,} before them are gone ({where})"


@dataclass(frozen=True)
class OldTable:
    """A table of the old checkpoint.

    Args:
        name: its directory below the warehouse.
        rows: the number of its rows.
        stays: whether the pipeline file still has it.
    """

    name: str
    rows: int
    stays: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.rows:,} rows{'' if self.stays else ', no table of the file any more'}"


@dataclass(frozen=True)
class Migration:
    """The plan of a new checkpoint.

    Args:
        checkpoint: the directory of the checkpoint, which is locked.
        warehouse: the directory of the tables.
        aside: the name of the directory, in both of them, that gets what is old.
        batches: the number of batches that the old checkpoint has committed.
        changes: the settings that the old checkpoint cannot take, in words.
        topics: the topics that are read again.
        tables: the tables of the old checkpoint.
        relations: the relations that rows are looked up in again.
    """

    checkpoint: Location
    warehouse: Location
    aside: str
    batches: int
    changes: tuple[str, ...]
    topics: tuple[TopicReplay, ...]
    tables: tuple[OldTable, ...]
    relations: tuple[str, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return asdict(self) | {"checkpoint": str(self.checkpoint), "warehouse": str(self.warehouse)}

    def lines(self) -> list[str]:
        """Return the plan for people."""
        needed = f"checkpoint {self.checkpoint}, {self.batches:,} batches, cannot go on with this file:"
        unneeded = f"checkpoint {self.checkpoint}, {self.batches:,} batches, can go on with this file"
        lines = [
            *([needed, *_indented(self.changes)] if self.changes else [unneeded]),
            "a new checkpoint reads these topics from their first record:",
            *_indented(self.topics),
            f"these tables are written anew, and the old ones are kept in {self.warehouse / self.aside}:",
            *_indented(self.tables),
        ]
        if self.relations:
            lines.append(f"rows are looked up in relations as they are now: {', '.join(self.relations)}")
        return lines

    def require_whole(self) -> None:
        """Refuse a migration whose tables would lack rows.

        Raises:
            ConfigError: Kafka does not hold all records that the old checkpoint has read.
        """
        if lacking := [str(topic) for topic in self.topics if topic.losses]:
            raise ConfigError(
                f"the new tables would lack rows of {'; '.join(lacking)}; keep the file as it was, or accept "
                "this by --accept-loss"
            )

    def put_aside(self) -> None:
        """Move the tables and then the checkpoint into a directory of their own.

        A crash on the way leaves a checkpoint whose tables are missing, which no job takes. The command then
        goes on where it ended.
        """
        # Directories beside them could be on another file system, since each of them may be a volume.
        for directory in (self.warehouse, self.checkpoint):
            if isinstance(directory, Path):
                (directory / self.aside).mkdir(parents=True, exist_ok=True)
        for table in self.tables:
            move(self.warehouse, table.name, f"{self.aside}/{table.name}")
        # The app id goes behind all others: without it a job would begin new tables at Spark's old offsets.
        # The format goes behind the app id, which would be refused without it.
        for name in ("spark", "endmark"):
            if _is_there(self.checkpoint / name):
                move(self.checkpoint, name, f"{self.aside}/{name}", last=("app_id", "format.json"))


def _indented(lines: Sequence[object]) -> list[str]:
    return [f"  {line}" for line in lines]


def made_with(checkpoint: Location) -> dict[str, Any]:
    """Return the settings that a checkpoint was made with.

    Raises:
        ConfigError: no job has made a checkpoint there.
    """
    pinned = checkpoints.pinned_settings(checkpoint)
    if pinned is None:
        raise ConfigError(
            f"no job has a checkpoint in {checkpoint}, so there is nothing to migrate; name another by "
            "--checkpoint, or start the job"
        )
    return pinned


def held(pipeline: Pipeline, bootstrap: ClusterOrAddress) -> dict[str, list[Range]]:
    """Return the offsets that Kafka holds of each topic that a pipeline reads or publishes, by topic.

    Raises:
        ConfigError: a topic of a stream does not exist.
        MissingPartError: the broker does not answer.
    """
    topics = [stream.topic for stream in pipeline.streams.values()]
    found: dict[str, list[Range]] = {}
    with Log(bootstrap, topics, maybe=[pipeline.control_topic, *pipeline.outputs.topics.values()]) as log:
        for each in log.ranges:
            found.setdefault(each.topic, []).append(each)
    return found


def plan(
    pipeline: Pipeline,
    checkpoint: Location,
    app_id: str,
    warehouse: Location,
    ranges: Mapping[str, Sequence[Range]],
    buckets: int | None = None,
) -> Migration:
    """Find what a new checkpoint of a pipeline costs. Nothing is changed.

    Args:
        pipeline: the pipeline of the changed file.
        checkpoint: the directory of the old checkpoint, which is locked.
        app_id: the id of the old checkpoint.
        warehouse: the directory of the tables.
        ranges: the offsets that Kafka holds, by topic.
        buckets: the number of hash shares of state; `None` keeps the number.

    Raises:
        ConfigError: there is no checkpoint, a table is not its own, or a topic of `publish` has records.
    """
    pinned = made_with(checkpoint)
    wanted = settings(pipeline, buckets or pinned["buckets"])
    columns = column_changes(pinned, wanted, checkpoint, warehouse)
    _require_new(pipeline, ranges)
    # A new checkpoint lacks no record that the old one has skipped from its start on, too.
    began = past(checkpoints.start_offsets(checkpoint), checkpoints.gaps(checkpoint))
    read = {stream.topic for stream in pipeline.streams.values()} | {pipeline.control_topic}
    whole = read if _has_idle(pipeline) else read - {pipeline.control_topic}
    aside = f"before-{app_id[-8:]}"
    return Migration(
        checkpoint=checkpoint,
        warehouse=warehouse,
        aside=aside,
        batches=checkpoints.next_batch(checkpoint),
        changes=(*changed(columns.applied(pinned), wanted), *columns.refusals),
        topics=tuple(
            _replay(topic, ranges.get(topic, []), began if topic in whole else {}) for topic in sorted(read)
        ),
        tables=tuple(_old_tables(pipeline, checkpoint, warehouse, aside)),
        relations=tuple(sorted({lookup.relation for lookup in pipeline.lookups})),
    )


def _has_idle(pipeline: Pipeline) -> bool:
    """Return whether a knob may have changed results. Only then the control topic's first records matter."""
    return any(stream.event_time.idle is not None for stream in pipeline.streams.values())


def _require_new(pipeline: Pipeline, ranges: Mapping[str, Sequence[Range]]) -> None:
    for step, published in pipeline.publish.items():
        if any(each.end for each in ranges.get(published.topic, ())):
            raise ConfigError(
                f"publish.{step}.topic: {published.topic} has records, and a new checkpoint would publish "
                "all rows again; name a new topic, and let its readers begin there"
            )


def _replay(topic: str, ranges: Sequence[Range], began: Mapping[str, Mapping[str, int]]) -> TopicReplay:
    first = began.get(topic)
    losses = [
        Loss(each.partition, needed, each.first)
        for each in ranges
        # A partition that was added later has been read from its offset 0 on.
        if first is not None and each.first > (needed := first.get(str(each.partition), 0))
    ]
    return TopicReplay(topic, sum(each.end - each.first for each in ranges), tuple(losses))


def _old_tables(pipeline: Pipeline, checkpoint: Location, warehouse: Location, aside: str) -> list[OldTable]:
    """Return the tables in their places. Others were removed, or moved by a migration that crashed."""
    stays, found = set(pipeline.outputs.directories.values()), []
    tables = checkpoints.known_tables(checkpoint)
    for name, known in sorted(tables.items()):
        path = warehouse / name
        if (table := delta_table(path)) is None:
            continue
        if str(table.metadata().id) != known.id:
            raise ConfigError(
                f"table {path} is not the one of checkpoint {checkpoint}, which was last at {known.path}; "
                "name the right --warehouse"
            )
        found.append(OldTable(name, table.count(), name in stays))
    if tables and not found and not _is_there(warehouse / aside):
        raise ConfigError(
            f"warehouse {warehouse} has no table of checkpoint {checkpoint}; name the right --warehouse"
        )
    return found


def _is_there(directory: Location) -> bool:
    """Return whether a migration that crashed has begun to fill a directory."""
    return directory.exists() if isinstance(directory, Path) else bool(entries(directory, below=True))
