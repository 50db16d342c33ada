"""The finished batches of each pipeline, with their figures and the offsets that they have read to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.control.ops_database.clock import clock
from endmark.control.ops_database.part import Part, patiently
from endmark.control.ops_database.tables import batches, runs
from endmark.metrics import Samples, accumulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT_BATCHES = 20_000  # about 5 hours at a batch a second; one of the auction took 12 kB of SQLite


@dataclass(frozen=True)
class FinishedBatch:
    """A batch that a job has finished.

    Args:
        pipeline: the pipeline's name.
        batch_id: the number of the batch.
        run_id: the run that finished it.
        committed_at: Unix seconds by the database's clock.
        samples: the figures of this batch, by the name of the metric.
        totals: counters since the first batch, and gauges of this batch.
        offsets: the first offsets that are not read yet, by topic and partition.
    """

    pipeline: str
    batch_id: int
    run_id: str
    committed_at: float
    samples: Samples
    totals: Samples
    offsets: dict[str, dict[str, int]]


class Batches(Part):
    """Reads and writes the table of batches.

    Its key is (pipeline, batch id), so a repeated batch replaces its row and totals stay exact.
    """

    @patiently
    def record(
        self,
        pipeline: str,
        batch_id: int,
        run_id: str,
        samples: Mapping[str, float],
        offsets: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Store a batch and its running totals.

        A repeated batch of a checkpoint keeps its first figures. Since it has other latencies, counters would
        go backwards, and Prometheus would take them for those of a new process.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            run_id: the run that finished the batch.
            samples: figures of the batch, by the name of the metric.
            offsets: the first offsets that are not read yet, by topic and partition.
        """
        with self._engine.begin() as connection:
            if connection.execute(_recorded(pipeline, batch_id, run_id)).first() is not None:
                this = (batches.c.pipeline == pipeline) & (batches.c.batch_id == batch_id)
                connection.execute(batches.update().where(this).values(run_id=run_id, committed_at=clock()))
                return
            before = connection.execute(_before(batches.c.totals, pipeline, batch_id)).scalar()
            connection.execute(
                batches.delete().where(
                    batches.c.pipeline == pipeline,
                    # Higher ids are left from an earlier checkpoint, since a new one counts from 0.
                    (batches.c.batch_id >= batch_id) | (batches.c.batch_id <= batch_id - KEPT_BATCHES),
                )
            )
            connection.execute(
                batches.insert().values(
                    pipeline=pipeline,
                    batch_id=batch_id,
                    run_id=run_id,
                    committed_at=clock(),
                    samples=dict(samples),
                    totals=accumulate(before or {}, samples),
                    offsets={topic: dict(ends) for topic, ends in offsets.items()},
                )
            )

    @patiently
    def amend(
        self,
        pipeline: str,
        batch_id: int,
        gauges: Mapping[str, float],
        offsets: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Add the figures of a batch that are known only after its commit.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            gauges: gauges such as the batch's duration, by the name of the metric.
            offsets: the first offsets that are not read yet, by topic and partition. A topic here replaces
                all stored offsets of that topic.
        """
        this = (batches.c.pipeline == pipeline) & (batches.c.batch_id == batch_id)
        with self._engine.begin() as connection:
            row = connection.execute(
                sa.select(batches.c.samples, batches.c.totals, batches.c.offsets).where(this)
            ).first()
            if row is not None:
                amended = {"samples": {**row.samples, **gauges}, "totals": {**row.totals, **gauges}}
                read = {**row.offsets, **{topic: dict(ends) for topic, ends in offsets.items()}}
                connection.execute(batches.update().where(this).values(**amended, offsets=read))

    def latest(self, pipeline: str) -> FinishedBatch | None:
        found = self.after(pipeline, -1, limit=1)
        return found[0] if found else None

    def after(self, pipeline: str, batch_id: int, limit: int) -> Sequence[FinishedBatch]:
        """Return the newest batches whose number is greater than `batch_id`, the oldest of them first.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of a batch; -1 for all batches.
            limit: the most batches to return.
        """
        query = (
            sa.select(batches)
            .where(batches.c.pipeline == pipeline, batches.c.batch_id > batch_id)
            .order_by(batches.c.batch_id.desc())
            .limit(limit)
        )
        with self._engine.connect() as connection:
            return [FinishedBatch(**row._mapping) for row in reversed(connection.execute(query).all())]

    @patiently
    def offsets_before(self, pipeline: str, batch_id: int) -> dict[str, dict[str, int]]:
        """Return the first offsets that were not read when a batch began, by topic and partition.

        Only batches with lower ids count. A stored batch of the same or a higher id is an earlier attempt, or
        belongs to an earlier checkpoint, which may have read other topics.
        """
        with self._engine.connect() as connection:
            found = connection.execute(_before(batches.c.offsets, pipeline, batch_id)).scalar()
        return found or {}

    def totals_at(self, pipeline: str, at: float) -> Samples:
        """Return the totals that held at a time, in Unix seconds; empty if there was no batch yet."""
        until = (batches.c.pipeline == pipeline) & (batches.c.committed_at <= at)
        query = sa.select(batches.c.totals).where(until).order_by(batches.c.batch_id.desc()).limit(1)
        with self._engine.connect() as connection:
            found: Samples | None = connection.execute(query).scalar()
        return found or {}


def _recorded(pipeline: str, batch_id: int, run_id: str) -> sa.Select[Any]:
    """Select a batch if a run of the same checkpoint as `run_id` has stored it."""
    mine, other = runs.alias(), runs.alias()
    return sa.select(batches.c.batch_id).where(
        batches.c.pipeline == pipeline,
        batches.c.batch_id == batch_id,
        other.c.run_id == batches.c.run_id,
        mine.c.app_id == other.c.app_id,
        mine.c.run_id == run_id,
    )


def _before(column: sa.Column[Any], pipeline: str, batch_id: int) -> sa.Select[Any]:
    """Select a column of the last batch before `batch_id`."""
    earlier = sa.select(column).where(batches.c.pipeline == pipeline, batches.c.batch_id < batch_id)
    return earlier.order_by(batches.c.batch_id.desc()).limit(1)
