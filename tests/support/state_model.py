"""The cost model of the stream join's state, held against the engine on streams of PWJoin's experiments.

The model gets the description of the streams (`punct-asc-[interval]-[match]`, 100 rows a second, 10 later
keys) and one thing that is read off the input: how far the two streams, whose rows come at random times, are
apart when they close a key. Everything is a mean over the middle half of a run, in which the state is steady.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from endmark.operators.stream_join.presets import PRESETS, Preset
from endmark.planning.stream_join_model import JoinPrediction, JoinSetup, Side, Times, predict
from endmark_feed.papers.event import GAP_SECONDS
from endmark_feed.papers.names import parse_workload
from support.state_allowed import Element
from support.state_bounds import Bench, Streams

HORIZON = 10  # later keys that a row may have
ROW_BYTES = 40
_PLACES = (np.arange(20) + 0.5) / 20  # of a row in its segment, as a share of the segment's rows


@dataclass(frozen=True)
class Setting:
    """A stream join and its streams.

    Args:
        preset, purge_every: as in the pipeline.
        interval: rows between two punctuations of a stream.
        window: seconds; `None` without one.
        match: percentage of rows whose key the next punctuation closes.
    """

    preset: Preset
    interval: int
    window: int | None = None
    purge_every: int = 1
    match: int = 40

    def streams(self, rows: int) -> Streams:
        """Return the two streams, each of about so many rows."""
        workload = parse_workload(f"punct-asc-{self.interval}-{self.match}", rows // self.interval, HORIZON)
        window = None if self.window is None else timedelta(seconds=self.window)
        return Streams((workload, workload), window=window)


@dataclass(frozen=True)
class Measured:
    """Means over the middle half of a run.

    Args:
        rows: rows in state after a batch, of both sides.
        purged: rows a second that a punctuation freed, of both sides.
        announced_after: seconds from the first punctuation of a key until the key is announced; `None` if the
            preset announces nothing.
    """

    rows: float
    purged: float
    announced_after: float | None


@dataclass(frozen=True)
class Comparison:
    """The engine beside the model, and beside the paper's equation 1 where there is a window.

    Args:
        measured: the engine's means.
        predicted: the model's prediction.
        paper: rows of both sides by equation 1, on average over the same batches; `None` without a window.
    """

    measured: Measured
    predicted: JoinPrediction
    paper: float | None


def compare(setting: Setting, rows: int, batch: int) -> Comparison:
    """Run the engine and ask the model.

    Args:
        setting: the join and its streams.
        rows: rows of each stream.
        batch: elements of a batch.
    """
    streams = setting.streams(rows)
    batches = _Batches.of(replace(streams, window=None), batch)
    window = np.inf if setting.window is None else float(setting.window)
    side = Side(1 / GAP_SECONDS, ROW_BYTES, window, interval=setting.interval)
    own = _until_own_punctuation(setting.interval, setting.match)
    setup = JoinSetup(
        replace(side, until_closed=own + -batches.lag),
        replace(side, until_closed=own + batches.lag),
        setting.preset,
        batches.lag,
        setting.purge_every,
        batches.seconds,
        elapsed=float(batches.middle_ends.mean()),
    )
    paper = None
    if setting.window is not None and PRESETS[setting.preset].purge:
        rows_of = [
            paper_rows(side, side.punctuations, batches.middle_ends, keys) for keys in batches.distinct_keys()
        ]
        paper = float(np.sum(rows_of, axis=0).mean())
    return Comparison(_measure(setting, streams, batches), predict(setup), paper)


def _until_own_punctuation(interval: int, percent: int) -> Times:
    """Return the time from a row until its own stream closes its key: in its own segment or a later one."""
    # A segment's percentage is a Poisson number, but at most 100.
    match = np.minimum(np.random.default_rng(0).poisson(percent, 100_000), 100).mean() / 100
    later = np.add.outer(_PLACES, np.arange(1, HORIZON + 1)).ravel()
    weights = [np.full(len(_PLACES), match / len(_PLACES)), np.full(len(later), (1 - match) / len(later))]
    return Times(np.concatenate([_PLACES, later]) * interval * GAP_SECONDS, np.concatenate(weights))


@dataclass(frozen=True)
class _Batches:
    """The input of a run, and what is read off it.

    Args:
        batches: the elements, a batch after the other.
    """

    batches: list[list[Element]]

    @classmethod
    @lru_cache(maxsize=1)
    def of(cls, streams: Streams, size: int) -> _Batches:
        return cls(streams.batches(size))

    @cached_property
    def ends(self) -> np.ndarray:
        """The time of each batch's last element in seconds."""
        return np.array([batch[-1].microseconds for batch in self.batches]) / 1e6

    @property
    def middle(self) -> slice:
        """The batches whose state is looked at."""
        return slice(len(self.batches) // 4, len(self.batches) * 3 // 4)

    @property
    def middle_ends(self) -> np.ndarray:
        return self.ends[self.middle]

    @property
    def seconds(self) -> float:
        """Mean seconds from one batch to the next."""
        return float(np.diff(self.middle_ends).mean())

    @cached_property
    def closings(self) -> list[dict[int, float]]:
        """The time in seconds at which each side closes each key."""
        found: list[dict[int, float]] = [{}, {}]
        for batch in self.batches:
            for each in batch:
                if each.closes:
                    found[each.side][each.key] = each.microseconds / 1e6
        return found

    @cached_property
    def lag(self) -> Times:
        """Seconds from the right stream's punctuation of a key to the left stream's, as quantiles."""
        left, right = self.closings
        first, last = self.middle_ends[[0, -1]]
        lags = [left[key] - right[key] for key in left if first <= left[key] <= last]
        return Times.of(np.quantile(lags, (np.arange(100) + 0.5) / 100))

    def distinct_keys(self) -> list[np.ndarray]:
        """The keys of each side's rows until the end of each batch in the middle."""
        found = []
        for side in range(2):
            seen: set[int] = set()
            counts = []
            for batch in self.batches:
                seen |= {each.key for each in batch if each.side == side and not each.closes}
                counts.append(len(seen))
            found.append(np.array(counts)[self.middle])
        return found


def _measure(setting: Setting, streams: Streams, batches: _Batches) -> Measured:
    left, right = batches.closings
    rows, purged, delays = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(streams.pipeline(setting.preset, setting.purge_every), Path(directory))
        for end, batch in zip(batches.ends, batches.batches, strict=True):
            join = bench.join(bench.inputs(batch))
            counts = join.output.counts
            rows.append(sum(side.rows.rows for side in join.sides))
            purged.append(sum(counts["join_purged_rows_total", side] for side in streams.sides))
            keys = [] if join.output.announced is None else join.output.announced.column("key").to_pylist()
            delays.append([end - min(left[key], right[key]) for key in keys])
    middle = batches.middle
    announced = [delay for each in delays[middle] for delay in each]
    return Measured(
        float(np.mean(rows[middle])),
        sum(purged[middle]) / (len(purged[middle]) * batches.seconds),
        float(np.mean(announced)) if announced else None,
    )


def paper_rows(
    side: Side, punctuations: float, elapsed: ArrayLike, distinct_keys: ArrayLike
) -> NDArray[np.float64]:
    """Return the rows of a side in state by PWJoin's equation 1, as printed.

    Args:
        side: the side, which has a window.
        punctuations: punctuations of the other stream a second.
        elapsed: seconds since the streams began.
        distinct_keys: the keys of the side's rows until then.
    """
    closed = punctuations * np.asarray(elapsed, float) / np.asarray(distinct_keys, float)
    rows: NDArray[np.float64] = side.rate * side.window * (1 - closed)
    return rows
