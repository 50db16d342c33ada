"""The simulated ops database: what the sink tells of its batches. It outlives the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from endmark.metrics import Samples


class Ledger:
    """Rows by the number of their batch, so that a repeated batch replaces its own.

    Its parts have the names and the methods of `OpsDatabase` that a driver uses.

    Args:
        before: called before a batch is recorded.
    """

    def __init__(self, before: Callable[[], None]) -> None:
        self.runs = Runs()
        self.batches = Batches(before)
        self.turns = Turns()
        self.answers = Answers()


class Runs:
    def require_last(self, run_id: str) -> None:
        pass


class Batches:
    """Keeps the samples of each batch, and the offsets behind it."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self._recorded: dict[int, tuple[Samples, dict[str, dict[str, int]]]] = {}

    def offsets_before(self, pipeline: str, batch_id: int) -> dict[str, dict[str, int]]:
        earlier = [number for number in self._recorded if number < batch_id]
        if not earlier:
            return {}
        return {topic: dict(ends) for topic, ends in self._recorded[max(earlier)][1].items()}

    def record(
        self,
        pipeline: str,
        batch_id: int,
        run_id: str,
        samples: Samples,
        offsets: dict[str, dict[str, int]],
    ) -> None:
        self._before()
        self._recorded[batch_id] = dict(samples), offsets

    @property
    def last(self) -> tuple[Samples, dict[str, dict[str, int]]] | None:
        """The samples of the last batch, and the offsets behind it."""
        return self._recorded[max(self._recorded)] if self._recorded else None

    def total(self, name: str) -> Counter[str]:
        """The sums of a counter over all batches, by its labels."""
        found: Counter[str] = Counter()
        for samples, _ in self._recorded.values():
            for key, value in samples.items():
                if key.partition("{")[0] == name:
                    found[key] += round(value)
        return found


class Turns:
    """Keeps the turns that each batch has read."""

    def __init__(self) -> None:
        self._recorded: dict[int, Sequence[dict[str, Any]]] = {}

    def record(
        self,
        pipeline: str,
        batch_id: int,
        rows: Sequence[dict[str, Any]],
        filed: Mapping[str, Any],
    ) -> None:
        self._recorded[batch_id] = rows

    @property
    def all(self) -> list[dict[str, Any]]:
        """All turns, in the order of their batches."""
        return [turn for _, rows in sorted(self._recorded.items()) for turn in rows]


class Answers:
    def record(self, pipeline: str, batch_id: int, found: Sequence[Mapping[str, Any]]) -> None:
        pass
