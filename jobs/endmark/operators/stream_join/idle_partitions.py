"""Idle partitions: partitions that have been silent for so long that they do not hold back progress.

Silence is measured by the timestamps of Kafka's records and never by a clock, so a replay finds the same
partitions idle. Timestamps are compared within one topic. If a whole topic is silent, none of its partitions
is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class IdlePartitions:
    """Remembers the newest timestamp of each partition of one stream, and finds the idle ones.

    Args:
        allowed: microseconds for which a partition may be silent while another one is not; `None`: for ever.
    """

    def __init__(self, allowed: int | None) -> None:
        self.allowed = allowed
        self._first: int | None = None
        self._last: dict[int, int] = {}

    def hear(self, heard: Mapping[int, tuple[int, int]]) -> None:
        """Remember the oldest and the newest timestamp (µs) of each partition in a batch."""
        for partition, (oldest, newest) in heard.items():
            self._first = oldest if self._first is None else min(self._first, oldest)
            self._last[partition] = max(newest, self._last.get(partition, newest))

    def is_idle(self, partition: int) -> bool:
        """Return whether a partition is idle. One without records is silent since its topic's first one."""
        if self.allowed is None or self._first is None:
            return False
        return max(self._last.values()) - self._last.get(partition, self._first) > self.allowed

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore`, ready for JSON."""
        return {"first": self._first, "last": self._last}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self._first = snapshot["first"]
        self._last = {int(partition): time for partition, time in snapshot["last"].items()}
