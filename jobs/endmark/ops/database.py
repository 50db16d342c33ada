"""The ops database: what the job tells the sidecar. Written by the driver, read by everyone else.

`batches` is keyed by (pipeline, batch_id), so a replayed batch replaces its row and totals stay exact.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from endmark.errors import ConfigError
from endmark.metrics import Samples, accumulate
from endmark.ops import tables
from endmark.ops.tables import batches, pipelines, runs, turns

KEPT_BATCHES = 20_000  # about 5 hours at a batch a second, some 40 MB of SQLite


@dataclass(frozen=True)
class Batch:
    """One finished batch as the sidecar sees it."""

    pipeline: str
    batch_id: int
    run_id: str
    committed_at: float
    samples: Samples
    totals: Samples
    offsets: dict[str, dict[str, int]]


class OpsDatabase:
    """Reads and writes the ops database at an SQLAlchemy URL; creates its tables when they are missing."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url, pool_pre_ping=True)
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _use_write_ahead_log)
        tables.make(self.engine)

    def close(self) -> None:
        self.engine.dispose()

    def describe(self, pipeline: str, description: Mapping[str, Any]) -> None:
        """Store what a job says of its pipeline, instead of what an earlier one said."""
        with self.engine.begin() as connection:
            connection.execute(pipelines.delete().where(pipelines.c.pipeline == pipeline))
            connection.execute(pipelines.insert().values(pipeline=pipeline, description=dict(description)))

    def description(self, pipeline: str) -> dict[str, Any] | None:
        """What `describe` has stored; `None` before."""
        query = sa.select(pipelines.c.description).where(pipelines.c.pipeline == pipeline)
        with self.engine.connect() as connection:
            found: dict[str, Any] | None = connection.execute(query).scalar()
        return found

    def start_run(self, run_id: str, pipeline: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(
                runs.insert().values(
                    run_id=run_id, pipeline=pipeline, state="starting", started_at=time.time()
                )
            )

    def set_run_state(self, run_id: str, state: str, error: str | None = None) -> None:
        ended = state in ("stopped", "failed")
        with self.engine.begin() as connection:
            connection.execute(
                runs.update()
                .where(runs.c.run_id == run_id)
                .values(state=state, error=error, stopped_at=time.time() if ended else None)
            )

    def record_batch(
        self,
        pipeline: str,
        batch_id: int,
        run_id: str,
        samples: Mapping[str, float],
        offsets: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Store a batch and its running totals, replacing what an earlier attempt stored."""
        with self.engine.begin() as connection:
            before = connection.execute(_before(batches.c.totals, pipeline, batch_id)).scalar()
            connection.execute(
                batches.delete().where(
                    batches.c.pipeline == pipeline,
                    # Higher ids are of an earlier checkpoint, whose batches this one begins again.
                    (batches.c.batch_id >= batch_id) | (batches.c.batch_id <= batch_id - KEPT_BATCHES),
                )
            )
            connection.execute(
                batches.insert().values(
                    pipeline=pipeline,
                    batch_id=batch_id,
                    run_id=run_id,
                    committed_at=time.time(),
                    samples=dict(samples),
                    totals=accumulate(before or {}, samples),
                    offsets={topic: dict(ends) for topic, ends in offsets.items()},
                )
            )

    def amend_batch(self, pipeline: str, batch_id: int, gauges: Mapping[str, float]) -> None:
        """Add gauges that are known only after a batch's commit, such as its duration."""
        this = (batches.c.pipeline == pipeline) & (batches.c.batch_id == batch_id)
        with self.engine.begin() as connection:
            row = connection.execute(sa.select(batches.c.samples, batches.c.totals).where(this)).first()
            if row is not None:
                amended = {"samples": {**row.samples, **gauges}, "totals": {**row.totals, **gauges}}
                connection.execute(batches.update().where(this).values(**amended))

    def record_turns(
        self, pipeline: str, batch_id: int, told: Sequence[Mapping[str, Any]], filed: Mapping[str, Any]
    ) -> None:
        """Store the knobs that a batch has heard of, replacing what an earlier attempt stored.

        Args:
            told: rows of `turns` without what this adds.
            filed: the values in the pipeline file, which were in force before the first turn.
        """
        mine = turns.c.pipeline == pipeline
        with self.engine.begin() as connection:
            for turn in sorted(told, key=lambda turn: (turn["partition"], turn["offset"])):
                here = mine & (turns.c.partition == turn["partition"])
                connection.execute(turns.delete().where(here, turns.c.offset == turn["offset"]))
                earlier = (
                    sa.select(turns.c.value)
                    .where(here, turns.c.offset < turn["offset"], turns.c.name == turn["name"])
                    .where(turns.c.refused.is_(None))
                    .order_by(turns.c.offset.desc())
                    .limit(1)
                )
                found = connection.execute(earlier).first()
                before = filed.get(turn["name"]) if found is None else found.value
                added = {"pipeline": pipeline, "batch_id": batch_id, "before": before}
                connection.execute(turns.insert().values(**turn, **added))

    def turns(self, pipeline: str) -> Sequence[dict[str, Any]]:
        """Every knob that was set or refused, in the order of records, as mappings of columns."""
        query = sa.select(turns).where(turns.c.pipeline == pipeline)
        with self.engine.connect() as connection:
            found = connection.execute(query.order_by(turns.c.partition, turns.c.offset))
            return [dict(row._mapping) for row in found]

    def latest_run(self, pipeline: str) -> dict[str, Any] | None:
        """The pipeline's run that started last, as a mapping of its columns."""
        query = sa.select(runs).where(runs.c.pipeline == pipeline).order_by(runs.c.started_at.desc()).limit(1)
        with self.engine.connect() as connection:
            row = connection.execute(query).first()
        return dict(row._mapping) if row else None

    def latest_batch(self, pipeline: str) -> Batch | None:
        found = self.batches_after(pipeline, -1, limit=1)
        return found[0] if found else None

    def offsets_before(self, pipeline: str, batch_id: int) -> dict[str, dict[str, int]]:
        """The first offsets not read when a batch began, by topic and partition.

        Batches of that id or a higher one do not count: this one repeats them, or they are of an earlier
        checkpoint, whose topics may have been others.
        """
        with self.engine.connect() as connection:
            found = connection.execute(_before(batches.c.offsets, pipeline, batch_id)).scalar()
        return found or {}

    def batches_after(self, pipeline: str, batch_id: int, limit: int) -> Sequence[Batch]:
        """The newest `limit` batches with an id above `batch_id`, oldest first."""
        query = (
            sa.select(batches)
            .where(batches.c.pipeline == pipeline, batches.c.batch_id > batch_id)
            .order_by(batches.c.batch_id.desc())
            .limit(limit)
        )
        with self.engine.connect() as connection:
            return [Batch(**row._mapping) for row in reversed(connection.execute(query).all())]


def _before(column: sa.Column[Any], pipeline: str, batch_id: int) -> sa.Select[Any]:
    """What the batch before one has in a column."""
    earlier = sa.select(column).where(batches.c.pipeline == pipeline, batches.c.batch_id < batch_id)
    return earlier.order_by(batches.c.batch_id.desc()).limit(1)


def offsets_read(url: str, pipeline: str) -> dict[str, dict[int, int]]:
    """The first offset that the pipeline's job has not read, by topic and partition.

    Raises:
        ConfigError: it has read nothing, as far as the ops database at `url` knows.
    """
    if not url:
        raise ConfigError("nobody says where the ops database is; give --ops-url or set ENDMARK_OPS_URL")
    with closing(OpsDatabase(url)) as ops:
        batch = ops.latest_batch(pipeline)
    if batch is None:
        raise ConfigError(
            f"the ops database has no batch of {pipeline}; name the one that its job was given by --ops-url"
        )
    return {topic: {int(at): end for at, end in ends.items()} for topic, ends in batch.offsets.items()}


def _use_write_ahead_log(connection: Any, _record: Any) -> None:
    # WAL lets the sidecar read while the job writes; NORMAL may lose the last batches on power loss only,
    # and a replayed batch writes them again.
    connection.execute("PRAGMA busy_timeout=5000")
    # SQLite does not wait where two of those who open a new database would wait for each other.
    for attempt in _again():
        with attempt:
            connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _again() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(sqlite3.OperationalError),
        stop=stop_after_delay(5.0),
        wait=wait_random(0.0, 0.05),
        reraise=True,
    )
