"""The cost model of the stream join's state: rows, bytes, purge work, and the delay of announcements.

PWJoin (CIKM'04, section 5.2) estimates the rows of stream B in state after T seconds by its equation 1:

    |S_b| = lambda_b T_b (1 - lambda_pa T / NK_b)

The last factor is the share of keys still open, among all keys that ever came. But the window holds the
newest rows, whose keys are the least likely to be closed. So the estimate tends to 0 while a stream goes on
closing keys, however many rows wait for their punctuation.

`predict` uses Little's law instead: rows in state are the rows that come in a second, times the seconds that
a row stays. A row stays for min(T_b, D) seconds, where D is the time from the row until the other stream
closes its key. By D a row is of one of three classes: *dropped* at arrival if its key is closed already,
*purged* if its key is closed within the window, and else *invalidated* by the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Seconds = NDArray[np.float64]

_QUANTILES = 50


@dataclass(frozen=True, eq=False)
class Times:
    """A distribution of times, as a list of values.

    Args:
        seconds: the values, which may be negative or infinite.
        weights: the share of each value; they add up to 1.
    """

    seconds: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, seconds: ArrayLike) -> Times:
        """Return the distribution in which all of some values are equally likely."""
        values = np.atleast_1d(np.asarray(seconds, float))
        return cls(values, np.full(len(values), 1 / len(values)))

    @classmethod
    def exponential(cls, mean: float) -> Times:
        """Return the exponential distribution of a mean: what to assume when only the mean is known."""
        return cls.of(-mean * np.log((np.arange(_QUANTILES) + 0.5) / _QUANTILES))

    def __add__(self, other: Times) -> Times:
        """Return the distribution of the sum of two independent times."""
        return Times(
            np.add.outer(self.seconds, other.seconds).ravel(),
            np.multiply.outer(self.weights, other.weights).ravel(),
        )

    def __neg__(self) -> Times:
        return Times(-self.seconds, self.weights)

    def mean(self, values: NDArray[np.float64]) -> float:
        """Return the mean of one value for each of `seconds`."""
        return float(self.weights @ values)


NEVER_CLOSED = Times.of(np.inf)
TOGETHER = Times.of(0.0)


@dataclass(frozen=True)
class Side:
    """One input of the join.

    Args:
        rate: rows a second.
        row_bytes: bytes of a row in state.
        window: seconds for which a row stays joinable; infinite without a window.
        until_closed: seconds from a row until the other stream closes its key. A value of 0 or less stands
            for rows whose key is closed already, an infinite one for rows whose key is never closed.
        interval: rows of this stream between two of its punctuations; infinite without punctuations.
        keys_per_punctuation: keys with rows in state that a punctuation of this stream closes.
    """

    rate: float
    row_bytes: float
    window: float = np.inf
    until_closed: Times = NEVER_CLOSED
    interval: float = np.inf
    keys_per_punctuation: float = 1.0

    @property
    def punctuations(self) -> float:
        """Punctuations a second."""
        return self.rate / self.interval


@dataclass(frozen=True)
class JoinSetup:
    """A stream join and its streams.

    Args:
        left, right: the inputs.
        preset: the treatment of state.
        lag: seconds from the right stream's punctuation of a key to the left stream's. It is infinite if the
            left stream never closes the key, and minus infinite if the right one never does.
        purge_every: punctuations of a stream that wait in a bucket until state is purged.
        batch_seconds: seconds from one batch to the next. State changes and keys are announced in batches.
        buckets: buckets, over which punctuations that close one key each are shared out.
        elapsed: seconds since the streams began; infinite for what the state tends to.
    """

    left: Side
    right: Side
    preset: Preset = Preset.AUTO
    lag: Times = TOGETHER
    purge_every: int = 1
    batch_seconds: float = 0.0
    buckets: int = 1
    elapsed: float = np.inf


@dataclass(frozen=True)
class SidePrediction:
    """The predicted state of one side, and the work of purging it.

    Args:
        rows, bytes: rows in state between two batches, and their bytes; infinite if they grow for ever.
        dropped: rows a second that do not enter state.
        purged: rows a second that leave state by a punctuation.
        invalidated: rows a second that leave state by the window.
        keys_looked_up: closed keys a second whose rows are looked for in this side's state.
    """

    rows: float
    bytes: float
    dropped: float
    purged: float
    invalidated: float
    keys_looked_up: float


@dataclass(frozen=True)
class JoinPrediction:
    """The predicted state of a stream join.

    Args:
        left, right: the sides.
        announced_after: mean seconds from the first punctuation of a key until the key is announced; infinite
            if some keys are never announced.
    """

    left: SidePrediction
    right: SidePrediction
    announced_after: float

    @property
    def rows(self) -> float:
        """Rows in state of both sides."""
        return self.left.rows + self.right.rows


def predict(setup: JoinSetup) -> JoinPrediction:
    """Predict the state of a stream join."""
    return JoinPrediction(
        _side(setup, setup.left, setup.right), _side(setup, setup.right, setup.left), _announced_after(setup)
    )


def _side(setup: JoinSetup, side: Side, opposite: Side) -> SidePrediction:
    """Predict the state of one side, and the work of purging it."""
    able, batch = PRESETS[setup.preset], setup.batch_seconds
    until_closed = side.until_closed if able.purge else NEVER_CLOSED
    window = side.window if able.window else np.inf
    waits = _until_purged(setup, opposite)
    closed = until_closed.seconds[:, np.newaxis]
    # A row whose key is closed in the row's own batch is dropped, too. It does not wait for a purge.
    dropped = _within(-closed, batch)
    dies = closed + waits
    stays = _seen(np.minimum(np.minimum(dies, window), setup.elapsed), np.maximum(closed, 0.0), batch)
    # A batch purges before it drops what left the window.
    left = np.subtract(window, dies, out=np.full(dies.shape, -np.inf), where=np.isfinite(dies))
    purged = (1 - dropped) * _within(left, batch)
    invalidated = 1 - dropped - purged if np.isfinite(window) else np.zeros_like(stays)

    def a_second(shares: NDArray[np.float64]) -> float:
        return side.rate * until_closed.mean(shares.mean(axis=1))

    rows = a_second(stays)
    return SidePrediction(
        rows=rows,
        bytes=rows * side.row_bytes,
        dropped=a_second(dropped),
        purged=a_second(purged),
        invalidated=a_second(invalidated),
        keys_looked_up=opposite.punctuations * opposite.keys_per_punctuation if able.purge else 0.0,
    )


def _within(slack: Seconds, batch: float) -> NDArray[np.float64]:
    """Return the chance that one event is not in a later batch than another.

    Args:
        slack: seconds from the first event to the second one; negative if they come the other way round.
        batch: seconds of a batch.
    """
    if batch == 0:
        return (slack >= 0).astype(float)
    return np.clip(1 + slack / batch, 0.0, 1.0)


def _seen(stays: Seconds, closed: Seconds, batch: float) -> Seconds:
    """Return the mean seconds for which the ends of batches see a row in state.

    A row that comes u seconds before a batch ends is seen at the ages u, u + `batch` and so on, until it has
    stayed. It is never seen if its key is closed in those u seconds. This is the mean over all u.

    Args:
        stays: seconds from a row's arrival until it leaves state, if it enters.
        closed: seconds from a row's arrival until its key is closed; not negative.
        batch: seconds of a batch; 0: rows are seen at any time.
    """
    if batch == 0:
        return np.where(closed > 0, stays, 0.0)
    ends = np.isfinite(stays)
    whole, rest = np.divmod(np.where(ends, stays, 0.0), batch)
    enters = np.minimum(closed, batch)
    return np.where(ends, whole * enters + np.minimum(enters, rest), np.inf)


def _until_purged(setup: JoinSetup, opposite: Side) -> NDArray[np.float64]:
    """Return equally likely times from a punctuation of `opposite` until it purges, counted in whole batches.

    Punctuations wait until a batch brings their number to `purge_every`. Rates of 10 percent more and less
    stand for the streams' own ups and downs. Without them a cycle of 4.0 batches would never take 5, which
    in fact every second one does.
    """
    shared = setup.buckets if opposite.keys_per_punctuation == 1 else 1
    rate, every = opposite.punctuations / shared, setup.purge_every
    if rate == 0 or every == 1:
        return np.zeros(1)
    if rate * setup.batch_seconds <= 1:
        cycle = np.arange(every) / rate
    else:
        batches = np.ceil(every / (rate * setup.batch_seconds * np.linspace(0.9, 1.1, 21)))
        cycle = np.concatenate([np.arange(each) for each in batches]) * setup.batch_seconds
    return np.quantile(cycle, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)


def _announced_after(setup: JoinSetup) -> float:
    """Return the mean seconds from the first punctuation of a key until the key is announced."""
    able, lag = PRESETS[setup.preset], setup.lag
    if able.propagate is Propagation.NEVER:
        return np.inf
    both = np.abs(lag.seconds)
    if able.propagate is Propagation.EARLY:
        first_window = np.where(lag.seconds > 0, setup.right.window, setup.left.window)
        both = np.minimum(both, first_window)
    return lag.mean(both) + setup.batch_seconds / 2
