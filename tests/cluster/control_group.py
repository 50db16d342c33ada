"""Linux' control groups: the CPU time of processes, counted and limited."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from support.processes import descendants

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 20_000  # short, so that a limited process stands still for milliseconds at a time


class ControlGroup:
    """Processes whose CPU time is counted together, that of ended ones and of later children, too.

    It needs root, and control groups of the first version.

    Args:
        name: the name of the group, which no other one may have.
    """

    def __init__(self, name: str) -> None:
        self._places = [
            _ROOT / controller / f"endmark-{os.getpid()}-{name}" for controller in ("cpu", "cpuacct")
        ]

    def __enter__(self) -> Self:
        for place in self._places:
            place.mkdir()
        return self

    def __exit__(self, *_error: object) -> None:
        for place in self._places:
            _move((place / "cgroup.procs").read_text().split(), place.parent)
            place.rmdir()

    def add(self, pid: int) -> None:
        """Take a process and all that it has started. What these start later is in the group, too."""
        for place in self._places:
            _move(map(str, descendants(pid)), place)

    def limit(self, cores: float | None) -> None:
        """Let the processes have so much of the machine's cores together; `None` is no limit."""
        quota = -1 if cores is None else round(cores * _PERIOD_US)
        (self._places[0] / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (self._places[0] / "cpu.cfs_quota_us").write_text(str(quota))

    def seconds(self) -> float:
        """Return the CPU time of the processes so far."""
        return int((self._places[1] / "cpuacct.usage").read_text()) / 1e9


def _move(pids: Iterable[str], place: Path) -> None:
    for pid in pids:
        try:
            (place / "cgroup.procs").write_text(pid)
        except ProcessLookupError:
            continue  # it has ended meanwhile
