"""Which partitions of a stream are idle: silent for so long that they do not hold its progress back.

By the timestamps of Kafka's records and never by a clock, so that a replay finds the same. They are compared
within one topic: of a stream that stops as a whole nothing is idle, since all its partitions are as silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Silence:
    """Timestamps of one stream's records of any kind, in microseconds.

    Args:
        allowed: for so long a partition may be silent while another one is not; `None` is for ever.
    """

    def __init__(self, allowed: int | None) -> None:
        self.allowed = allowed
        self._first: int | None = None
        self._last: dict[int, int] = {}

    def hear(self, heard: Mapping[int, tuple[int, int]]) -> None:
        """Take note of the oldest and the newest timestamp of a batch, by partition."""
        for partition, (oldest, newest) in heard.items():
            self._first = oldest if self._first is None else min(self._first, oldest)
            self._last[partition] = max(newest, self._last.get(partition, newest))

    def is_idle(self, partition: int) -> bool:
        """A partition never heard counts as silent since the first record of the topic."""
        if self.allowed is None or self._first is None:
            return False
        return max(self._last.values()) - self._last.get(partition, self._first) > self.allowed

    def snapshot(self) -> dict[str, Any]:
        return {"first": self._first, "last": self._last}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self._first = snapshot["first"]
        self._last = {int(partition): time for partition, time in snapshot["last"].items()}
