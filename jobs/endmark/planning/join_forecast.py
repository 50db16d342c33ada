"""`endmark plan`: the predicted state of the stream join, by preset and window.

The model needs the rates of both streams, and how long rows and keys wait to be closed. The batches of a job
that has run tell these: by Little's law, rows in state over rows a second are the seconds that a row stays.
Only means are known, so times until a key is closed count as exponential.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.control.ops_database.forecasts import JoinStateForecast
from endmark.errors import ConfigError
from endmark.metrics import sample
from endmark.operators.stream_join.presets import PRESETS, Preset
from endmark.planning.join_state import measured_state
from endmark.planning.stream_join_model import NEVER_CLOSED, JoinPrediction, JoinSetup, Side, Times, predict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from endmark.control.ops_database.batches import FinishedBatch
    from endmark.pipeline import JoinStep, Pipeline

_PARTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # predicted windows, as parts of those in the file
_ROW_BYTES = 40  # bytes of a row in state, if no job has measured them


@dataclass(frozen=True)
class StreamFigures:
    """The figures of one stream that the model needs.

    Args:
        rate: rows a second.
        interval: rows between two punctuations; infinite without punctuations.
        until_closed: mean seconds from a row until the other stream closes its key; infinite: never.
        row_bytes: bytes of a row in state.
    """

    rate: float
    interval: float = np.inf
    until_closed: float = np.inf
    row_bytes: float = _ROW_BYTES


@dataclass(frozen=True)
class JoinFigures:
    """The figures of a stream join that the model needs.

    Args:
        streams: the figures of each stream by its name, the left one first.
        lag: mean seconds between the two streams' punctuations of a key; infinite if only one closes it.
        left_first: the share of keys that the left stream closes first, among those that both close.
        batch_seconds: seconds from one batch to the next.
        measured_until: Unix seconds at which the newest batch was committed whose figures these are; `None`
            if no job measured any of them.
        given: whether some figures were given.
    """

    streams: dict[str, StreamFigures]
    lag: float = np.inf
    left_first: float = 0.5
    batch_seconds: float = 1.0
    measured_until: float | None = None
    given: bool = False


@dataclass(frozen=True)
class JoinForecast:
    """The predicted state of a pipeline's stream join.

    Args:
        figures: the figures of the streams from which it is predicted.
        preset: the preset of the pipeline.
        windows: the windows of the pipeline in seconds; `None` is for ever.
        purge_every: punctuations of a stream that wait until state is purged, where a preset lets them wait.
        by_preset: predictions by preset, and by the window as a part of the pipeline's.
    """

    figures: JoinFigures
    preset: Preset
    windows: tuple[float | None, float | None]
    purge_every: int
    by_preset: dict[Preset, dict[float, JoinPrediction]]

    @property
    def facts(self) -> dict[str, Any]:
        """The forecast as values for JSON, which has no infinite numbers: they are null."""
        facts: dict[str, Any] = _finite(asdict(self))
        return facts

    def for_sidecar(self) -> JoinStateForecast:
        """Return the forecast for the pipeline's own windows, in the form that the sidecar shows."""
        figures = self.figures
        streams = [{"stream": name, **asdict(each)} for name, each in figures.streams.items()]
        return JoinStateForecast.model_validate(
            _finite(
                {
                    "made_at": time.time(),
                    "preset": self.preset,
                    "windows": self.windows,
                    "purge_every": self.purge_every,
                    "measured_until": figures.measured_until,
                    "given": figures.given,
                    "lag": figures.lag,
                    "left_first": figures.left_first,
                    "batch_seconds": figures.batch_seconds,
                    "streams": streams,
                    "by_preset": [
                        self._of_preset(preset, found[1.0]) for preset, found in self.by_preset.items()
                    ],
                }
            )
        )

    def _of_preset(self, preset: Preset, found: JoinPrediction) -> dict[str, Any]:
        able = PRESETS[preset]
        ways = {"punctuations": able.purge, "windows": able.window and self.windows != (None, None)}
        return {
            "preset": preset,
            "frees": [way for way, is_taken in ways.items() if is_taken],
            "streams": [
                {"stream": name, "rows": side.rows, "bytes": side.bytes}
                for name, side in zip(self.figures.streams, (found.left, found.right), strict=True)
            ],
            "announced_after": found.announced_after,
        }

    def lines(self) -> list[str]:
        """Return the forecast as lines of text."""
        about = [_about(name, each) for name, each in self.figures.streams.items()]
        head = f"{'rows':>12}  {'MB':>8}  {'purged/s':>10}  {'keys/s':>8}  {'announced':>9}"
        found = [
            (preset, part, each) for preset, some in self.by_preset.items() for part, each in some.items()
        ]
        return [
            *about,
            "",
            head,
            *(f"{_numbers(each)}  {self._name(preset, part)}" for preset, part, each in found),
        ]

    def _name(self, preset: Preset, part: float) -> str:
        if not PRESETS[preset].window or self.windows == (None, None):
            return preset
        spans = ["none" if window is None else f"{window * part:g} s" for window in self.windows]
        return f"{preset}, window {' and '.join(dict.fromkeys(spans))}"


def forecast_join(pipeline: Pipeline, figures: JoinFigures, buckets: int) -> JoinForecast:
    """Predict the state of a pipeline's stream join under each preset, with less and more window.

    Args:
        pipeline: the pipeline.
        figures: the figures of both of its streams.
        buckets: buckets of the job.
    """
    join, windows, by_preset = _join_of(pipeline), _windows(pipeline), {}
    left, right = (figures.streams[name] for name in pipeline.sides)
    for preset, able in PRESETS.items():
        setup = partial(
            JoinSetup,
            preset=preset,
            lag=_lag(pipeline, figures),
            purge_every=join.purge_every if able.batch else 1,
            batch_seconds=figures.batch_seconds,
            buckets=buckets,
        )
        parts = _PARTS if able.window and windows != (None, None) else (1.0,)
        by_preset[preset] = {
            part: predict(setup(_side(left, windows[0], part), _side(right, windows[1], part)))
            for part in parts
        }
    return JoinForecast(figures, join.preset, windows, join.purge_every, by_preset)


def with_given(
    pipeline: Pipeline,
    found: JoinFigures | None,
    given: Mapping[str, Mapping[str, float]],
    lag: float | None,
) -> JoinFigures | None:
    """Return the figures with those that are given in place of the measured ones.

    Args:
        pipeline: the pipeline.
        found: the measured figures; `None` without any.
        given: given figures by their name in `StreamFigures`, and by stream.
        lag: given mean seconds between the two streams' punctuations of a key; `None`: as measured.

    Returns:
        `None` if no rate of a stream is known.

    Raises:
        ConfigError: there is no such stream.
    """
    streams = {} if found is None else dict(found.streams)
    for values in given.values():
        for name in values:
            if name not in pipeline.sides:
                raise ConfigError(
                    f"{name!r} is no stream of the pipeline; there are {', '.join(pipeline.sides)}"
                )
    for name in pipeline.sides:
        mine = {field: values[name] for field, values in given.items() if name in values}
        if name in streams:
            streams[name] = replace(streams[name], **mine)
        elif "rate" in mine:
            streams[name] = StreamFigures(**mine)
        else:
            return None
    known = JoinFigures({}) if found is None else found
    return replace(
        known,
        streams=streams,
        lag=known.lag if lag is None else lag,
        given=lag is not None or any(given.values()),
    )


def measured(pipeline: Pipeline, batches: Sequence[FinishedBatch]) -> JoinFigures | None:
    """Read the figures off the batches of a job; `None` if they say too little.

    Closings by rows of a unique, clustered or ordered stream are not counted as its punctuations.

    Args:
        pipeline: the pipeline, as the job runs it.
        batches: batches in a row, oldest first.

    Raises:
        ConfigError: the pipeline has no join.
    """
    preset = _join_of(pipeline).preset
    found = measured_state(pipeline.sides, preset, batches)
    if found is None or found.seconds is None:
        return None
    rates = {name: _rows(found.counts, name) / found.seconds for name in pipeline.sides}
    if not all(rates.values()):
        return None
    able, windows = PRESETS[preset], _windows(pipeline)
    streams = {}
    for name, opposite, window in zip(pipeline.sides, pipeline.sides[::-1], windows, strict=True):
        punctuations = sum(
            found.counts.get(sample(each, stream=name), 0.0)
            for each in ("punctuations_total", "closing_rows_total")
        )
        closed = able.purge and pipeline.closes_keys(opposite)
        streams[name] = StreamFigures(
            rate=rates[name],
            interval=_rows(found.counts, name) / punctuations if punctuations else np.inf,
            until_closed=_mean(found.rows[name] / rates[name], window) if closed else np.inf,
            row_bytes=found.bytes[name] / found.rows[name] if found.rows[name] else _ROW_BYTES,
        )
    lag, left_first = np.inf, 0.5
    if found.held_back is not None:
        lag, left_first = _apart([found.held_back[name] for name in pipeline.sides], windows)
    return JoinFigures(
        streams,
        lag=lag,
        left_first=left_first,
        batch_seconds=found.seconds / found.batches,
        measured_until=batches[-1].committed_at,
    )


def _mean(within: float, limit: float | None) -> float:
    """Return the mean of exponential times whose mean is `within` when `limit` cuts them off."""
    if limit is None or within == 0:
        return within
    means = np.geomspace(within, 1000 * limit, 10_000)
    cut = _cut(means, limit)
    return float(means[np.searchsorted(cut, within)]) if within < cut[-1] else np.inf


def _cut(means: NDArray[np.float64], limit: float | None) -> NDArray[np.float64]:
    """Return the means of exponential times that `limit` cuts off; `None` cuts off none."""
    return means if limit is None else means * -np.expm1(-limit / means)


def _apart(held_back: Sequence[float], windows: tuple[float | None, float | None]) -> tuple[float, float]:
    """Return the mean seconds between the two punctuations of a key, and the share of keys left first.

    A key that a stream closes first waits for the other punctuation, but no longer than the stream's window.
    So its share of the keys is the seconds that it holds an average key back, over the mean seconds that its
    own keys wait. Both shares add up to 1, which gives the mean.

    Args:
        held_back: seconds for which the left and the right stream hold an average key back.
        windows: the windows in seconds; `None` is for ever.
    """
    within = sum(held_back)
    if within == 0:
        return 0.0, 0.5
    means = np.geomspace(within, 1000 * max(within, *(each or 0.0 for each in windows)), 10_000)
    left, right = (each / _cut(means, limit) for each, limit in zip(held_back, windows, strict=True))
    # The shares fall as the mean grows. If they stay above 1, all keys wait for a whole window.
    at = min(int(np.count_nonzero(left + right > 1)), len(means) - 1)
    mean = means[at] if left[at] + right[at] <= 1 else np.inf
    return float(mean), float(left[at] / (left[at] + right[at]))


def is_predictable(pipeline: Pipeline) -> bool:
    """Return whether the state of a pipeline can be predicted: that of the join of two streams."""
    return pipeline.join is not None and len(pipeline.read_streams) == 2


def _join_of(pipeline: Pipeline) -> JoinStep:
    if pipeline.join is None or not is_predictable(pipeline):
        raise ConfigError(
            f"pipeline {pipeline.name} has no join of two streams, whose state could be predicted; leave out "
            "--rate, --interval, --until-closed and --lag"
        )
    return pipeline.join


def _windows(pipeline: Pipeline) -> tuple[float | None, float | None]:
    left, right = (pipeline.window_of(name) for name in pipeline.sides)
    return (
        None if left is None else left.total_seconds(),
        None if right is None else right.total_seconds(),
    )


def _rows(counts: Mapping[str, float], stream: str) -> float:
    """Return the rows of a stream that came to the join."""
    names = ("join_inserted_rows_total", "join_dropped_rows_total")
    return sum(counts.get(sample(name, stream=stream), 0.0) for name in names)


def _side(figures: StreamFigures, window: float | None, part: float) -> Side:
    closed = np.isfinite(figures.until_closed)
    return Side(
        figures.rate,
        figures.row_bytes,
        np.inf if window is None else window * part,
        Times.exponential(figures.until_closed) if closed else NEVER_CLOSED,
        figures.interval,
    )


def _lag(pipeline: Pipeline, figures: JoinFigures) -> Times:
    """Return the time from the right stream's punctuation of a key to the left one's; each may be first."""
    left, right = (pipeline.closes_keys(name) for name in pipeline.sides)
    known = left and right and np.isfinite(figures.lag)
    apart = Times.exponential(figures.lag) if known else NEVER_CLOSED
    first = figures.left_first if left and right else float(left)
    shares = [(share, each) for share, each in ((1 - first, apart), (first, -apart)) if share]
    return Times(
        np.concatenate([each.seconds for _, each in shares]),
        np.concatenate([share * each.weights for share, each in shares]),
    )


def _about(name: str, figures: StreamFigures) -> str:
    closed, interval = figures.until_closed, figures.interval
    return ", ".join(
        [
            f"stream {name}: {figures.rate:,.1f} rows/s",
            f"a punctuation every {interval:,.1f} rows" if np.isfinite(interval) else "no punctuations",
            f"a row's key is closed after {closed:,.1f} s"
            if np.isfinite(closed)
            else "no key of it is closed",
        ]
    )


def _numbers(found: JoinPrediction) -> str:
    both = found.left, found.right
    size, purged = sum(each.bytes for each in both) / 1e6, sum(each.purged for each in both)
    keys, after = sum(each.keys_looked_up for each in both), found.announced_after
    announced = f"{after:7,.1f} s" if np.isfinite(after) else "never"
    rows = f"{found.rows:12,.0f}  {size:8,.1f}" if np.isfinite(found.rows) else f"{'grows':>12}  {'grows':>8}"
    return f"{rows}  {purged:10,.1f}  {keys:8,.1f}  {announced:>9}"


def _finite(value: Any) -> Any:
    """Return a value with null for each infinite number, since JSON has none."""
    match value:
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case float():
            return value if np.isfinite(value) else None
    return value
