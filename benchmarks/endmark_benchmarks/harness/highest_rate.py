"""The highest rate that a job keeps up with, looked for by a feed that gets faster step by step.

At a steady rate batches get as long as it takes to read what comes in their time. What a batch that ends has
not read came while it ran: the lag. Beyond what a job can do, each batch is longer than the one before, and
so is the lag.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from endmark.errors import EndmarkError
from endmark_benchmarks.workloads.recorded_feed import Phase
from endmark_feed.message import BIDS, ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from endmark.control.ops_database.batches import FinishedBatch
    from endmark_benchmarks.workloads.recorded_feed import Fed

LAG_SECONDS = 3.0  # that a job which keeps up may have
FEED_SECONDS = 1.0  # that a feed which keeps up may be behind
WARM_UP = Phase(20_000, 20)
STEPS = [Phase(round(20_000 * 1.3**step), 12) for step in range(7)]


class Step(NamedTuple):
    """The course of a job at one rate.

    Args:
        rate: records a second.
        lag: seconds of records that had not been read when a batch ended, at best; infinite if none did.
        feed_behind: seconds by which the feed was late.
    """

    rate: float
    lag: float
    feed_behind: float

    @property
    def kept_up(self) -> bool:
        return self.lag <= LAG_SECONDS

    def to_json(self) -> dict[str, float | None]:
        """Return the step as values for JSON, which has no infinity."""
        return self._asdict() | {"lag": self.lag if math.isfinite(self.lag) else None}


def step(fed: Fed, feed_rate: float, batches: Iterable[FinishedBatch]) -> Step:
    """Return the course of a job at the rate of a phase, by the batches that ended in the second half of it.

    Args:
        fed: the phase.
        feed_rate: records for each second of event time.
        batches: the batches of the job.
    """
    since = {each.committed_at - fed.began: _read(each) for each in batches}
    lags = [
        seconds + (fed.before * feed_rate - read) / fed.rate
        for seconds, read in since.items()
        if fed.seconds / 2 <= seconds <= fed.seconds
    ]
    return Step(fed.rate, round(min(lags, default=math.inf), 2), fed.behind)


def highest(steps: Sequence[Step]) -> float:
    """Return the rate of the last step with which the job, and with all before it, kept up.

    Raises:
        EndmarkError: it kept up with none.
    """
    kept = list(takewhile(lambda each: each.kept_up, steps))
    if not kept:
        raise EndmarkError(
            f"the job does not keep up with {steps[0].rate:,.0f} records/s; --highest says with what it does"
        )
    return kept[-1].rate


def bound(steps: Sequence[Step]) -> str:
    """Say what the highest rate was bounded by."""
    failed = next((each for each in steps if not each.kept_up), None)
    if failed is None:
        return "the search"
    return "the feed" if failed.feed_behind > FEED_SECONDS else "the job"


def _read(batch: FinishedBatch) -> int:
    return sum(sum(batch.offsets.get(topic, {}).values()) for topic in (ITEMS, BIDS))
