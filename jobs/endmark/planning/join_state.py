"""The state of the stream join, as the batches of a job measured it.

`endmark plan` reads the figures of the streams off it. The sidecar shows it beside the predicted state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.metrics import Samples, add, sample, total
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.control.ops_database.batches import FinishedBatch

BATCHES = 100  # figures are averages over so many last batches


@dataclass(frozen=True)
class MeasuredState:
    """The mean state of a stream join after some batches in a row.

    Times are event time, as windows are.

    Args:
        batches: the number of batches.
        counts: the summed samples of these batches.
        rows, bytes: rows in state after a batch, and their bytes, by stream.
        seconds: seconds for which the batches lasted; `None` if the progress of a stream does not tell it.
        held_back: seconds for which a stream holds an announced key back on average, from its punctuation to
            the batch that announces the key, by stream. A key that the other stream closed first counts as 0.
            `None` if no key was announced, or if the preset does not keep the keys that wait.
    """

    batches: int
    counts: Samples
    rows: Mapping[str, float]
    bytes: Mapping[str, float]
    seconds: float | None
    held_back: Mapping[str, float] | None

    @property
    def announced_after(self) -> float | None:
        """Mean seconds from the first punctuation of a key until the key is announced; `None`: not known.

        A punctuation and what completes it come half a batch before the end of their batch, on average.
        """
        if self.held_back is None or self.seconds is None:
            return None
        return sum(self.held_back.values()) + self.seconds / self.batches / 2


def measured_state(
    streams: Sequence[str], preset: Preset, batches: Sequence[FinishedBatch]
) -> MeasuredState | None:
    """Average the state of the join over the batches of a job; `None` if there are fewer than two.

    Rates need the time between two batches. So the first batch is only where that time begins.

    Args:
        streams: the names of both streams.
        preset: the preset of the join.
        batches: batches in a row, oldest first.
    """
    if len(batches) < 2:
        return None
    counts, number = add(batch.samples for batch in batches[1:]), len(batches) - 1

    def mean(name: str, stream: str) -> float:
        return counts.get(sample(name, operator="join", stream=stream), 0.0) / number

    seconds = _seconds(streams, batches[0].samples, batches[-1].samples)
    announced = total(counts, "propagated_punctuations_total")
    held_back = None
    if PRESETS[preset].propagate is Propagation.EARLY and announced and seconds is not None:
        # Little's law: the keys that wait, over the keys that are announced in a second.
        held_back = {
            name: total(counts, "pending_punctuations", stream=name) / number * seconds / announced
            for name in streams
        }
    return MeasuredState(
        batches=number,
        counts=counts,
        rows={name: mean("state_rows", name) for name in streams},
        bytes={name: mean("state_bytes", name) for name in streams},
        seconds=seconds,
        held_back=held_back,
    )


def _seconds(streams: Sequence[str], first: Samples, last: Samples) -> float | None:
    """Return the seconds by which the slower stream's progress grew; `None` if one's did not grow."""
    keys = [sample("progress_event_time_seconds", stream=name) for name in streams]
    if not all(key in samples for key in keys for samples in (first, last)):
        return None
    seconds = min(last[key] - first[key] for key in keys)
    return seconds if seconds > 0 else None
