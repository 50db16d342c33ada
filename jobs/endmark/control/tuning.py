"""Autotune beside a job: its knobs, its figures, and the control records that its moves become."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from endmark.control.autotune import WHO, Autotune, Spent, Tuned, told
from endmark.control.knobs import filed, lookup_steps, steps_of
from endmark.metrics import parse, sample
from endmark.wire.control import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.control.autotune import Move
    from endmark.control.database import OpsDatabase
    from endmark.metrics import Samples
    from endmark.pipeline import Pipeline

_PAGE_ROWS = 16, 16_384
_CACHE = 1 / 16, 4  # times what the file says
_PURGE_EVERY = 1, 256
_PAST = 500  # batches of an earlier run that are gone through at the start


class Tuning:
    """The tuner of a job, which learns of its batches.

    Args:
        pipeline: of the job.
        ops: what earlier runs have told, as far as it is kept.
    """

    def __init__(self, pipeline: Pipeline, ops: OpsDatabase) -> None:
        tuned = tuned_of(pipeline)
        past = ops.batches_after(pipeline.name, -1, _PAST) if tuned else []
        turns = ops.turns(pipeline.name) if tuned else []
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
        """Take the figures of a batch; return a control record to be sent if a knob is to be turned.

        Args:
            batch_id: the number of the batch.
            samples: its samples.
            turns: the turns that it has read.
        """
        if batch_id == self._last:  # which the job repeats since it was not committed
            return None
        self._last = batch_id
        move: Move | None = self._autotune.seen(samples, told(turns))
        return None if move is None else Turn(move.name, move.value, WHO, move.why).written()


def tuned_of(pipeline: Pipeline) -> list[Tuned]:
    """Return the knobs for which a pipeline file says `autotune`."""
    found = []
    steps = lookup_steps([each.relation for each in pipeline.lookups])
    for lookup, step in zip(pipeline.lookups, steps, strict=True):
        if not lookup.autotune:
            continue
        reads = partial(_reads, lookup.relation)
        least, most = min(_PAGE_ROWS[0], lookup.page_rows), max(_PAGE_ROWS[1], lookup.page_rows)
        found.append(Tuned(f"{step}.page_rows", least, most, takes_memory=False, spent=reads))
        if lookup.cache is not None:
            least, most = (max(1, int(lookup.cache.memory * times)) for times in _CACHE)
            found.append(Tuned(f"{step}.cache.memory", least, most, takes_memory=True, spent=reads))
    if pipeline.join.autotune:
        least, most = _PURGE_EVERY
        most = max(most, pipeline.join.purge_every)
        found.append(Tuned("join.purge_every", least, most, takes_memory=True, spent=_joins))
    return found


def _reads(relation: str, samples: Samples) -> Spent:
    """Seconds of reading it, for stream rows that it is asked for."""

    def of(name: str) -> float:
        return samples.get(sample(name, relation=relation), 0.0)

    return Spent(of("lookup_read_seconds_total"), of("lookup_rows_total"), of("lookup_pending_rows"))


def _joins(samples: Samples) -> Spent:
    """Seconds of purging and of looking for partners, for records."""
    phases = (sample("profile_seconds_total", phase=phase) for phase in ("purge", "probe"))
    records = sum(count for key, count in samples.items() if parse(key)[0] == "records_total")
    return Spent(sum(samples.get(phase, 0.0) for phase in phases), records)
