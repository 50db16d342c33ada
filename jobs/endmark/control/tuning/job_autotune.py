"""Autotune in a job: the knobs that it tunes, the costs that it compares, and its control records."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from endmark.control.tuning.autotune import WHO, Autotune, Spent, Tuned, read_turns
from endmark.control.tuning.knobs import filed, steps_of
from endmark.metrics import sample, total
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.wire.control import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.control.ops_database.database import OpsDatabase
    from endmark.control.tuning.autotune import Move
    from endmark.metrics import Samples
    from endmark.pipeline import Pipeline

_PAGE_ROWS = 16, 16_384
_CACHE = 1 / 16, 4  # times the pipeline file's value
_PURGE_EVERY = 1, 256
_PAST = 500  # batches of earlier runs that a tuner reads when it starts


class Tuning:
    """The tuner of a job's knobs. It first goes through the latest batches of earlier runs.

    Args:
        pipeline: the job's pipeline.
        ops: the ops database, which has the batches and turns of earlier runs.
    """

    def __init__(self, pipeline: Pipeline, ops: OpsDatabase) -> None:
        tuned = tuned_of(pipeline)
        past = ops.batches.after(pipeline.name, -1, _PAST) if tuned else []
        turns = ops.turns.of(pipeline.name) if tuned else []
        first = past[0].batch_id if past else 0
        values = filed(steps_of(pipeline))
        values |= {
            turn["name"]: turn["value"]
            for turn in turns
            if turn["refused"] is None and turn["batch_id"] < first
        }
        self._autotune = Autotune(tuned, values)
        self._last = -1
        for batch in past:
            mine = [turn for turn in turns if turn["batch_id"] == batch.batch_id]
            self.batch_done(batch.batch_id, batch.samples, mine)

    def batch_done(self, batch_id: int, samples: Samples, turns: Sequence[Mapping[str, Any]]) -> bytes | None:
        """Take the samples of a batch; return the control record that turns a knob, or `None`.

        Args:
            batch_id: the number of the batch.
            samples: the samples of the batch.
            turns: the turns that the batch has read, as rows of the ops database.
        """
        if batch_id == self._last:  # the job repeats a batch that was not committed
            return None
        self._last = batch_id
        move: Move | None = self._autotune.seen(samples, read_turns(turns))
        return None if move is None else Turn(move.name, move.value, WHO, move.why).written()


def tuned_of(pipeline: Pipeline) -> list[Tuned]:
    """Return the knobs of the steps that have `autotune` in the pipeline file."""
    found = []
    for lookup in pipeline.lookups:
        if not lookup.autotune:
            continue
        step = pipeline.field_of(lookup)
        if STRATEGIES[lookup.strategy].by_pages or lookup.strategy == "auto":
            pages = partial(_pages, lookup.relation)
            least, most = min(_PAGE_ROWS[0], lookup.page_rows), max(_PAGE_ROWS[1], lookup.page_rows)
            found.append(Tuned(f"{step}.page_rows", least, most, takes_memory=False, spent=pages))
        if lookup.cache is not None:
            reads = partial(_reads, lookup.relation)
            least, most = (max(1, int(lookup.cache.memory * times)) for times in _CACHE)
            found.append(Tuned(f"{step}.cache.memory", least, most, takes_memory=True, spent=reads))
    for stage in pipeline.stages:
        if stage.join is not None and stage.join.autotune:
            least, most = _PURGE_EVERY
            most = max(most, stage.join.purge_every)
            found.append(Tuned(f"{stage.field}.purge_every", least, most, takes_memory=True, spent=_joins))
    return found


def _pages(relation: str, samples: Samples) -> Spent:
    """Return the result of `_reads`, but no seconds if the relation has no pages."""
    spent = _reads(relation, samples)
    return spent if samples.get(sample("lookup_pages", relation=relation)) else replace(spent, seconds=0.0)


def _reads(relation: str, samples: Samples) -> Spent:
    """Return the seconds that reads of a relation took, and the stream rows that were looked up in it."""

    def of(name: str) -> float:
        return samples.get(sample(name, relation=relation), 0.0)

    return Spent(of("lookup_read_seconds_total"), of("lookup_rows_total"), of("lookup_pending_rows"))


def _joins(samples: Samples) -> Spent:
    """Return the seconds that purging and probing took, and the records of both streams."""
    phases = (sample("profile_seconds_total", phase=phase) for phase in ("purge", "probe"))
    return Spent(sum(samples.get(phase, 0.0) for phase in phases), total(samples, "records_total"))
