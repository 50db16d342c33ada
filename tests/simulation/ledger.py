"""The simulated ops database: what the sink tells of its batches. It outlives the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from endmark.metrics import Samples


class Ledger:
    """Rows by the number of their batch, so that a repeated batch replaces its own.

    Attributes:
        batches: the samples of each batch, and the offsets behind it.

    Args:
        before: called before a batch is recorded.
    """

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self.batches: dict[int, tuple[Samples, dict[str, dict[str, int]]]] = {}
        self._turns: dict[int, Sequence[dict[str, Any]]] = {}

    def offsets_before(self, pipeline: str, batch_id: int) -> dict[str, dict[str, int]]:
        earlier = [number for number in self.batches if number < batch_id]
        if not earlier:
            return {}
        return {topic: dict(ends) for topic, ends in self.batches[max(earlier)][1].items()}

    def require_last(self, run_id: str) -> None:
        pass

    def record_batch(
        self,
        pipeline: str,
        batch_id: int,
        run_id: str,
        samples: Samples,
        offsets: dict[str, dict[str, int]],
    ) -> None:
        self._before()
        self.batches[batch_id] = dict(samples), offsets

    def record_turns(
        self,
        pipeline: str,
        batch_id: int,
        rows: Sequence[dict[str, Any]],
        filed: Mapping[str, Any],
    ) -> None:
        self._turns[batch_id] = rows

    def record_answers(self, pipeline: str, batch_id: int, found: Sequence[Mapping[str, Any]]) -> None:
        pass

    @property
    def turns(self) -> list[dict[str, Any]]:
        """All turns, in the order of their batches."""
        return [turn for _, rows in sorted(self._turns.items()) for turn in rows]

    @property
    def latest(self) -> tuple[Samples, dict[str, dict[str, int]]] | None:
        """The samples of the last batch, and the offsets behind it."""
        return self.batches[max(self.batches)] if self.batches else None

    def total(self, name: str) -> Counter[str]:
        """The sums of a counter over all batches, by its labels."""
        found: Counter[str] = Counter()
        for samples, _ in self.batches.values():
            for key, value in samples.items():
                if key.partition("{")[0] == name:
                    found[key] += round(value)
        return found
