"""Faults: their names, how they are injected, and the marks by which a run shows that its fault was there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

from processes.rig import Rig


@dataclass
class Marker:
    """The signs of a fault that a run saw.

    Attributes:
        seen: facts for the result file.
        landed: whether the fault was there; a run without its fault is invalid.
    """

    seen: dict[str, Any] = field(default_factory=dict)
    landed: bool = False


class Job(Enum):
    """The fate that a fault may have for the job's processes."""

    STAYS = "stays"
    MAY_END = "may end"
    ENDS = "ends"


Inject = Callable[[Rig, Random, Marker], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Args:
        number: its number in the matrix of faults, such as `F5`.
        how: tells it in a table of the docs.
        inject: a context around the time with the fault. It takes the rig, random numbers and the marker.
        job: whether the job lives on. Its supervisor starts an ended job again.
        seconds: the least and the greatest length of the fault, in seconds.
        refused: a regular expression of the error with which each later start must fail. Such a fault is the
            last one of its rig. `None`: the job must go on.
        pipelines: the pipelines that it is for; `None` for all.
        disk: whether it needs a disk of its own.
        parts: the parts that it takes; two faults at once have no part in common.
        weight: how often a random walk does it, relative to others.
    """

    number: str
    how: str
    inject: Inject
    job: Job = Job.STAYS
    seconds: tuple[float, float] = (0.0, 0.0)
    refused: str | None = None
    pipelines: tuple[str, ...] | None = None
    disk: bool = False
    parts: frozenset[str] = frozenset()
    weight: float = 1.0
